"""Jobs a user can submit as they are, and the benchmarks that measure the framework."""
