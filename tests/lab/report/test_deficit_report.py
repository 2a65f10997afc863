"""Deficit experiments on the page of a report: it says what the analysis says, whatever was run of it."""

import dataclasses
import math
import re

import pytest

from bitcycle.lab import format as fmt
from bitcycle.lab.report.deficit_section import Trainings, drawn_conditions
from bitcycle.lab.report.drawing import SHADES
from bitcycle.lab.report.labels import ARM, experiments_of, places_of, point_lines, points_of
from bitcycle.lab.report.line_plots import DIAGNOSTICS, Curves, value_axis
from bitcycle.lab.report.quality_plots import ARM_GAP, deficit_rows
from bitcycle.lab.report.rendering import TEMPLATES
from bitcycle.lab.report.words import details
from bitcycle.lab.report.writing import sections_of
from bitcycle.lab.runs.result import Diagnostic
from bitcycle.lab.statistics.deficits import analyse_deficits
from bitcycle.lab.studies.deficits import ARMS, DeficitPart
from tests.lab.report.test_report import HOSTILE, page, read, rows
from tests.lab.studies.examples import make_analysis, make_deficit_records, make_deficits, make_records, make_study

PART = DeficitPart("image", (3, 8), 400, seeds=(0, 1, 2))
LANGUAGE = DeficitPart("language", (5, 8), 200, seeds=(0, 1, 2))


def change(**changes):
    """Return the part with other values; those that it has no attribute for are fields of its runs."""
    of_part = {name: changes.pop(name) for name in list(changes) if hasattr(PART, name)}
    return dataclasses.replace(PART, **of_part, fields=changes)


def is_measured(part):
    return part.fields.get("diagnostics", True)


def shown(analysis, records, **of_study):
    return read(page(make_study(**of_study), [], records, [analysis]))


@pytest.fixture(scope="module")
def image():
    return make_deficits(PART)


@pytest.fixture(scope="module")
def reader(image):
    return shown(*image)


def test_figures_of_the_analysis(image, reader):
    analysis = image[0]
    exact = {attributes["data-sort"] for _, attributes in reader.tags if "data-sort" in attributes}
    texts, places = set(reader.texts), places_of(analysis)
    for point in points_of(analysis):
        numbers = [point.share, point.place, point.quality.mean, point.quality.low]
        assert fmt.fixed(point.quality.mean, places) in texts
        assert fmt.interval(point.quality, places) in texts
        if point.loss:
            numbers += [point.loss.difference.mean, point.loss.difference.low, point.loss.corrected]
            assert fmt.fixed(point.loss.difference.mean, places, signed=True) in texts
            assert fmt.interval(point.loss.difference, places, signed=True) in texts
            assert fmt.p_value(point.loss.corrected) in texts
            assert point.loss.outcome in texts
        assert {repr(number) for number in numbers} <= exact
    for claim in analysis.claims:
        assert details(claim, analysis) in texts
        assert claim.verdict in texts


def test_marks_have_their_figures_and_tooltips(image):
    analysis, records = image
    [section] = sections_of([], records, [analysis])
    for experiment in experiments_of(analysis):
        figure = section.plots[experiment.name]
        for spec in (figure.wide, figure.narrow):
            marks, _ = deficit_rows(analysis, experiment, spec["width"])
            assert len(marks) == len(experiment.points)
            for mark, point in zip(marks, experiment.points, strict=True):
                quality = point.quality
                assert (mark["y"], mark["low"], mark["high"]) == (quality.mean, quality.low, quality.high)
                assert mark["tip"].split("\n") == point_lines(analysis, experiment, point)
                assert mark in rows(spec)
            low, high = spec["encoding"]["x"]["scale"]["domain"]
            pixel = (high - low) / spec["width"]
            assert all(abs(mark["x"] - mark["share"]) <= ARM_GAP * pixel for mark in marks)
            assert all(low <= mark["x"] <= high for mark in marks)
            assert len({(mark["x"], mark["y"]) for mark in marks}) == len(marks)


def test_arms_differ_by_more_than_their_colour():
    assert list(ARM) == list(ARMS)
    for quality in ("shape", "sign", "dash", "tint"):
        assert len({getattr(arm, quality) for arm in ARM.values()}) == 3
    dark = (TEMPLATES / "page.css").read_text("utf-8")
    assert len(set(re.findall(r"--shade-\d: (#\w+);", dark))) == len(SHADES)


def test_measurements_are_explained(image, reader):
    assert set(DIAGNOSTICS) == set(Diagnostic)
    assert {diagnostic.sentence for diagnostic in DIAGNOSTICS.values()} <= set(reader.texts)
    plots = trainings(*image)[0].plots
    assert sum({"y": 1.0} in rows(plot.wide) for plot in plots) == 3  # thresholds


def trainings(analysis, records):
    curves = Curves(records, drawn_conditions(analysis))
    return Trainings(analysis, curves), curves


def test_measurements_are_means_over_seeds(image):
    analysis, records = image
    found, curves = trainings(analysis, records)
    assert list(found.short.values()) == ["0", "0.25", "0.5", "1", "2", "longer (control)"]
    assert [line.dot for line in found.lines] == [0, 100, 200, 400, 800, 0]
    by_run = {record.run: record for record in records}
    held = [point for point in analysis.lengths if point.arm == "held"]
    lines = found.courses(curves, "gradient diversity")
    assert len(lines) == 6
    for line, point in zip(lines[1:5], held, strict=True):
        members = [by_run[run] for run in point.runs]
        assert len(members) == len(PART.seeds)
        for i, (step, value) in enumerate(line.points):
            entries = [record.curve[i] for record in members]
            assert {entry["step"] for entry in entries} == {step}
            assert math.isclose(value, sum(entry["gradient diversity"] for entry in entries) / 3)
    ratios = found.courses(curves, "update after a change of bits")
    assert [found.short[line.label] for line in ratios] == ["0.25", "0.5", "1", "2"]  # no deficit, no change of bits
    assert {len(line.points) for line in ratios} == {1}


