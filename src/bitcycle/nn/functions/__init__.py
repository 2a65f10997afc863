"""How torch's functions that multiply are computed at the sites of a module, see :mod:`bitcycle.nn.functional_ops`."""
