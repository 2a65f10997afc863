"""The registry of kinds of schedules: a kind that is registered has specs, random examples and all laws."""

from dataclasses import dataclass
from random import Random

import numpy as np
import pytest

import bitcycle as bc
from bitcycle.schedules import Schedule, register
from bitcycle.schedules.base import Quantity
from bitcycle.schedules.grammar import parse_int
from bitcycle.schedules.registry import KINDS, random_schedule


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
        return cls(*(parse_int(text, "bits") for text in node.texts()))

    @classmethod
    def random(cls, rng, quantity, part):
        return cls(rng.randint(1, 16), rng.randint(1, 16))

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


def test_a_new_kind_is_known_to_specs_and_drawn(registered):
    s = bc.schedule("join(alternating:3:8, 0.5, static:4)")
    assert s.over(8).tolist() == [3, 8, 3, 8, 4, 4, 4, 4]
    assert bc.schedule(str(s)) == s
    assert s.saving(8) > 0
    with pytest.raises(ValueError, match="did you mean 'alternating'?"):
        bc.schedule("alternatin:3:8")
    assert any(isinstance(random_schedule(Random(seed), depth=0), Alternating) for seed in range(100))


def test_a_name_is_registered_once(registered):
    with pytest.raises(ValueError, match="another kind of schedule is called 'alternating'"):
        register(Alternating)


def test_a_kind_of_bits_is_no_strength(registered):
    with pytest.raises(ValueError, match="unknown strength"):
        bc.schedules.strength("alternating:3:8")


def test_every_kind_is_drawn_and_every_name_is_read():
    for quantity in Quantity:
        drawn = {type(random_schedule(Random(seed), quantity, depth=1)) for seed in range(300)}
        assert drawn == {kind for kind in KINDS if quantity in kind.quantities}
    names = [name for kind in KINDS for name in kind.names()]
    assert len(names) == len(set(names))
    for kind in KINDS:
        assert all(kind.reads(name, Quantity.BITS) for name in kind.names())


def test_short_names():
    short = {
        spec: bc.schedule(spec).short_name() for spec in ("full", "static:8", "static:5.62", "RR:3-8:constant=0.5")
    }
    assert [each.name for each in short.values()] == ["full", "static 8", "static 5.62", "RR"]
    ramp = short["RR:3-8:constant=0.5"]
    assert (ramp.bits, ramp.cycles, ramp.settings) == ("3-8", "n=8", ("constant=0.5",))
    assert bc.schedule("linear-fall:3-8").short_name().cycles == ""
    assert bc.schedule("delay(0.5, CR:3-8)").short_name().name == "delay(0.5, CR:3-8:cycles=8)"
    assert not bc.schedule("CR:8-8").is_static
