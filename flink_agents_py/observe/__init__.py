"""What can be seen of agents at work: event log, metrics, traces, pictures of plans, the list of errors."""
