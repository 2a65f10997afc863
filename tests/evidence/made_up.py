"""A design with one domain and figures made up for it."""

import random

from evidence.design import Claim, Design, Domain, Measure, Role, Rule
from evidence.figures import Figure, StudyFigures

SPECS = {name: f"{name}:3-8" for name in ("CT", "ETH", "RR")}
COSTS = {"static q_min": 300, "RR": 400, "CT": 630, "match(CT, mixed)": 630, "ETH": 820, "static q_max": 1000}


def claim(rule=Rule.GREATER, better=("CT",), than=("match(CT, mixed)",), **values):
    return Claim(
        **{"id": "c", "text": "CT beats a mixture.", "source": "", "study": "schedules", "smallest": 0.1}
        | {"domains": ("*",), "rule": rule, "better": better, "than": than}
        | values
    )


SLOPE = claim(id="slope", slope=("RR", "CT", "ETH"), better=(), than=())


def domain(**values):
    return Domain(
        **{
            "id": "d",
            "title": "Domain",
            "kinds": ("hard",),
            "studies": ("schedules",),
            "task": {"task": "graph", "bits": [3, 8]},
        }
        | {"measure": Measure.LOSS, "seeds": 10, "scale": "small", "paper": "large", "settles": "more"}
        | values
    )


def design(*claims, domains=None):
    studies = {"schedules": ({"schedules": ["static q_min", "static q_max", "CT", "match(CT, mixed)"]},)}
    return Design(claims, domains or (domain(),), studies, {Role.TUNING: 0, Role.JUDGING: 100}, 4)


def figures(losses, noise=0.01, seeds=range(100, 110), accuracies=None):
    """Figures with these mean losses, and accuracies that fall as losses rise unless they are given."""
    chance = random.Random(0)
    made = []
    for seed in seeds:
        common = chance.gauss(0, 1)  # cancels in pairs
        for name, loss in losses.items():
            measured = loss + common + chance.gauss(0, noise)
            accuracy = accuracies[name] if accuracies else -measured
            made.append(
                Figure(
                    name, SPECS.get(name, name), seed, accuracy, measured, COSTS[name], 1.0, f"{name} {seed}", "integer"
                )
            )
    return {("d", "schedules"): StudyFigures("accuracy", True, tuple(made))}
