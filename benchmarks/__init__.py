"""Scripts that measure, and the studies whose figures the documentation quotes. Run from a clone."""
