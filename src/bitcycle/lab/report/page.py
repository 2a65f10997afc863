"""The report as one self-contained HTML page, which works offline and loads nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from importlib.resources import files

from bitcycle._support.charts.files import style as chart_style
from bitcycle._support.charts.markup import Markup, join, tag
from bitcycle.lab import format as fmt
from bitcycle.lab.report.columns import FAILURE_COLUMNS
from bitcycle.lab.report.curves import Curves
from bitcycle.lab.report.deficit_section import DeficitSection, drawn_conditions
from bitcycle.lab.report.glossary import GENERAL, OF_DEFICITS, OF_SCHEDULES
from bitcycle.lab.report.info import StudyInfo
from bitcycle.lab.report.labels import drawn_settings
from bitcycle.lab.report.section import Section
from bitcycle.lab.report.study_section import StudySection
from bitcycle.lab.report.tables import html_table
from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.statistics.analysis import Analysis, DeficitAnalysis


def sections_of(
    analyses: Sequence[Analysis], records: Iterable[RunResult], deficits: Sequence[DeficitAnalysis] = ()
) -> list[Section]:
    """Return all sections of a report with their figures drawn; the records are read once."""
    drawn = [setting.condition for analysis in analyses for setting in drawn_settings(analysis)]
    curves = Curves(records, [*drawn, *(each for deficit in deficits for each in drawn_conditions(deficit))])
    return [
        *(StudySection(i, analysis, curves) for i, analysis in enumerate(analyses, start=1)),
        *(DeficitSection(i, deficit, curves) for i, deficit in enumerate(deficits, start=1)),
    ]


def page(study: StudyInfo, sections: Sequence[Section]) -> str:
    """Return the page about a study.

    >>> text = page(StudyInfo("<b>", "bitcycle study", planned=1, done=0), [])
    >>> text[:15], "<h1>&lt;b&gt;</h1>" in text
    ('<!doctype html>', True)
    """
    style, script = chart_style() + resource("page.css"), resource("page.js")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        _policy(style, script),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{study.name}: a study of precision schedules"),
        tag("link", rel="icon", href="data:,"),  # otherwise a browser requests one from the server
        tag("style", Markup(style)),
    )
    main = tag(
        "main",
        tag(
            "header",
            tag("p", "A study of precision schedules", class_="kicker"),
            tag("h1", study.name),
            tag("p", what_was_run(study, sections), class_="lead"),
            _banner(study),
            _findings(sections),
            _contents(study, sections),
        ),
        *(section.html(alone=len(sections) == 1) for section in sections),
        _failures(study),
        _reproduction(study),
        _glossary(sections),
    )
    body = tag("body", main, _floating(), tag("script", Markup(script)))
    return str(join([Markup("<!doctype html>\n"), tag("html", head, body, lang="en"), Markup("\n")]))


def resource(name: str) -> str:
    """Return a file of this package."""
    return (files("bitcycle.lab.report") / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> Markup:
    """Nothing may be loaded, and no style or script may run except those of the page itself."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    policy = (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return tag("meta", http_equiv="Content-Security-Policy", content=policy)


def what_was_run(study: StudyInfo, sections: Sequence[Section]) -> str:
    """Return what was run, in a sentence or two."""
    analyses = [each.analysis for each in sections if isinstance(each.analysis, Analysis)]
    deficits = [each.analysis for each in sections if isinstance(each.analysis, DeficitAnalysis)]
    if not sections:
        return f"{fmt.count(study.planned, 'run')} planned; none has finished yet."
    settings = sum(len(analysis.settings) for analysis in analyses)
    what = [f"{settings:,} schedules and baselines"] * bool(analyses) + ["deficit experiments"] * bool(deficits)
    seeds = f", {fmt.count(len(study.seeds), 'seed')} each" if study.seeds else ""
    runs = fmt.count(study.done, "training run")
    sentences = [f"{runs}: {' and '.join(what)}{seeds}, {fmt.duration(study.seconds)} of training in total."]
    if analyses:
        titles = "; ".join(analysis.title for analysis in analyses)
        sentences.append(f"{'Task' if len(analyses) == 1 else 'Tasks'}: {titles}.")
    if deficits:
        tasks = fmt.listed(dict.fromkeys(deficit.task for deficit in deficits))
        sentences.append(f"Deficits on {tasks}: a stretch of training at low precision, with its controls.")
    return " ".join(sentences)


