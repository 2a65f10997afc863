"""Backends: how the three products of a site are computed. All of them compute the same function.

A backend has the functions ``output``, ``input_gradient`` and ``weight_gradient``, which take operands on their grids.
"""
