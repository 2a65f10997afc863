"""Advice on which schedule to use, with reasons: by the paper's rules, by a budget, or by your own runs."""

from __future__ import annotations

from bitcycle.advice.advisor import advise
from bitcycle.advice.answer import Advice, Alternative, ModelSaving, Settings
from bitcycle.advice.evidence import Evidence

__all__ = ["Advice", "Alternative", "Evidence", "ModelSaving", "Settings", "advise"]
