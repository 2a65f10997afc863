"""One run: its definition, the training loop that all tasks share, its result and its checkpoints."""
