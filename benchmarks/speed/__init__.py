"""What a training step on a few bits takes in time and memory: the command ``python -m benchmarks.speed``.

Everything that is compared runs in turns in one process, so that a change in the speed of the machine affects all of it
alike. Import the modules directly: :mod:`~benchmarks.speed.settings` needs no torch.
"""
