"""What every real host of the engine shares: the system clock and the executor of durable calls."""
