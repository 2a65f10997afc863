"""``bitcycle study``, ``results`` and ``report``, as a user calls them."""

import json

import pytest

from tests.support.command import bitcycle

SMALL = ("--steps", "10", "--batch-size", "8", "--seeds", "2", "--schedules", "CR", "--schedules", "static q_max")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    return folder, bitcycle("study", "image", *SMALL, "--store", str(folder / "s.sqlite"))


def test_a_study_ends_in_a_report(done):
    folder, result = done
    assert result.returncode == 0, result.stderr
    assert "4 of 4 runs done" in result.stdout
    assert f"report: {folder / 'image' / 'report.html'}" in result.stdout
    page = (folder / "image" / "report.html").read_text()
    assert "bitcycle study image --steps 10" in page
    assert (folder / "image" / "summary.md").exists()


@pytest.mark.slow
def test_the_same_command_again_runs_nothing(done):
    folder, _ = done
    again = bitcycle("study", "image", *SMALL, "--store", str(folder / "s.sqlite"))
    assert again.returncode == 0
    assert "4 of 4 runs done (4 before)" in again.stdout


@pytest.mark.slow
def test_results_and_exports(done):
    folder, _ = done
    store = ("--store", str(folder / "s.sqlite"))
    listed = bitcycle("results", *store)
    assert listed.stdout.count("CR:2-8:cycles=8") == 2
    assert "4 runs, 0 failed; studies: image" in listed.stdout
    assert bitcycle("results", "image", *store, "--export", str(folder / "r.json")).returncode == 0
    assert len(json.loads((folder / "r.json").read_text())) == 4
    assert "no study 'imgae'; did you mean 'image'" in bitcycle("report", "imgae", *store).stderr
    assert bitcycle("report", *store, "--out", str(folder / "again")).returncode == 0
    assert (folder / "again" / "report.html").read_text() == (folder / "image" / "report.html").read_text()


@pytest.mark.slow
def test_a_plan_with_a_name_like_a_script(tmp_path):
    (tmp_path / "plan.toml").write_text(
        'name = "<script>alert(1)</script>"\ntask = "image"\nschedules = ["static:8"]\nsteps = 4\nseeds = 1\n'
        "batch_size = 8\n"
    )
    result = bitcycle("study", str(tmp_path / "plan.toml"), "--store", str(tmp_path / "s.sqlite"))
    assert result.returncode == 0, result.stderr
    [page] = tmp_path.glob("*/report.html")
    assert page.parent.name == "script-alert-1-script"
    assert "<script>alert" not in page.read_text()
