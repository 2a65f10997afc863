"""Advice with made-up verdicts: the rules are tested without the evidence of the day."""

import pytest

from bitcycle.lab.advice import verdicts
from bitcycle.lab.advice.rules import RULES


@pytest.fixture
def judged(monkeypatch):
    """Return a function that replaces all verdicts: some claims get a mark on one domain, the others none."""

    def replace_verdicts(mark="", claims=(), task="image"):
        domains = [{"domain": "d", "task": task, "bits": [3, 8], "mark": mark}]
        made_up = {id: {"text": id, "domains": domains if id in claims else []} for id in RULES}
        monkeypatch.setattr(verdicts, "_read", lambda: made_up)

    return replace_verdicts


@pytest.fixture(autouse=True)
def without_evidence(request, judged):
    """No verdicts at all, but in the tests of the verdicts themselves."""
    if not request.module.__name__.endswith("test_verdicts"):
        judged()
