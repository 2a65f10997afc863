"""What a training step on a few bits takes in time and memory: the command ``python -m benchmarks.speed``."""
