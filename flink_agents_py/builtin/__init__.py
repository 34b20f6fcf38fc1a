"""What is written on the public API alone: the actions behind chat, tool and retrieval events, and the ReAct agent."""
