"""Samples of combinations: every pair of values in the fast tier, every combination in the slow one."""

import itertools

import pytest


def pairwise(*axes):
    """Return few rows, one value of each axis in a row, so that every pair of values of two axes is in some row.

    Greedy and deterministic: a row begins with the first pair that is still missing, and each further axis gives the
    value that adds most missing pairs. Rows hold positions of values.

    >>> pairwise("ab", "cd", "ef")
    [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)]
    """
    positions = [range(len(axis)) for axis in axes]
    missing = {
        ((i, a), (j, b)): None  # a dict, because its order is that of insertion
        for i, j in itertools.combinations(range(len(axes)), 2)
        for a, b in itertools.product(positions[i], positions[j])
    }
    rows = []
    while missing:
        row = dict(next(iter(missing)))
        for k in set(range(len(axes))) - set(row):
            row[k] = max(positions[k], key=lambda value: sum(pair in missing for pair in _pairs(row, (k, value))))
        rows.append(tuple(row[k] for k in range(len(axes))))
        for pair in itertools.combinations(enumerate(rows[-1]), 2):
            missing.pop(pair, None)
    return rows


def _pairs(row, new):
    return [tuple(sorted((old, new))) for old in row.items()]


def combinations(full=True, **axes):
    """Parametrize a test by the axes: pairwise in the fast tier; the other combinations are slow, if there are any.

    Args:
        full: Whether the slow tier runs the other combinations.
        axes: The values of each argument of the test, in a list, or in a dict that names them.
    """
    values = [list(axis.values()) if isinstance(axis, dict) else list(axis) for axis in axes.values()]
    names = [[str(name) for name in axis] for axis in axes.values()]
    sampled = set(pairwise(*values))
    rows = itertools.product(*map(range, map(len, values))) if full else sorted(sampled)
    parameters = [
        pytest.param(
            *(axis[k] for axis, k in zip(values, row, strict=True)),
            id="-".join(axis[k] for axis, k in zip(names, row, strict=True)),
            marks=() if row in sampled else pytest.mark.slow,
        )
        for row in rows
    ]
    return pytest.mark.parametrize(tuple(axes), parameters)
