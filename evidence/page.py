"""One page with all verdicts: a matrix of claims and domains, and for every domain its scale, command and intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean

from markupsafe import Markup

from bitcycle._support.judging import Effect
from bitcycle.lab import format as fmt
from bitcycle.lab.report.rendering import style
from bitcycle.lab.report.tables import Column, html_table, markdown_table
from bitcycle.lab.statistics.analysis import Estimate
from evidence.design import Claim, Design, Domain, Measure, Role
from evidence.figures import Figure, StudyFigures, progress, total_seconds
from evidence.judging import (
    GAP,
    HIGH,
    MOST_SEEDS,
    AllFigures,
    Cell,
    Mark,
    OpenReason,
    detectable,
    gap_of,
    is_shown,
    judge,
    seeds_to_settle,
)
from evidence.markup import join, tag
from evidence.pilots import GAP_COLUMNS, POWER_COLUMNS, pilot_gaps, pilot_powers
from evidence.plot import cost_plot
from evidence.repetition import repetitions
from evidence.templates import render, sections

SIGNS = {
    Mark.SUPPORTED: "\N{CHECK MARK}",
    Mark.CONTRADICTED: "\N{MULTIPLICATION SIGN}",
    Mark.OPEN: "?",
    Mark.NOT_APPLICABLE: fmt.NONE,
    Mark.NOT_RUN: "\N{HORIZONTAL ELLIPSIS}",
}
LEGEND = (
    f"{SIGNS[Mark.SUPPORTED]} supported, {SIGNS[Mark.CONTRADICTED]} contradicted, {SIGNS[Mark.OPEN]} open, "
    f"{SIGNS[Mark.NOT_APPLICABLE]} not applicable (the claim it builds on is not supported there), "
    f"{SIGNS[Mark.NOT_RUN]} not run yet. A cell is empty where the claim is not studied."
)
NUMBERS = (
    "The numbers are the effect and its interval, in units of the gap: the quality of static q_max minus that of "
    "static q_min. A positive effect is what the claim says."
)
MOST_PLACES = 6
"""The most decimals of a bound."""
REACH = 1.0
"""The end of the scale of drawn intervals, in gaps."""

STYLE = """
main { max-width: none; } .scroll { margin-bottom: 1.5rem; } .matrix td { text-align: center; font-size: .85rem; }
.matrix td.not-run, .matrix td.none { color: var(--rule); } .matrix th { text-align: left; font-weight: 400; }
:is(.matrix, .judged) tbody th { white-space: normal; min-width: min(18rem, 40vw); }
:is(.judged, .power) td:not(.number) { white-space: normal; min-width: min(16rem, 40vw); }
dl { max-width: 60rem; } dd { margin: 0 0 .6rem; }
figure { margin: 1rem 0; max-width: 60rem; } figure .scroll { margin: 0; } figure .plot { min-width: 42rem; }
figcaption span { margin-right: 1.2em; }
.matrix thead th { font-size: .8rem; vertical-align: bottom; } .mark-sign { font-weight: 700; margin-right: .35em; }
"""


def html_page(design: Design, figures: AllFigures, pilots: AllFigures, repeated: AllFigures) -> str:
    """Return the page as HTML that loads nothing."""
    cells = judge(design, figures)
    sheet = style() + STYLE
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", "The evidence for precision schedules"),
        tag("link", rel="icon", href="data:,"),
        tag("style", Markup(sheet)),
    )
    main = tag(
        "main",
        tag("p", "Better Schedules for Low Precision Training, claim by claim", class_="kicker"),
        tag("h1", "The evidence"),
        tag("p", summary(cells, figures), class_="lead"),
        tag("p", f"{LEGEND} {NUMBERS}", class_="hint"),
        _matrix(design, cells),
        tag("h2", "How to read it"),
        tag(
            "dl",
            *(
                part
                for name, text in explanations(design.claims, figures, repeated).items()
                for part in (tag("dt", name), tag("dd", text))
            ),
        ),
        *_pilots(design, pilots),
        *(_section(design, domain, cells, figures) for domain in design.domains),
    )
    return str(join([Markup("<!doctype html>\n"), tag("html", head, tag("body", main), lang="en"), Markup("\n")]))


def markdown_page(design: Design, figures: AllFigures, pilots: AllFigures, repeated: AllFigures) -> str:
    """Return the page as Markdown, for the documentation."""
    cells = judge(design, figures)
    signs = {(cell.claim.id, cell.domain.id): SIGNS[cell.mark] for cell in cells}

    def signs_of(domain: Domain) -> Column[Claim]:
        return Column(domain.id, lambda claim: signs.get((claim.id, domain.id), ""), numeric=False)

    def described(domain: Domain) -> dict[str, str]:
        judged = [cell for cell in cells if cell.domain is domain and cell.mark is not Mark.NOT_RUN]
        return {
            "title": domain.title,
            "facts": " ".join(facts(design, domain, figures)),
            "command": command(domain),
            "claims": markdown_table(_CELL_COLUMNS, judged) if judged else unjudged(domain, figures),
        }

    gaps = pilot_gaps(design, pilots)
    return render(
        "page.md",
        summary=summary(cells, figures),
        legend=LEGEND,
        matrix=markdown_table(
            [Column("claim", lambda claim: claim.text, numeric=False), *map(signs_of, design.domains)], design.claims
        ),
        explanations=explanations(design.claims, figures, repeated),
        about_pilots=sections("pilots.md"),
        gaps=markdown_table(GAP_COLUMNS, gaps) if gaps else "",
        powers=markdown_table(POWER_COLUMNS, pilot_powers(design, pilots)),
        domains=[described(domain) for domain in design.domains],
    )


def summary(cells: Sequence[Cell], figures: AllFigures) -> str:
    """Return what the page says as a whole."""
    counts = Counter(cell.mark for cell in cells)
    judged = sum(counts[mark] for mark in (Mark.SUPPORTED, Mark.CONTRADICTED, Mark.OPEN))
    hours = total_seconds(figures.values()) / 3600
    runs = len({figure.run for study in figures.values() for figure in study.figures})
    missing = f" Cells that are not run yet: {counts[Mark.NOT_RUN]}." if counts[Mark.NOT_RUN] else ""
    return (
        f"{counts[Mark.SUPPORTED]} of {judged} judged cells are supported, {counts[Mark.CONTRADICTED]} are "
        f"contradicted, and {counts[Mark.OPEN]} are open.{missing} A cell is one claim on one domain. "
        f"The {fmt.count(runs, 'judging run')} took {hours:.1f} hours in total (the sum of the times of all runs)."
    )


def explanations(claims: Sequence[Claim], figures: AllFigures, repeated: AllFigures) -> dict[str, str]:
    """Return how to read the page, by subject."""
    smallest = " or ".join(sorted({f"{claim.smallest:g}" for claim in claims}))
    return sections("explanations.md", smallest=smallest, minus=fmt.MINUS, repeated=repeated_text(figures, repeated))


def repeated_text(figures: AllFigures, repeated: AllFigures) -> str:
    """Return how many runs were trained again, and whether their figures are equal; nothing without any."""
    pairs = repetitions(figures, repeated)
    if not pairs:
        return ""
    runs = len({figure.run for study in figures.values() for figure in study.figures})
    equal = sum(pair.is_equal for pair in pairs)
    outcome = (
        "metrics, losses and costs are equal in all digits"
        if equal == len(pairs)
        else f"metrics, losses and costs of {equal} of them are equal in all digits, the others differ"
    )
    makers = sorted({f"bitcycle {pair.again.bitcycle} on {pair.again.cpu}" for pair in pairs})
    by = f" by {fmt.listed(makers)}" if all(pair.again.bitcycle for pair in pairs) else ""
    were = "was" if len(pairs) == 1 else "were"
    return (
        f"{fmt.count(len(pairs), 'run')} of {runs:,}, chosen at random in each study, {were} trained again{by}: "
        f"{outcome}."
    )


def facts(design: Design, domain: Domain, figures: AllFigures) -> list[str]:
    """Return the scale of a domain, its gap, how the paper compares, and what would be a stronger test."""
    low, high = domain.task["bits"]
    judged_by = _measure_name(domain, figures, domain.measure)
    seconds = total_seconds(study for (id, _), study in figures.items() if id == domain.id)
    spent = [f"Its runs took {seconds / 3600:.1f} hours in total."] if seconds else []
    return [
        f"Scale: {domain.scale}; q_min {low}, q_max {high}; {domain.seeds} judging seeds; judged by {judged_by}.",
        *_gap_facts(design, domain, figures),
        f"The paper: {domain.paper}. A stronger test: {domain.settles}.",
        *spent,
    ]


def _gap_facts(design: Design, domain: Domain, figures: AllFigures) -> list[str]:
    """Return what static q_min loses, by both measures; nothing if no runs of the domain are done."""
    if _a_study(domain, figures) is None:
        return []
    gap_domain = design.gap_domain(domain)
    gaps = {measure: gap_of(design, domain, figures, measure) for measure in Measure}
    known = {measure: gap for measure, gap in gaps.items() if gap is not None and gap.seeds == gap_domain.seeds}
    if not known:
        done = max((gap.seeds for gap in gaps.values() if gap is not None), default=0)
        which = f"The gap of {gap_domain.id}, which is the unit here," if domain.gap_of else "The gap"
        return [f"{which} is not known yet; seeds that are done: {done} of {gap_domain.seeds}."]
    phrases, hidden = [], []
    for measure, gap in known.items():
        name = _measure_name(gap_domain, figures, measure)
        if not math.isfinite(gap.mean):
            hidden.append(f"Static runs diverged by {name}, so no claim is judged by it.")
            continue
        phrases.append(
            f"{name} is {_loss(gap, measure is not Measure.LOSS and _higher_is_better(gap_domain, figures))}"
        )
        if not is_shown(gap):
            hidden.append(f"Static q_min is not shown to lose by {name}, so no claim is judged by it.")
    if not phrases:
        return hidden
    where = f" of {gap_domain.id} ({fmt.count(gap_domain.task['bits'][0], 'bit')})" if domain.gap_of else ""
    unit = ["This gap is the unit here."] if domain.gap_of else []
    seeds = fmt.count(gap_domain.seeds, "seed")
    return [f"At static q_min{where}, {' and '.join(phrases)} than at static q_max, over {seeds}.", *unit, *hidden]


def _loss(gap: Effect, higher_is_better: bool) -> str:
    """Return a gap as a phrase: "0.1 lower (0.05 to 0.15)"."""
    worse, better = ("lower", "higher") if higher_is_better else ("higher", "lower")
    if gap.mean < 0:
        return f"{fmt.number(-gap.mean)} {better} ({fmt.number(-gap.upper)} to {fmt.number(-gap.lower)})"
    return f"{fmt.number(gap.mean)} {worse} ({fmt.number(gap.lower)} to {fmt.number(gap.upper)})"


def command(domain: Domain) -> str:
    """Return the command that runs everything about a domain, or what is missing of it."""
    return f"python -m evidence run {domain.id}"


def unjudged(domain: Domain, figures: AllFigures) -> str:
    """Return how far a domain is of which no claim is judged."""
    done = len({each.run for (id, _), study in figures.items() if id == domain.id for each in study.figures})
    are = "is" if done == 1 else "are"
    return f"Not judged yet: {fmt.count(done, 'run')} {are} done." if done else "Not run yet."


def _measure_name(domain: Domain, figures: AllFigures, measure: Measure) -> str:
    if measure is Measure.LOSS:
        return str(measure)
    study = _a_study(domain, figures)
    return study.metric if study else "the metric"


def _higher_is_better(domain: Domain, figures: AllFigures) -> bool:
    study = _a_study(domain, figures)
    return study is None or study.higher_is_better


def _a_study(domain: Domain, figures: AllFigures) -> StudyFigures | None:
    return next((study for (id, _), study in figures.items() if id == domain.id), None)


def effect_text(effect: Effect | None, smallest: float) -> str:
    """Return an effect with its bounds, for a claim with this smallest effect worth knowing.

    >>> effect_text(Effect(0.05, 0.004, 0.0996, 5), smallest=0.1), effect_text(None, 0.1) == fmt.NONE
    ('+0.05 (+0.004 to +0.0996)', True)
    """
    return fmt.NONE if effect is None else f"{_mean_text(effect)} ({_bounds_text(effect, smallest)})"


def _mean_text(effect: Effect) -> str:
    return fmt.fixed(effect.mean, 2, signed=True)


def _bounds_text(effect: Effect, smallest: float) -> str:
    """Return the bounds with two decimals, or more if rounding would move one onto a border of the rules."""
    borders = (-smallest, 0.0, smallest)

    def text(bound: float) -> str:
        places = 2
        while places < MOST_PLACES and round(bound, places) in borders and bound not in borders:
            places += 1
        return fmt.fixed(bound, places, signed=True)

    return f"{text(effect.lower)} to {text(effect.upper)}"


def _matrix(design: Design, cells: Sequence[Cell]) -> Markup:
    at = {(cell.claim.id, cell.domain.id): cell for cell in cells}
    heads = [tag("th", "claim"), *(tag("th", tag("a", d.title, href=f"#{d.id}")) for d in design.domains)]
    rows = [
        tag(
            "tr",
            tag("th", claim.text, scope="row"),
            *(_matrix_cell(at.get((claim.id, domain.id))) for domain in design.domains),
        )
        for claim in design.claims
    ]
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="matrix")
    return tag("div", table, class_="scroll", tabindex="0", role="region", aria_label="Claims by domains")


def _matrix_cell(cell: Cell | None) -> Markup:
    if cell is None:
        return tag("td", class_="none")
    if cell.mark is Mark.NOT_RUN:
        return tag("td", SIGNS[cell.mark], class_="not-run", title=_mark_text(cell))
    title = f"{_mark_text(cell)}; effect {effect_text(cell.effect, cell.claim.smallest)}"
    sign = tag("span", SIGNS[cell.mark], class_="mark-sign")
    mean = _mean_text(cell.effect) if cell.effect else ""
    interval = tag("div", _bounds_text(cell.effect, cell.claim.smallest)) if cell.effect else Markup("")
    return tag("td", sign, mean, interval, class_=str(cell.mark).replace(" ", "-"), title=title)


def _mark_text(cell: Cell) -> str:
    added = cell.reason or cell.remark
    return f"{cell.mark}: {added}" if added else str(cell.mark)


def _extra_cost(share: float | None) -> str:
    return fmt.NONE if share is None else f"{fmt.fixed(100 * share, 1, signed=True)} %"


def _settling(cell: Cell) -> str:
    """Return how many seeds would settle an open claim; empty where it is settled or where seeds would not help."""
    if cell.effect is None or cell.reason is not OpenReason.UNDECIDED or not math.isfinite(cell.effect.lower):
        return ""
    seeds = seeds_to_settle(cell.claim, cell.effect)
    return f"more than {MOST_SEEDS:,}" if seeds is None else f"about {seeds:,}"


_CELL_COLUMNS: list[Column[Cell]] = [
    Column("claim", lambda cell: cell.claim.text, numeric=False),
    Column("verdict", _mark_text, numeric=False),
    Column(
        "effect in gaps",
        lambda cell: effect_text(cell.effect, cell.claim.smallest),
        order=lambda cell: cell.effect.mean if cell.effect else math.nan,
        interval=lambda cell: _estimate(cell.effect),
    ),
    Column("by the other measure", lambda cell: effect_text(cell.other, cell.claim.smallest)),
    Column("extra cost", lambda cell: _extra_cost(cell.extra_cost)),
    Column("detectable", lambda cell: fmt.fixed(detectable(cell.effect), 2) if cell.effect else fmt.NONE),
    Column("seeds", lambda cell: str(cell.effect.seeds) if cell.effect else fmt.NONE),
    Column("seeds to settle it", _settling),
]


def _pilots(design: Design, pilots: AllFigures) -> list[Markup]:
    gaps, found = pilot_gaps(design, pilots), pilot_powers(design, pilots)
    if not gaps:
        return []
    about = sections("pilots.md")
    return [
        tag("h2", "Pilots and power"),
        tag("p", about["Gaps"]),
        html_table(GAP_COLUMNS, gaps, "What static q_min loses in the pilots"),
        tag("p", about["Power"]),
        html_table(POWER_COLUMNS, found, "The power of the judging seeds", "power"),
    ]


def _section(design: Design, domain: Domain, cells: Sequence[Cell], figures: AllFigures) -> Markup:
    judged = [cell for cell in cells if cell.domain is domain and cell.mark is not Mark.NOT_RUN]
    schedules = figures.get((domain.id, GAP))
    unit = schedules.costs().get(HIGH) if schedules else None
    return tag(
        "section",
        tag("h2", domain.title),
        *(tag("p", fact) for fact in facts(design, domain, figures)),
        tag("pre", tag("code", command(domain)), class_="command", tabindex="0"),
        html_table(_CELL_COLUMNS, judged, f"Claims about {domain.title}", "judged", reach=REACH)
        if judged
        else tag("p", unjudged(domain, figures)),
        _plot(design, domain, figures),
        *(_settings_table(name, study, unit) for name, study in _complete(design, domain, figures)),
        id=domain.id,
    )


def _complete(design: Design, domain: Domain, figures: AllFigures) -> Iterator[tuple[str, StudyFigures]]:
    """Yield the studies of a domain that are done: a look at some of the seeds could decide when to stop."""
    for name in domain.studies:
        study = figures.get((domain.id, name))
        if study is not None and progress(design, domain, name, Role.JUDGING, study).is_complete:
            yield name, study.of_seeds(design.seeds(domain, Role.JUDGING))


def _plot(design: Design, domain: Domain, figures: AllFigures) -> Markup:
    figure = cost_plot(design, domain, figures)
    if figure is None:
        return Markup("")
    caption = tag("figcaption", *(tag("span", note) for note in figure.notes), class_="hint")
    plot = tag("div", figure.html, class_="scroll", tabindex="0", role="region", aria_label=figure.title)
    return tag("figure", plot, caption)


def _settings_table(study_name: str, study: StudyFigures, static: float | None) -> Markup:
    """The means of all settings, the cheapest first, with costs relative to static q_max of the domain if it has it."""
    by_setting: dict[str, list[Figure]] = {}
    for figure in study.figures:
        by_setting.setdefault(figure.setting, []).append(figure)
    costs = study.costs()
    unit, name_of_unit = (static, HIGH) if static else (max(costs.values()), "most expensive setting")
    columns: list[Column[str]] = [
        Column("setting", str, numeric=False),
        Column("schedule", lambda name: by_setting[name][0].schedule, numeric=False),
        Column(
            f"cost, {name_of_unit} = 100 %",
            lambda name: fmt.percent(costs[name] / unit),
            order=lambda name: costs[name],
        ),
        Column(study.metric, lambda name: fmt.number(fmean(f.metric for f in by_setting[name]))),
        Column("test loss", lambda name: fmt.number(fmean(f.loss for f in by_setting[name]))),
        Column("seeds", lambda name: str(len(by_setting[name]))),
    ]
    ordered = sorted(by_setting, key=lambda name: costs[name])
    table = html_table(columns, ordered, f"Settings of the study {study_name}")
    return tag("details", tag("summary", f"Settings: {study_name}"), table)


def _estimate(effect: Effect | None) -> Estimate:
    if effect is None:
        return Estimate(math.nan, math.nan, math.nan, math.nan)
    return Estimate(effect.mean, math.nan, effect.lower, effect.upper)
