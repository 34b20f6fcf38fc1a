"""Action state stores: what was done stays done between checkpoints."""
