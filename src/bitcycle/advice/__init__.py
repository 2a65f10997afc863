"""Advice on which schedule to use, with reasons: by the paper's rules, by a budget, or by one's own runs."""

from __future__ import annotations

from bitcycle.advice.advisor import advise
from bitcycle.advice.answer import Advice, Option
from bitcycle.advice.comparison import Record

__all__ = ["Advice", "Option", "Record", "advise"]
