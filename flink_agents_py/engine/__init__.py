"""The runtime core: deterministic, single-threaded, free of I/O and of Flink.

Everything it needs from outside comes through the protocols in :mod:`flink_agents_py.engine.ports`.
"""
