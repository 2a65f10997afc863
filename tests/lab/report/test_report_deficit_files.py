"""Deficit experiments in the files of a report: figures, summary and table say what the analysis says."""

import csv
import io
import re
from xml.etree import ElementTree

import pytest

from bitcycle.lab import format as fmt
from bitcycle.lab.report import write_report
from bitcycle.lab.report.columns import deficits_csv
from bitcycle.lab.report.labels import places_of, points_of
from bitcycle.lab.report.page import sections_of
from bitcycle.lab.report.writing import summary
from tests.lab.report.test_deficit_report import PART, change, hostile
from tests.lab.report.test_report import HOSTILE
from tests.lab.studies.examples import make_deficits, make_study

PIL_Image = pytest.importorskip("PIL.Image", reason="figures need the extra study")


@pytest.fixture(scope="module")
def image():
    return make_deficits(PART)


def test_hostile_names_in_files(tmp_path):
    analysis, records = hostile()
    paths = write_report(tmp_path / "out", make_study(), [], records, [analysis])
    assert all((tmp_path / "out") in path.parents and re.fullmatch(r"[a-z0-9.-]+", path.name) for path in paths)
    for path in paths:
        if path.suffix == ".svg":
            ElementTree.parse(path)
    outside = re.sub(r"(?s)```.*?```", "", (tmp_path / "out/summary.md").read_text("utf-8"))
    assert not re.search(r"(?<!\\)<script", outside)
    assert next(csv.DictReader(io.StringIO(deficits_csv([analysis]))))["task"] == HOSTILE


def test_csv_holds_exact_numbers(image):
    analysis = image[0]
    rows = list(csv.DictReader(io.StringIO(deficits_csv([analysis]))))
    assert len(rows) == len(points_of(analysis))
    for row, point in zip(rows, points_of(analysis), strict=True):
        assert (row["arm"], int(row["place_steps"]), float(row["place"])) == (point.arm, point.place, point.share)
        assert (float(row["mean"]), float(row["low"])) == (point.quality.mean, point.quality.low)
        if point.loss:
            assert float(row["difference"]) == point.loss.difference.mean
            assert float(row["p_corrected"]) == point.loss.corrected
            assert row["verdict"] == point.loss.outcome
    assert [row["experiment"] for row in rows] == ["length"] * 13 + ["position"] * 12


def test_summary_says_what_the_analysis_says(image):
    analysis, records = image
    addresses = [f"figures/{name}-image.png" for name in ("deficit-length", "deficit-position", "measurements")]
    text = summary(make_study(), sections_of([], records, [analysis]), {"deficit-1": addresses})
    assert all(f"]({address})" in text for address in addresses)
    assert "quality against the length of the deficit" in text
    rows = [line for line in text.splitlines() if re.match(r"\| (held|restarted|longer) \|", line)]
    assert len(rows) == len(points_of(analysis))
    assert len({row.count("|") for row in rows}) == 1
    for row, point in zip(rows, points_of(analysis), strict=True):
        assert f"| {fmt.fixed(point.quality.mean, places_of(analysis))} |" in row
        assert (point.loss.outcome if point.loss else "the control") in row
    assert all(f"**{claim.verdict}**" in text for claim in analysis.claims)


def test_figures_are_pictures_and_the_same_every_time(image, tmp_path):
    analysis, records = image
    first = write_report(tmp_path / "a", make_study(), [], records, [analysis])
    again = write_report(tmp_path / "b", make_study(), [], records, [analysis])
    assert {path.name for path in first if path.suffix == ".png"} == {
        "deficit-length-image.png",
        "deficit-position-image.png",
        "measurements-image.png",
    }
    for path, other in zip(first, again, strict=True):
        assert path.read_bytes() == other.read_bytes(), path.name
        if path.suffix == ".png":
            with PIL_Image.open(path) as picture:
                assert picture.width == 1920
                assert len(picture.convert("L").getcolors()) > 20  # something is drawn


def test_two_experiments_on_one_task_have_names_of_their_own(tmp_path):
    one, other = make_deficits(change(diagnostics=False)), make_deficits(change(diagnostics=False, model="another"))
    paths = write_report(tmp_path, make_study(), [], [*one[1], *other[1]], [one[0], other[0]])
    assert {path.name for path in paths if path.suffix == ".png"} == {
        f"deficit-{kind}-image-{number}.png" for kind in ("length", "position") for number in (1, 2)
    }
