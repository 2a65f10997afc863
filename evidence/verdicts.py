"""The verdicts as a file of the package, so that ``bc.advise`` can quote them where the figures are not at hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from evidence.design import Design
from evidence.judging import AllFigures, Cell, Mark, judge

TOLD = (Mark.SUPPORTED, Mark.CONTRADICTED, Mark.OPEN)
"""The marks that say something about a claim."""


def verdicts(design: Design, figures: AllFigures) -> str:
    """Return the text of the file: for every claim its sentence, and the mark on every domain where it was judged."""
    cells = [cell for cell in judge(design, figures) if cell.mark in TOLD]
    claims = {claim.id: {"text": claim.text, "domains": _of(claim.id, cells)} for claim in design.claims}
    return json.dumps(claims, indent=1, ensure_ascii=False) + "\n"


def _of(claim: str, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    return [
        {
            "domain": cell.domain.id,
            "task": cell.domain.task["task"],
            "bits": cell.domain.task["bits"],
            "mark": str(cell.mark),
        }
        for cell in cells
        if cell.claim.id == claim
    ]
