"""Power by simulation from pilots: how often would a claim be decided with so many seeds, if its effect were so large?

The scatter of a claim's effect over seeds comes from pilot runs with the seeds for tuning, in units of the pilot's gap.
A simulated study draws the effects of its seeds from a normal distribution with that standard deviation around an
assumed effect and applies the rule of the claim. The uncertainty of the scatter, known from few pilot seeds, is part
of the simulation: each simulated study has a variance drawn from its distribution, ``s^2 (n - 1) / chi^2(n - 1)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np

from bitcycle.lab.judging import Effect
from bitcycle.lab.statistics.estimates import stats
from evidence.design import Claim, Design, Domain, Measure, Rule
from evidence.figures import AllFigures
from evidence.judging import Mark, effects_by_seed, gap_of, verdict

STUDIES = 4000
"""Simulated studies for each number."""
WANTED = 0.8
"""The power at which an effect counts as detectable."""
_SEED = 2403


@dataclass(frozen=True)
class Power:
    """The power of one claim in one domain by one measure."""

    claim: Claim
    domain: Domain
    measure: Measure
    pilot_seeds: int
    effect: float
    """Mean over the pilot seeds, in units of the gap."""
    scatter: float
    """Standard deviation over the pilot seeds, in units of the gap."""

    def decided(self, seeds: int) -> float:
        """Return the share of simulated studies without an effect that give the right verdict.

        The right verdict on a claim of the rule ``greater`` is then contradicted, on one of ``no worse`` supported.
        """
        right = Mark.CONTRADICTED if self.claim.rule is Rule.GREATER else Mark.SUPPORTED
        simulated = zip(*(values.tolist() for values in self._simulated(seeds)), strict=True)
        effects = (Effect(mean, mean - reach, mean + reach, seeds) for mean, reach in simulated)
        return sum(verdict(self.claim, effect) is right for effect in effects) / STUDIES

    def detectable(self, seeds: int) -> float:
        """Return the smallest effect whose lower bound is above zero in 80 % of simulated studies."""
        mean, reach = self._simulated(seeds)
        return float(np.quantile(reach - mean, WANTED))

    def _simulated(self, seeds: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean effects of simulated studies without an effect, and how far their bounds reach from them."""
        random = np.random.default_rng((_SEED, seeds))
        degrees = self.pilot_seeds - 1
        sd = self.scatter * np.sqrt(degrees / random.chisquare(degrees, STUDIES))
        draws = random.standard_normal((STUDIES, seeds)) * sd[:, None]
        t = float(stats().t.ppf(0.95, seeds - 1))
        return draws.mean(1), t * draws.std(1, ddof=1) / math.sqrt(seeds)


def powers(design: Design, pilots: AllFigures) -> list[Power]:
    """Return the power of all claims in all domains whose pilots have the settings and show a gap, by both measures."""
    found = []
    for domain in design.domains:
        for claim, measure in product(design.claims_about(domain), Measure):
            study, gap = pilots.get((domain.id, claim.study)), gap_of(design, domain, pilots, measure)
            if study is not None and gap is not None and gap.mean > 0:
                by_seed = effects_by_seed(claim, study.by_setting(measure), study.costs())
                effects = np.array(list(by_seed.values())) / gap.mean
                if len(effects) >= 3 and np.isfinite(effects).all():
                    mean, scatter = float(effects.mean()), float(effects.std(ddof=1))
                    found.append(Power(claim, domain, measure, len(effects), mean, scatter))
    return found
