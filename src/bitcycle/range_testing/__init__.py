"""The precision range test: where q_min is, for any model and training step, without disturbing anything."""

from __future__ import annotations

from bitcycle.range_testing.judging import Evidence
from bitcycle.range_testing.result import RangeTest
from bitcycle.range_testing.testing import range_test

__all__ = ["Evidence", "RangeTest", "range_test"]