def _banner(study: StudyInfo) -> Markup:
    if study.finished and not study.failed:
        return Markup("")
    finished = f"{study.done:,} of {study.planned:,} runs finished. The results cover these and may change."
    parts = [] if study.finished else [finished, " "]
    if study.failed:
        parts.append(tag("a", fmt.count(len(study.failed), "run") + " failed", href="#failed") + Markup("."))
    return tag("p", *parts, class_="banner", role="note")


def _findings(sections: Sequence[Section]) -> Markup:
    """All claims of a single section, the first ones of several."""
    groups = []
    for section in sections:
        if section.analysis.claims and len(sections) == 1:
            groups.append(section.claims())
        elif section.analysis.claims:
            title = tag("h3", tag("a", section.analysis.title, href=f"#{section.anchor}"))
            groups.append(title + section.claims(section.main_claims))
    return tag("div", tag("h2", "Findings"), *groups, class_="findings") if groups else Markup("")


def _contents(study: StudyInfo, sections: Sequence[Section]) -> Markup:
    links = [(section.anchor, section.analysis.title) for section in sections]
    links += [("failed", "Failed runs")] if study.failed else []
    links += [("reproduce", "How to reproduce this study"), ("glossary", "Glossary")]
    items = [tag("li", tag("a", title, href=f"#{anchor}")) for anchor, title in links]
    return tag("nav", tag("ol", *items), aria_label="Contents", class_="contents")


def run_facts(study: StudyInfo) -> list[tuple[str, str]]:
    """Return what is known about how a study was run."""
    facts = [
        ("seeds", ", ".join(str(seed) for seed in study.seeds)),
        ("runs", f"{study.done:,} of {study.planned:,}"),
        ("total time of all runs", fmt.duration(study.seconds)),
        ("workers", "" if study.workers is None else f"{study.workers:,}"),
        ("started", fmt.moment(study.started)),
        ("ended", fmt.moment(study.ended or "")),
        *study.versions.items(),
    ]
    return [(name, value) for name, value in facts if value]


def _reproduction(study: StudyInfo) -> Markup:
    plan = tag("details", tag("summary", "Plan"), tag("pre", tag("code", study.plan), tabindex="0"))
    return tag(
        "section",
        tag("h2", "How to reproduce this study"),
        tag("p", "The same command with the same versions gives the same numbers."),
        tag("pre", tag("code", study.command), class_="command", tabindex="0"),
        _terms(run_facts(study), "facts"),
        plan if study.plan else "",
        id="reproduce",
    )


def _failures(study: StudyInfo) -> Markup:
    if not study.failed:
        return Markup("")
    table = html_table(FAILURE_COLUMNS, study.failed, "Failed runs", "failures")
    return tag("section", tag("h2", "Failed runs"), table, id="failed")


def _glossary(sections: Sequence[Section]) -> Markup:
    """The terms that the report uses."""
    deficits = any(isinstance(section, DeficitSection) for section in sections)
    schedules = not sections or any(isinstance(section, StudySection) for section in sections)
    terms = [*GENERAL, *(OF_SCHEDULES if schedules else ()), *(OF_DEFICITS if deficits else ())]
    return tag("section", tag("h2", "Glossary"), _terms(terms, "facts glossary"), id="glossary")


def _terms(terms: Iterable[tuple[str, str]], class_: str) -> Markup:
    return tag("dl", *(tag("div", tag("dt", term), tag("dd", meaning)) for term, meaning in terms), class_=class_)


def _floating() -> Markup:
    """The tooltip, and the bar that names the selection; both are hidden until the script needs them."""
    tooltip = tag("div", id="tooltip", role="tooltip", hidden=True)
    clear = tag("button", "Clear", type="button", id="clear")
    return tooltip + tag("div", tag("p", id="selected", role="status"), clear, id="bar", hidden=True)
