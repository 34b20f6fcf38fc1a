"""Long-term memory: items that outlive the state of the job, found by meaning, kept apart by job, key and set.

``ctx.long_term_memory`` gives it to an action; see :class:`LongTermMemory`.
"""

from flink_agents_py.long_term.items import Compaction, MemorySetItem
from flink_agents_py.long_term.memory import LongTermMemory, MemorySet

__all__ = ["Compaction", "LongTermMemory", "MemorySet", "MemorySetItem"]