def test_decades_are_drawn_on_a_logarithmic_scale(image):
    titles = [plot.name for plot in trainings(*image)[0].plots]
    assert titles == [
        "Fisher information, logarithmic scale",
        "gradient over noise, logarithmic scale",
        "gradient diversity",
        "gradient after a change of bits",
        "update after a change of bits",
    ]
    assert value_axis([0.2, 0.3], threshold=1.0).domain[1] >= 1  # the threshold is on the plot


def test_contents_and_findings():
    image, language = make_deficits(PART), make_deficits(LANGUAGE, metric="perplexity")
    records = make_records()
    analysis = make_analysis(records)
    everything = [*records, *image[1], *language[1]]
    found = read(page(make_study(), [analysis], everything, [image[0], language[0]]))
    anchors = {attributes["id"] for tag, attributes in found.tags if tag == "section"}
    assert {"task-1", "deficit-1", "deficit-2"} <= anchors
    assert {f"#{anchor}" for anchor in anchors} == {attributes["href"] for tag, attributes in found.tags if tag == "a"}
    top = " ".join(found.texts[: found.texts.index("Arms")])
    for deficit in (image[0], language[0]):
        assert all(details(claim, deficit) in top for claim in deficit.claims[:3])
    assert "Deficits on image and language" in top
    assert found.texts.count(details(image[0].claims[0], image[0])) == 2  # at the top and in its section
    assert found.texts.count(details(image[0].claims[-1], image[0])) == 1


CASES = {
    "lengths alone": (change(window=0.0), "length"),
    "positions alone": (change(lengths=()), "position"),
    "no deficit among the lengths": (change(lengths=(0.5, 1.0)), "length"),
    "the normal run is the only length": (change(lengths=(0.0,)), "position"),
    "without the restart": (change(arms=("held", "longer")), "length"),
    "the control alone": (change(arms=("longer",)), None),
    "one length": (change(lengths=(1.0,), window=0.0), "length"),
    "many lengths": (change(lengths=tuple(i / 10 for i in range(12)), seeds=(0, 1)), "length"),
    "lengths close together": (change(lengths=(0.0, 0.01, 0.02, 4.0)), "length"),
    "without measurements": (change(diagnostics=False), "length"),
}


@pytest.mark.parametrize("name", CASES)
def test_plans_of_all_kinds(name):
    part, experiment = CASES[name]
    analysis, records = make_deficits(part)
    found = shown(analysis, records)
    assert ("Length of the deficit" in found.texts) == bool(part.lengths)
    assert ("Start of the deficit" in found.texts) == bool(part.window)
    for arm in ARM.values():
        assert (arm.title in found.texts) == (arm.name in part.arms)
    assert ("Diagnostics during training" in found.texts) == (is_measured(part) and experiment is not None)
    if experiment:
        assert trainings(analysis, records)[0].experiment.name == experiment
    kinds = [
        *(["deficit-length"] if part.lengths else []),
        *(["deficit-position"] if part.window else []),
        *(["measurements"] if is_measured(part) and experiment else []),
    ]
    [section] = sections_of([], records, [analysis])
    assert [figure.name for figure in section.figures] == kinds


def test_one_seed_has_no_error_bars():
    analysis, records = make_deficits(change(seeds=(0,)))
    marks, _ = deficit_rows(analysis, experiments_of(analysis)[0], 900)
    assert all(mark["low"] == mark["y"] == mark["high"] for mark in marks)
    text = page(make_study(seeds=[0]), [], records, [analysis])
    assert "There is one seed per point" in text
    assert "no interval" in text


def test_diverged_points_are_in_the_table_alone():
    analysis, records = make_deficits(PART, diverged=lambda cell, seed: cell.arm == "held" and cell.place >= 400)
    found = shown(analysis, records)
    marks = [mark for each in experiments_of(analysis) for mark in deficit_rows(analysis, each, 900)[0]]
    assert len(marks) == sum(math.isfinite(point.quality.mean) for point in points_of(analysis))
    assert found.texts.count("diverged") >= 2
    assert any(text.startswith("A run diverged: held with an initial deficit of 1 normal") for text in found.texts)


def hostile():
    part = change(task=HOSTILE, model=HOSTILE, data=HOSTILE, options={HOSTILE: HOSTILE})
    records = [
        dataclasses.replace(record, metric=HOSTILE, curve=[{**entry, HOSTILE: 1.0} for entry in record.curve])
        for record in make_deficit_records(part)
    ]
    return analyse_deficits(part, records), records


def test_names_never_become_markup():
    analysis, records = hostile()
    assert HOSTILE in [plot.name for plot in trainings(analysis, records)[0].plots]
    found = shown(analysis, records)
    tags = [tag for tag, _ in found.tags]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert not any(name.startswith("on") for _, attributes in found.tags for name in attributes)
    assert not re.search("[\x00\u202e]", "".join(found.texts))


def test_means_are_over_all_seeds_or_left_out():
    records = make_deficit_records(PART)
    run = next(record.run for record in records if record.curve)
    shorter = [dataclasses.replace(r, curve=r.curve[:-1]) if r.run == run else r for r in records]
    whole, cut = (Curves(some, [run.condition]).mean(run.condition, "validation") for some in (records, shorter))
    assert cut == whole[:-1]
