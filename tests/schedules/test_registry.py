"""The registry of kinds of schedules: a kind that is registered has specs, and all laws are tested for it."""

from dataclasses import dataclass

import numpy as np
import pytest

import bitcycle as bc
from bitcycle.schedules import Schedule, register
from bitcycle.schedules.base import Quantity
from bitcycle.schedules.grammar import KINDS, parse_int
from tests.schedules.strategies import drawn_kinds


@dataclass(frozen=True)
class Alternating(Schedule):
    """Two widths in turn, written ``alternating:3:8``."""

    first: int
    second: int

    @classmethod
    def names(cls):
        return ("alternating",)

    @classmethod
    def parse(cls, node, reader):
        return cls(*(parse_int(text, "bits") for text in node.fields))

    def values(self, steps, total):
        return np.where(steps % 2, self.second, self.first)

    def limits(self, total):
        return min(self.first, self.second), max(self.first, self.second)

    def __str__(self):
        return f"alternating:{self.first}:{self.second}"


@pytest.fixture
def registered():
    register(Alternating)
    yield Alternating
    KINDS.remove(Alternating)


def test_a_new_kind_is_known_to_specs(registered):
    s = bc.schedule("join(alternating:3:8, 0.5, static:4)")
    assert s.over(8).tolist() == [3, 8, 3, 8, 4, 4, 4, 4]
    assert bc.schedule(str(s)) == s
    assert s.saving(8) > 0
    with pytest.raises(ValueError, match="did you mean 'alternating'?"):
        bc.schedule("alternatin:3:8")


def test_a_name_is_registered_once(registered):
    with pytest.raises(ValueError, match="another kind of schedule is called 'alternating'"):
        register(Alternating)


def test_a_kind_of_bits_is_no_strength(registered):
    with pytest.raises(ValueError, match="unknown strength"):
        bc.schedules.strength("alternating:3:8")


def test_every_kind_is_drawn_and_every_name_is_read():
    for quantity in Quantity:
        assert drawn_kinds(quantity) == {kind for kind in KINDS if quantity in kind.quantities}
    names = [name for kind in KINDS for name in kind.names()]
    assert len(names) == len(set(names))
    for kind in KINDS:
        assert all(kind.reads(name, Quantity.BITS) for name in kind.names())
