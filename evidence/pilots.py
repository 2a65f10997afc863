"""The part of the page about the pilots: what they showed before judging, and the power that follows from them."""

from __future__ import annotations

from typing import NamedTuple

from bitcycle._support.judging import Effect
from bitcycle.lab import format as fmt
from bitcycle.lab.report.tables import Column
from evidence.design import Design, Domain, Role
from evidence.judging import AllFigures, gap_of
from evidence.power import Power, powers


class PilotGap(NamedTuple):
    """What static q_min lost in a pilot, by the measure that its domain is judged by."""

    domain: Domain
    gap: Effect


def pilot_gaps(design: Design, pilots: AllFigures) -> list[PilotGap]:
    """Return the gaps of all domains that have a pilot of their own, with several seeds."""
    own = [domain for domain in design.domains if not domain.gap_of]
    gaps = [(domain, gap_of(design, domain, pilots, domain.measure, Role.TUNING)) for domain in own]
    return [PilotGap(domain, gap) for domain, gap in gaps if gap is not None and gap.seeds > 1]


def pilot_powers(design: Design, pilots: AllFigures) -> list[Power]:
    """Return the power of claims by the measure that their domain is judged by."""
    return [each for each in powers(design, pilots) if each.measure is each.domain.measure]


def _interval(gap: Effect) -> str:
    return f"{fmt.number(gap.mean)} ({fmt.number(gap.lower)} to {fmt.number(gap.upper)})"


GAP_COLUMNS: list[Column[PilotGap]] = [
    Column("domain", lambda row: row.domain.id, numeric=False),
    Column("by", lambda row: str(row.domain.measure), numeric=False),
    Column("pilot seeds", lambda row: str(row.gap.seeds)),
    Column("static q_min loses", lambda row: _interval(row.gap)),
]
POWER_COLUMNS: list[Column[Power]] = [
    Column("domain", lambda row: row.domain.id, numeric=False),
    Column("claim", lambda row: row.claim.text, numeric=False),
    Column("pilot seeds", lambda row: str(row.pilot_seeds)),
    Column("scatter in gaps", lambda row: fmt.fixed(row.scatter, 2)),
    Column("judging seeds", lambda row: str(row.domain.seeds)),
    Column("decided if there is no effect", lambda row: fmt.percent(row.decided(row.domain.seeds), 0)),
    Column("detectable", lambda row: fmt.fixed(row.detectable(row.domain.seeds), 2)),
]
