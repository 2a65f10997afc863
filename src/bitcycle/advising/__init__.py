"""Advice on which schedule to use, with reasons: by the paper's rules, by a budget, or by one's own runs."""

from __future__ import annotations

from bitcycle.advising.advice import Advice, Option
from bitcycle.advising.advisor import advise
from bitcycle.advising.comparison import Record

__all__ = ["Advice", "Option", "Record", "advise"]
