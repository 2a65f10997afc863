"""The precision range test: finds q_min for any model and training step, and leaves both unchanged."""

from __future__ import annotations

from bitcycle._range_test.judging import LevelResult, LevelVerdict
from bitcycle._range_test.result import Conclusion, RangeTestResult
from bitcycle._range_test.testing import range_test

__all__ = ["Conclusion", "LevelResult", "LevelVerdict", "RangeTestResult", "range_test"]
