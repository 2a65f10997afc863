"""Advice on which schedule to use: by the paper's rules and their verdicts, by a budget, or by your own runs."""

from __future__ import annotations

from bitcycle.lab.advice.advisor import advise
from bitcycle.lab.advice.answer import Advice, Alternative, ModelSaving, Reason, TrainingSettings
from bitcycle.lab.advice.records import RunRecord

__all__ = ["Advice", "Alternative", "ModelSaving", "Reason", "RunRecord", "TrainingSettings", "advise"]
