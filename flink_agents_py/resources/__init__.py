"""Resources of agents: descriptors and base classes."""
