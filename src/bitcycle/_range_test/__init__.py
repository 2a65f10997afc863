"""The precision range test: where q_min is, for any model and training step, without disturbing anything."""

from __future__ import annotations

from bitcycle._range_test.judging import Evidence
from bitcycle._range_test.result import RangeTest
from bitcycle._range_test.testing import range_test

__all__ = ["Evidence", "RangeTest", "range_test"]
