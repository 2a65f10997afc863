"""The page of a report: well-formed, escaped, self-contained, and with the figures of the analysis."""

import dataclasses
import itertools
import json
import re
from html.parser import HTMLParser
from unittest.mock import patch

import pytest
from markupsafe import escape

from bitcycle.lab import format as fmt
from bitcycle.lab.report import figures, writing
from bitcycle.lab.report.drawing import TINTS
from bitcycle.lab.report.figures import NAME_GAP
from bitcycle.lab.report.labels import KINDS, MAX_DRAWN, drawn_settings, places_of
from bitcycle.lab.report.quality_plots import COLUMN
from bitcycle.lab.report.rendering import TEMPLATES
from bitcycle.lab.report.words import details, recommendations
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.statistics.analysis import Claim, ClaimKind, Role, Verdict
from tests.lab.studies.examples import SPECS, make_analysis, make_records, make_study

HOSTILE = "\"><script>alert('x')</script><img src=x onerror=alert(1)>&amp;\x00\u202e$\\frac{"
VOID = {"meta", "link", "br"}


class Undrawn:
    """Stands in for the renderer, which takes seconds to start: a figure is its description as text."""

    @staticmethod
    def vegalite_to_svg(spec, config):
        return f'<svg viewBox="0 0 1 1"><desc>{escape(json.dumps(json.loads(spec), ensure_ascii=False))}</desc></svg>'

    @staticmethod
    def svg_to_png(image, scale):
        return b"\x89PNG"


def undrawn():
    return patch.object(figures, "need", lambda *names: Undrawn)


def page(study, analyses, records, deficits=()):
    with undrawn():
        return writing.page(study, writing.sections_of(analyses, records, deficits))


def rows(spec):
    """Return the data of a figure."""
    if isinstance(spec, list):
        return [row for part in spec for row in rows(part)]
    if not isinstance(spec, dict):
        return []
    return [*spec.get("data", {}).get("values", []), *(row for part in spec.values() for row in rows(part))]


