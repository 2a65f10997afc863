"""How a study was run, how to run it again, what failed, and what the words mean."""

from __future__ import annotations

from bitcycle._study.report import words
from bitcycle._study.report.info import StudyInfo
from bitcycle._study.report.markup import Markup, tag

GENERAL = [
    ("bits", "the width of the integer grid on which the products of a model are computed"),
    ("schedule", "how many bits there are at each step of training"),
    (
        "95 % interval",
        "the means that the seeds leave plausible, found by resampling them; without seeds enough there is none",
    ),
]

OF_SCHEDULES = [
    ("cost", "BitOps: multiplications, each times the bits of both its operands; forward and backward"),
    ("saving", "the part of the baseline's cost that a schedule does without"),
    ("saving group", "large, medium or small: which third of the saving that is possible between the two widths"),
    ("static", "the same bits at every step; the baseline is static at the largest width"),
    ("Pareto front", "the settings to choose from: any other is beaten in both cost and quality by one of these"),
]

OF_DEFICITS = [
    ("deficit", "a stretch of training held at low precision, to probe critical learning periods"),
    ("normal training", "the training at the larger width that follows or surrounds a deficit; also a unit of length"),
    ("control", "the arm longer: the same steps and learning rates as held, without a deficit"),
]


def reproduction(study: StudyInfo) -> Markup:
    """The exact command, the seeds, the versions, and when and how long it ran."""
    rows = [
        ("seeds", ", ".join(str(seed) for seed in study.seeds) or words.NONE),
        ("runs", f"{study.done:,} of {study.planned:,}"),
        ("time of all runs", f"{words.duration(study.seconds)}, on {words.count(study.workers, 'worker')}"),
        ("started", words.moment(study.started) or words.NONE),
        ("ended", words.moment(study.ended) or words.NONE),
        *study.versions.items(),
    ]
    facts = [tag("div", tag("dt", name), tag("dd", value)) for name, value in rows]
    plan = ""
    if study.plan:
        plan = tag("details", tag("summary", "The plan"), tag("pre", tag("code", study.plan), tabindex="0"))
    return tag(
        "section",
        tag("h2", "How to reproduce it"),
        tag("p", "The same command with the same versions gives the same figures."),
        tag("pre", tag("code", study.command), class_="command", tabindex="0"),
        tag("dl", *facts, class_="facts"),
        plan,
        id="reproduce",
    )


def failures(study: StudyInfo) -> Markup:
    """The runs that failed, with the last line of each traceback; nothing if there is none."""
    if not study.failed:
        return Markup("")
    rows = [
        tag("tr", tag("th", label, scope="row"), tag("td", str(seed), class_="number"), tag("td", tag("code", last)))
        for label, seed, last in study.failed
    ]
    named = (("schedule", None), ("seed", "number"), ("why", None))
    heads = tag("tr", *(tag("th", head, scope="col", class_=kind) for head, kind in named))
    table = tag("table", tag("thead", heads), tag("tbody", *rows), class_="failures")
    box = tag("div", table, class_="scroll", tabindex="0", role="region", aria_label="Failed runs")
    return tag("section", tag("h2", "Runs that failed"), box, id="failed")


def glossary(schedules: bool, deficits: bool) -> Markup:
    """The words of the report, as far as it uses them."""
    used = [*GENERAL, *(OF_SCHEDULES if schedules else []), *(OF_DEFICITS if deficits else [])]
    items = [tag("div", tag("dt", word), tag("dd", meaning)) for word, meaning in used]
    return tag("section", tag("h2", "The words"), tag("dl", *items, class_="facts words"), id="words")
