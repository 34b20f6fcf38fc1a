"""What a callback produced; the host emits it and empties the lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flink_agents_py.engine.run import Run


class Effects:
    """Outputs as ``(value, run)`` and side outputs as ``(tag, value, run)``, in order of emission.

    The run tells the key, and the timestamp of the input that caused the output.
    """

    __slots__ = ("outputs", "side_outputs")

    def __init__(self) -> None:
        self.outputs: list[tuple[Any, Run]] = []
        self.side_outputs: list[tuple[str, Any, Run]] = []

    def take_outputs(self) -> list[tuple[Any, Run]]:
        outputs = self.outputs
        if outputs:
            self.outputs = []
        return outputs

    def take_side_outputs(self) -> list[tuple[str, Any, Run]]:
        side_outputs = self.side_outputs
        if side_outputs:
            self.side_outputs = []
        return side_outputs
