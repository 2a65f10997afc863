"""The report as one HTML page that needs nothing else: it works offline, and loads nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from bitcycle._study.analysis import Analysis, DeficitAnalysis
from bitcycle._study.report import words
from bitcycle._study.report.deficits.section import deficit_section
from bitcycle._study.report.findings import main_findings
from bitcycle._study.report.info import StudyInfo
from bitcycle._study.report.markup import Markup, join, tag
from bitcycle._study.report.reproduction import failures, glossary, reproduction
from bitcycle._study.report.section import section
from bitcycle.experiments.result import RunResult


def page(
    study: StudyInfo, analyses: list[Analysis], records: list[RunResult], deficits: Sequence[DeficitAnalysis] = ()
) -> str:
    """One self-contained HTML page about a study.

    >>> text = page(StudyInfo("<b>", "bitcycle study", planned=1, done=0), [], [])
    >>> text[:15], "<h1>&lt;b&gt;</h1>" in text
    ('<!doctype html>', True)
    """
    style, script = _resource("style.css"), _resource("page.js")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        _policy(style, script),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{study.name}: a study of precision schedules"),
        tag("link", rel="icon", href="data:,"),  # else a browser asks a server for one
        tag("style", Markup(style)),
    )
    alone = len(analyses) + len(deficits) == 1
    main = tag(
        "main",
        _opening(study, analyses, deficits),
        join(section(i, analysis, records, alone) for i, analysis in enumerate(analyses, start=1)),
        join(deficit_section(i, deficit, records, alone) for i, deficit in enumerate(deficits, start=1)),
        failures(study),
        reproduction(study),
        glossary(schedules=bool(analyses) or not deficits, deficits=bool(deficits)),
    )
    body = tag("body", main, _floating(), tag("script", Markup(script)))
    return str(join([Markup("<!doctype html>\n"), tag("html", head, body, lang="en"), Markup("\n")]))


def _resource(name: str) -> str:
    return (files("bitcycle._study.report") / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> Markup:
    """Nothing may be loaded, and no style or script may run but the two of the page itself."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    policy = (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return tag("meta", http_equiv="Content-Security-Policy", content=policy)


def _opening(study: StudyInfo, analyses: Sequence[Analysis], deficits: Sequence[DeficitAnalysis]) -> Markup:
    """The first screen: the title, what was run, and what came of it."""
    return tag(
        "header",
        tag("p", "A study of precision schedules", class_="kicker"),
        tag("h1", study.name),
        tag("p", what_was_run(study, analyses, deficits), class_="lead"),
        _banner(study),
        main_findings(analyses, deficits),
        _contents(study, analyses, deficits),
    )


def what_was_run(study: StudyInfo, analyses: Sequence[Analysis], deficits: Sequence[DeficitAnalysis] = ()) -> str:
    """What was run, in a sentence or two."""
    if not analyses and not deficits:
        return f"{words.count(study.planned, 'run')} planned; none has finished yet."
    settings = sum(len(analysis.settings) for analysis in analyses)
    what = [f"{settings:,} schedules and baselines"] * bool(analyses) + ["deficit experiments"] * bool(deficits)
    seeds = f", {words.count(len(study.seeds), 'seed')} each" if study.seeds else ""
    sentences = [
        f"{words.count(study.done, 'training run')}: {', and '.join(what)}{seeds}, "
        f"{words.duration(study.seconds)} of training in all."
    ]
    if analyses:
        named = "; ".join(analysis.title for analysis in analyses)
        sentences.append(f"{'Task' if len(analyses) == 1 else 'Tasks'}: {named}.")
    if deficits:
        tasks = words.listed(dict.fromkeys(deficit.task for deficit in deficits))
        sentences.append(f"Deficits on {tasks}: a stretch of training at low precision, and the controls it needs.")
    return " ".join(sentences)


def _banner(study: StudyInfo) -> Markup:
    if study.finished and not study.failed:
        return Markup("")
    sentences = []
    if not study.finished:
        sentences.append(
            f"{study.done:,} of {study.planned:,} runs finished. What follows is about these, and may change."
        )
    failed = Markup("")
    if study.failed:
        link = tag("a", words.count(len(study.failed), "run") + " failed", href="#failed")
        failed = link + Markup(".")
    return tag("p", join(sentences), Markup(" "), failed, class_="banner", role="note")


def _contents(study: StudyInfo, analyses: Sequence[Analysis], deficits: Sequence[DeficitAnalysis]) -> Markup:
    links = [(f"#task-{i}", analysis.title) for i, analysis in enumerate(analyses, start=1)]
    links += [(f"#deficit-{i}", deficit.title) for i, deficit in enumerate(deficits, start=1)]
    if study.failed:
        links.append(("#failed", "Runs that failed"))
    links += [("#reproduce", "How to reproduce it"), ("#words", "The words")]
    items = [tag("li", tag("a", title, href=address)) for address, title in links]
    return tag("nav", tag("ol", *items), aria_label="Contents", class_="contents")


def _floating() -> Markup:
    """The tooltip, and the bar that names what is selected; both hidden until the script needs them."""
    tooltip = tag("div", id="tooltip", role="tooltip", hidden=True)
    words_of_bar = tag("p", id="selected", role="status")
    clear = tag("button", "Clear", type="button", id="clear")
    return tooltip + tag("div", words_of_bar, clear, id="bar", hidden=True)