class Reader(HTMLParser):
    """Fails at an end tag that closes nothing, and keeps what the page is made of."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.texts = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)


def read(text):
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def study():
    records = make_records(measured=True)
    return make_study(), [make_analysis(records)], records


@pytest.fixture(scope="module")
def text(study):
    return page(*study)


def test_every_figure_has_a_name(text):
    figures = [a for tag, a in read(text).tags if tag == "svg" and "plot" in a["class"].split()]
    assert len(figures) == 2 + 2 + 4 + 2  # cost and schedules for both widths, training curves, diagnostics
    assert all(figure["role"] == "group" and figure["aria-label"] for figure in figures)


def test_nothing_is_loaded_and_nothing_else_may_run(text):
    reader = read(text)
    assert not re.search(r"(https?:)?//[a-z]", re.sub(r"(?m)^\s*//.*$", "", text))
    assert "url(" not in text
    assert "@import" not in text
    for tag, attributes in reader.tags:
        assert "src" not in attributes
        assert "style" not in attributes  # the policy would not let it through
        assert not any(name.startswith("on") for name in attributes)
        if tag in ("a", "link"):
            assert attributes["href"].startswith(("#", "data:,"))
    policy = next(a["content"] for tag, a in reader.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_the_same_study_gives_the_same_page(study, text):
    assert page(*study) == text


def test_figures_of_the_analysis(study, text):
    [analysis] = study[1]
    reader = read(text)
    exact = [
        attributes["data-sort"] for tag, attributes in reader.tags if tag in ("td", "th") and "data-sort" in attributes
    ]
    shown = set(reader.texts)
    tips = " ".join(attributes.get("data-tip", "") for _, attributes in reader.tags)
    places = places_of(analysis)
    for setting in analysis.settings:
        numbers = [setting.quality.mean, setting.quality.low, setting.mean_bits, setting.early_bits, setting.bitops]
        numbers += [setting.seconds, 1 - setting.relative_cost]
        if setting.against:
            numbers += [setting.against.difference.mean, setting.against.difference.low, setting.against.corrected]
            assert fmt.interval(setting.against.difference, places, signed=True) in shown
        assert {repr(number) for number in numbers} <= set(exact)
        assert f"{setting.quality.mean:.4f}" in shown
        assert f"{setting.quality.low:.4f} to {setting.quality.high:.4f}" in shown
        assert f"{setting.quality.mean:.4f}, 95 % interval {setting.quality.low:.4f}" in tips
        assert setting.label in shown
    for correlation in analysis.correlations:
        assert f"{correlation.value:+.2f}" in shown
        assert f"{correlation.low:+.2f} to {correlation.high:+.2f}" in shown
    for claim in analysis.claims:
        assert details(claim, analysis) in shown
        assert claim.verdict in shown
    assert set(recommendations(analysis)) <= shown


WITH_A_PAIR = [f"{name}:3-8:cycles=8" for name in ("CR", "RR", "RTH")]


def hostile_study():
    """Every field that is text says something harmful."""
    run = RunConfig(
        HOSTILE, HOSTILE, 100, model=HOSTILE, data=HOSTILE, learning_rate=HOSTILE, options={HOSTILE: HOSTILE}
    )
    records = [
        dataclasses.replace(
            record,
            run=dataclasses.replace(run, seed=record.run.seed, schedule=record.run.schedule + HOSTILE * (i < 3)),
            metric=HOSTILE,
            curve=[{**entry, HOSTILE: 1.0} for entry in record.curve],
            versions={HOSTILE: HOSTILE},
        )
        for i, record in enumerate(make_records(specs=WITH_A_PAIR))
    ]
    sound = make_analysis(make_records(specs=WITH_A_PAIR))
    settings = [
        dataclasses.replace(
            setting,
            condition=dataclasses.replace(
                run, schedule=setting.condition.schedule + HOSTILE * (setting.label == "CR")
            ).condition,
            label=HOSTILE + setting.label,
            group=HOSTILE,
        )
        for setting in sound.settings
    ]
    pair = (HOSTILE, HOSTILE, dataclasses.replace(sound.equal_cost.pairs[0][2], outcome=HOSTILE))
    analysis = dataclasses.replace(
        sound,
        comparison_group=records[0].run.group,
        title=HOSTILE,
        metric=HOSTILE,
        baseline=HOSTILE,
        settings=settings,
        correlations=[dataclasses.replace(sound.correlations[0], over=HOSTILE)],
        equal_cost=dataclasses.replace(sound.equal_cost, labels=[HOSTILE], pairs=[pair]),
        claims=[Claim(ClaimKind.HIGH_START, Verdict.OPEN)],
        advice={Role.ONLY_CHOICE: settings[0].label},
    )
    frame = make_study(
        failed=[(HOSTILE, 1, HOSTILE)],
        name=HOSTILE,
        command=HOSTILE,
        versions={HOSTILE: HOSTILE},
        started=HOSTILE,
        ended=HOSTILE,
        plan=HOSTILE,
    )
    return frame, [analysis, analysis], records


def test_names_never_become_markup():
    reader = read(page(*hostile_study()))
    tags = [tag for tag, _ in reader.tags]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert not any(name.startswith("on") for _, attributes in reader.tags for name in attributes)
    assert any("<script>alert('x')</script>" in text for text in reader.texts)
    assert not re.search("[\x00\u202e]", "".join(reader.texts))


def test_diverged_settings_are_in_the_table_alone():
    records = make_records(diverged=("RR:3-8:cycles=8",))
    analysis = make_analysis(records)
    reader = read(page(make_study(), [analysis], records))
    assert "diverged" in reader.texts
    assert "RR diverged: in the table, but not in the plots." in reader.texts
    [section] = writing.sections_of([analysis], records)
    drawn = {row.get("tip", "").split("\n")[0] for each in (section.cost, section.schedules) for row in rows(each.wide)}
    assert "RR" not in drawn
    assert {"RTH", "CR", "static 8", "full"} <= drawn


def test_all_diverged():
    records = make_records(specs=SPECS[:2], diverged=SPECS[:2])
    text = page(make_study(), [make_analysis(records)], records)
    assert "No setting has both a quality and a cost to show." in text
    read(text)


def test_without_a_baseline_cost_is_absolute():
    records = make_records(specs=WITH_A_PAIR[:2])
    text = page(make_study(), [make_analysis(records)], records)
    assert "There is no static baseline" in text
    assert "in 10¹² BitOps" in text
    assert "no schedules of equal cost" in text


def test_unfinished_and_failed():
    records = make_records()
    failed = [("RR", 2, "RuntimeError: the loss is not finite")]
    reader = read(page(make_study(planned=39, done=31, failed=failed), [make_analysis(records)], records))
    words_of_page = " ".join(reader.texts)
    assert "31 of 39 runs finished." in words_of_page
    assert "RuntimeError: the loss is not finite" in reader.texts
    assert "1 run failed" in reader.texts


def test_no_curves_and_unknown_schedules():
    records = [dataclasses.replace(record, curve=[]) for record in make_records()]
    analysis = make_analysis(records)
    condition = dataclasses.replace(records[0].run, schedule="call:mine").condition
    unknown = [dataclasses.replace(s, condition=condition) for s in analysis.settings]
    text = page(make_study(), [dataclasses.replace(analysis, settings=unknown)], records)
    assert "contain no training curves" in text
    assert "None of the schedules is known here" in text
    assert "Diagnostics during training" not in text


@pytest.fixture(scope="module")
def cost(study):
    [section] = writing.sections_of(*study[1:])
    return section.cost


def columns(spec):
    """Return the settings of a cost plot by their position in pixels."""
    low, high = spec["encoding"]["x"]["scale"]["domain"]
    placed = {row["name"]: row["x"] for row in rows(spec) if "name" in row}
    return {name: (x - low) / (high - low) * spec["width"] for name, x in placed.items()}


def named(spec):
    return [layer for part in spec["layer"] for layer in part.get("layer", ()) if "description" in layer["encoding"]]


def test_names_have_columns_of_their_own_which_no_font_can_overlap(cost):
    for spec in (cost.wide, cost.narrow):
        places = sorted(columns(spec).values())
        assert min(b - a for a, b in itertools.pairwise(places)) >= COLUMN - 0.1 > NAME_GAP
        assert {layer["mark"]["angle"] for layer in named(spec)} == {270}
        assert sum(len(rows(layer)) for layer in named(spec)) == 12
        low, high = spec["encoding"]["y"]["scale"]["domain"]
        assert all(low <= row["low"] <= row["high"] <= high for row in rows(spec) if "low" in row)


def test_every_kind_has_its_own_colour_and_shape():
    dark = (TEMPLATES / "page.css").read_text("utf-8")
    assert len(set(TINTS.values())) == len(TINTS)  # a page finds them by their value
    assert len({re.search(rf"--{kind.tint}: (#\w+);", dark)[1] for kind in KINDS}) == len(KINDS)
    assert len({kind.shape for kind in KINDS}) == len({kind.sign for kind in KINDS}) == len(KINDS)
    assert all(f"--{name}: #" in dark for name in TINTS)


def test_costs_are_never_negative_savings(text):
    shown = read(text).texts
    assert "16 times the cost" in shown
    assert not any(re.search(r"[-\N{MINUS SIGN}]\d[\d.,]*\s*%", each) for each in shown)


def test_what_is_not_known_is_not_shown(study):
    unknown = read(page(make_study(workers=None, ended=None), *study[1:])).texts
    assert not {"workers", "ended"} & set(unknown)
    known = read(page(make_study(workers=2, ended="2026-03-01T09:41:02"), *study[1:])).texts
    assert known[known.index("workers") + 1] == "2"
    assert known[known.index("ended") + 1] == "2026-03-01 09:41"


def test_very_many_settings_are_drawn_in_part():
    specs = [
        f"{name}:{low}-8:cycles={cycles}"
        for name in ("CR", "LT", "RTV")
        for low in (3, 4)
        for cycles in range(2, 24, 2)
    ]
    records = make_records(specs=[*specs, "static:8", "full"], points=4)
    analysis = make_analysis(records)
    unique = [dataclasses.replace(s, label=f"{s.label} {i}") for i, s in enumerate(analysis.settings)]
    analysis = dataclasses.replace(analysis, settings=unique)
    drawn = drawn_settings(analysis)
    assert len(unique) > len(drawn) == MAX_DRAWN
    assert all(setting in drawn for setting in unique if setting.baseline)
    [section] = writing.sections_of([analysis], records)
    with undrawn():
        reader = read(writing.page(make_study(), [section]))
    assert any(f"The plots show {MAX_DRAWN} of {len(unique)} settings" in each for each in reader.texts)
    assert len([a for tag, a in reader.tags if tag == "tr" and "data-setting" in a]) == len(unique)
    drawn = {row["name"] for each in section.training for row in rows(each.wide) if "dash" in row}
    assert len(drawn) == MAX_DRAWN
    assert not named(section.cost.narrow)  # no room for so many
