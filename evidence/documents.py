"""Everything in the repository that the figures decide: the page, the verdicts for advice, quotes of them, a picture.

A document quotes a verdict between two comments, which a reader does not see::

    Quality follows cost: <!-- verdict quality-follows-cost -->supported on 3 of 4 domains (...)<!-- end -->.

``in short`` after the name of the claim leaves out the names of domains.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from bitcycle.lab.advice.verdicts import FILE, Claims, verdict_in
from evidence.design import FOLDER, Design
from evidence.figures import AllFigures
from evidence.judging import Mark, judge
from evidence.page import markdown_page
from evidence.plot import cost_plot

PAGE, PICTURE = Path("docs/evidence.md"), Path("docs/pictures/quality_cost.svg")
PICTURED = "digits"
"""The domain whose quality against cost the README shows."""
VERDICTS = Path("src/bitcycle/lab/advice", FILE)
_QUOTING = ("best_practices", "critical_periods", "advice", "range_test", "recipes")
QUOTING: tuple[str, ...] = ("README.md", *(f"docs/{name}.md" for name in _QUOTING))
_QUOTE = re.compile(r"(<!-- verdict ([a-z0-9-]+)( in short)? -->).*?(<!-- end -->)", re.DOTALL)


def repository_of(folder: Path) -> Path:
    """Return the root of the repository whose folder ``evidence`` this is.

    Raises:
        ValueError: It is another folder, such as a copy.
    """
    found = folder.resolve()
    if found.name != FOLDER.name or not all(
        (found.parent / name).is_file() for name in map(str, (PAGE, VERDICTS, *QUOTING))
    ):
        raise ValueError(f"--update needs the folder evidence of the repository, got {folder}")
    return found.parent


def documents(
    design: Design, figures: AllFigures, pilots: AllFigures, repeated: AllFigures, root: Path
) -> dict[Path, str]:
    """Return the text of every document under the root of the repository, as the figures have it.

    Raises:
        ValueError: A document quotes a claim that does not exist.
    """
    plot = cost_plot(design, design.domain(PICTURED), figures)
    assert plot is not None, f"{PICTURED} has figures"
    known: Claims = {claim.id: {"text": claim.text, "domains": []} for claim in design.claims}
    for cell in judge(design, figures):
        if cell.mark in (Mark.SUPPORTED, Mark.CONTRADICTED, Mark.OPEN):
            task = {key: cell.domain.task[key] for key in ("task", "bits")}
            known[cell.claim.id]["domains"].append({"domain": cell.domain.id, **task, "mark": str(cell.mark)})
    return {
        root / PAGE: markdown_page(design, figures, pilots, repeated),
        root / PICTURE: plot.file(),
        root / VERDICTS: json.dumps(known, indent=1, ensure_ascii=False) + "\n",
        **{root / name: quoted((root / name).read_text(encoding="utf-8"), known) for name in QUOTING},
    }


def quoted(text: str, claims: Claims) -> str:
    """Return a text with its quotes brought up to date.

    >>> claims = {"a": {"text": "A.", "domains": [{"domain": "digits", "task": "image", "mark": "open"}]}}
    >>> quoted("A is <!-- verdict a -->true<!-- end -->.", claims)
    'A is <!-- verdict a -->open on 1 of 1 domain (digits)<!-- end -->.'
    >>> quoted("A is <!-- verdict a in short -->true<!-- end -->.", claims)
    'A is <!-- verdict a in short -->open on 1 of 1 domain<!-- end -->.'
    """

    def quote(match: re.Match[str]) -> str:
        begin, claim, short, end = match.groups()
        if claim not in claims:
            raise ValueError(f"a document quotes the verdict on {claim!r}, which is not a claim")
        return f"{begin}{verdict_in(claims, claim).describe(names=not short)}{end}"

    return _QUOTE.sub(quote, text)
