"""What a training step on a few bits takes in time and memory: the command ``bitcycle bench``.

Everything that is compared runs in turns in one process, so that a change in the speed of the machine affects all of it
alike. Import the modules directly: :mod:`~bitcycle._bench.settings` needs no torch.
"""
