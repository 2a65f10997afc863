"""The files of a report: summary, table, figures, and how they get to the disk."""

import csv
import io
import itertools
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bitcycle.lab.report import write_report, writing
from bitcycle.lab.report.columns import deficits_csv, settings_csv
from bitcycle.lab.report.rendering import fenced
from bitcycle.lab.report.writing import sections_of, summary
from tests.lab.report.test_deficit_report import PART, hostile
from tests.lab.report.test_report import HOSTILE, hostile_study, undrawn
from tests.lab.studies.examples import make_analysis, make_deficits, make_records, make_study

PIL_Image = pytest.importorskip("PIL.Image", reason="figures need the extra study")


@pytest.fixture(scope="module")
def study():
    records = make_records(points=8)
    return make_study(), [make_analysis(records)], records


@pytest.fixture(scope="module")
def deficits():
    return make_deficits(PART)


@pytest.fixture(scope="module")
def files(study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    with undrawn():
        return folder, write_report(folder, *study)


def test_all_files_are_there(files):
    folder, paths = files
    kinds = [f"figures/{kind}-image.{form}" for kind in ("cost", "curves", "schedules") for form in ("png", "svg")]
    names = {path.relative_to(folder).as_posix() for path in paths}
    assert names == {"report.html", "summary.md", "settings.csv", *kinds}
    on_disk = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert on_disk == names  # nothing is left over


@pytest.mark.slow
def test_figures_are_pictures_and_the_same_every_time(study, deficits, tmp_path):
    analysis, records = deficits
    studies = [study, (study[0], [], records, [analysis])]
    first, again = ([write_report(tmp_path / name / str(i), *each) for i, each in enumerate(studies)] for name in "ab")
    for path, other in zip(itertools.chain(*first), itertools.chain(*again), strict=True):
        assert path.read_bytes() == other.read_bytes(), path.name
        if path.suffix == ".png":
            with PIL_Image.open(path) as picture:
                assert picture.width > 1200
                assert len(picture.convert("L").getcolors()) > 20  # something is drawn
        if path.suffix == ".svg":
            text = path.read_text("utf-8")
            assert ElementTree.fromstring(text).tag.endswith("svg")
            assert "var(" not in text  # converters know no variables
            assert "Liberation Sans" in text  # which the converter brings along
            assert set(re.findall(r"https?://[^\"]+", text)) <= {
                "http://www.w3.org/2000/svg",
                "http://www.w3.org/1999/xlink",
            }
    page = first[0][-1].read_text("utf-8")
    assert len(page) < 600_000
    assert not re.search("https?://", page)
    assert 'stroke="var(--large)"' in page


def test_summary_says_what_the_analysis_says(study):
    frame, [analysis], records = study
    text = summary(frame, sections_of([analysis], records), {"task-1": ["figures/cost-image.png"]})
    assert "![" in text
    assert frame.command in text
    for setting in analysis.settings:
        assert f"| {setting.label} |" in text
        assert f"{setting.quality.mean:.4f}" in text
        assert f"{setting.quality.low:.4f} to {setting.quality.high:.4f}" in text
    for claim in analysis.claims:
        assert f"**{claim.verdict}**" in text
    for line in text.splitlines():
        if line.startswith("| ") and "schedule" in line:
            columns = line.count("|")
    rows = [line for line in text.splitlines() if line.startswith("| ") and "saving" not in line and "static 8" in line]
    assert all(row.count("|") == columns for row in rows if row.startswith("| static 8 |"))


def test_names_stay_names_in_markdown():
    frame, analyses, records = hostile_study()
    deficit, measured = hostile()
    text = summary(frame, sections_of(analyses, records), {})
    outside = re.sub(r"(?s)```.*?```", "", text)
    assert not re.search(r"(?<!\\)<script", outside)
    assert not re.search(r"(?<!\\)<script", summary(make_study(), sections_of([], measured, [deficit]), {}))
    assert len([line for line in outside.splitlines() if line.startswith("#")]) == 1 + 2 + 1 + 1
    assert fenced("a ``` b").startswith("````\n")


def test_csv_holds_exact_numbers(study):
    [analysis] = study[1]
    rows = list(csv.DictReader(io.StringIO(settings_csv([analysis]))))
    assert [row["label"] for row in rows] == [setting.label for setting in analysis.settings]
    for row, setting in zip(rows, analysis.settings, strict=True):
        assert float(row["mean"]) == setting.quality.mean
        assert float(row["relative_cost"]) == setting.relative_cost
        assert float(row["bitops"]) == setting.bitops
        assert row["on_front"] == str(setting.on_front)
        if setting.against:
            assert float(row["p_corrected"]) == setting.against.corrected


def test_csv_keeps_hostile_names_in_their_cell():
    [first, *_] = csv.DictReader(io.StringIO(settings_csv(hostile_study()[1])))
    assert first["title"] == HOSTILE
    [first, *_] = csv.DictReader(io.StringIO(deficits_csv([hostile()[0]])))
    assert first["task"] == HOSTILE


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["study", "deficits"])
def test_hostile_names_in_files(tmp_path, kind):
    analysis, records = hostile()
    study = hostile_study() if kind == "study" else (make_study(), [], records, [analysis])
    paths = write_report(tmp_path / "out", *study)
    assert all((tmp_path / "out") in path.parents for path in paths)
    assert all(re.fullmatch(r"[a-z0-9.-]+", path.name) for path in paths)
    assert [path for path in paths if path.suffix == ".svg" and ElementTree.parse(path)]


def test_a_full_disk_leaves_the_earlier_report_whole(tmp_path, monkeypatch):
    earlier = writing.replace_all(tmp_path, {"report.html": b"old", "summary.md": b"old"})
    write, calls = Path.write_bytes, []

    def full(path, content):
        calls.append(path)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="could not be written.*No space left on device.*complete") as caught:
        writing.replace_all(tmp_path, {"report.html": b"new", "summary.md": b"new"})
    assert "\n" not in str(caught.value)
    assert caught.value.errno == 28
    assert [path.read_bytes() for path in earlier] == [b"old", b"old"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "summary.md"]


def test_a_file_in_the_place_of_the_folder(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(OSError, match="could not be written"):
        writing.replace_all(tmp_path / "out", {"report.html": b"new"})
    assert (tmp_path / "out").read_text() == "mine"


def test_names_of_figures_are_unique_and_safe():
    assert writing.file_names(["image", "image"]) == ["image-1", "image-2"]
    assert writing.file_names(["image", "../Graph", ""]) == ["image", "graph", "task"]


def test_a_study_without_any_run(tmp_path):
    paths = write_report(tmp_path, make_study(done=0), [], [])
    assert [path.name for path in paths] == ["settings.csv", "summary.md", "report.html"]


def test_importing_the_report_loads_neither_torch_nor_the_renderer():
    code = "import sys, bitcycle.lab.report; print({'torch', 'vl_convert'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
