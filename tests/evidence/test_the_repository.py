"""The claims, domains and figures in the repository fit together, and the docs have the numbers of the figures."""

import math
import shutil
import statistics
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from bitcycle.lab.format import MINUS, NONE
from bitcycle.lab.judging import Effect
from bitcycle.lab.studies.store import Store
from evidence.design import Measure, Role, read_design
from evidence.documents import documents, quoted, repository_of
from evidence.figures import (
    Figure,
    StudyFigures,
    all_figures,
    complete_study,
    path_of,
    read,
    update,
    write,
)
from evidence.judging import Mark, judge, seeds_to_settle
from evidence.page import effect_text, html_page, markdown_page
from evidence.power import powers
from evidence.repetition import REPEATED, repetitions
from evidence.studies import missing_requirements, planned_study, settings_of
from tests.evidence import made_up
from tests.evidence.made_up import claim, design, figures
from tests.lab.report.test_report import undrawn

FOLDER = Path(__file__).parents[2] / "evidence"
DESIGN = read_design(FOLDER)
REPEATS = all_figures(FOLDER / REPEATED, DESIGN, Role.JUDGING)
LOSSES = {"static q_min": 2.0, "static q_max": 1.0, "CT": 1.3, "match(CT, mixed)": 1.6}


def planned(domain, kind):
    """A domain with a task that is quick to prepare, on which settings do not depend, and the plan of a study on it."""
    quick = {"task": "graph", "bits": [2, 8], "steps": 200} if kind != "aggregation" else domain.task
    domain = replace(domain, task=quick, seeds=1, found=3)
    return domain, planned_study(DESIGN, domain, kind, Role.JUDGING)


def domain_with(kind):
    """A domain that has a study; one with embedded data if there is one."""
    return min((each for each in DESIGN.domains if kind in each.studies), key=lambda each: "data" in each.task)


@pytest.mark.parametrize("domain", [each for each in DESIGN.domains if "schedules" in each.studies], ids=lambda x: x.id)
def test_controls_cost_the_same_as_their_schedule(domain):
    runs = read(path_of(FOLDER, domain, "schedules", Role.JUDGING)).figures
    costs = {(run.setting, run.seed): run.bitops for run in runs}
    seeds = DESIGN.seeds(domain, Role.JUDGING, "schedules")
    for schedule in ("CT", "RTH"):
        controls = {run.setting for run in runs if run.setting.startswith(f"match({schedule}, ")}
        assert len(controls) == 4
        for control in controls:
            extra = statistics.fmean(costs[control, seed] / costs[schedule, seed] - 1 for seed in seeds)
            assert abs(extra) < (0.004 if domain.id == "snli" else 0.001), control


def test_claims_and_domains_fit_together():
    assert len({each.id for each in DESIGN.claims}) == len(DESIGN.claims)
    assert len({each.id for each in DESIGN.domains}) == len(DESIGN.domains)
    for domain in DESIGN.domains:
        assert DESIGN.claims_about(domain)
        for study in domain.studies:
            tuning, judging = (set(DESIGN.seeds(domain, role, study)) for role in Role)
            assert not tuning & judging
            least = 8 if study == "recipes" else 10 if "embedded" in domain.kinds else 5
            assert len(judging) >= least
    for each in DESIGN.claims:
        assert any(each in DESIGN.claims_about(domain) for domain in DESIGN.domains), each.id
        assert sum(each.weights.values()) == pytest.approx(0)
        assert not each.given or each.given in {other.id for other in DESIGN.claims if other.study == each.study}
        for domain in DESIGN.domains:
            if each in DESIGN.claims_about(domain):
                assert set(each.needed) <= set(settings_of(DESIGN, domain, each.study)), (each.id, domain.id)


def test_a_pilot_has_some_settings_of_a_study():
    _, study = planned(DESIGN.domain("digit-graph"), "cycles")
    assert {run.schedule for run in study.of_settings(["CT 2 cycles"]).values()} == {"CT:2-8:cycles=2"}
    assert set(study.of_settings()) == {run.name for run in study.plan.runs()}
    _, deficits = planned(DESIGN.domain("digits-deficit"), "deficits")
    [held] = deficits.of_settings(["length 1 held"]).values()
    assert held.schedule == "deficit(2@0..200, static:8)"


@pytest.mark.parametrize("kind", DESIGN.studies)
def test_settings_are_known_without_a_plan(kind):
    domain, study = planned(domain_with(kind), kind)
    assert settings_of(DESIGN, domain, kind) == list(dict.fromkeys(each.setting for each in study.runs))


def test_data_is_a_folder_or_files_with_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("BITCYCLE_DATA", str(tmp_path))
    domain = DESIGN.domain("cora-gcn")
    missing = f"set BITCYCLE_DATA to the folder that contains planetoid/cora ({tmp_path} does not)"
    for name in ("planetoid/cora/x", "planetoid/ind.cora.x", "planetoid/raw/ind.cora.x"):
        assert missing_requirements(domain) == missing
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
        assert missing_requirements(domain) == ""
        shutil.rmtree(tmp_path / "planetoid")
    monkeypatch.delenv("BITCYCLE_DATA")
    assert missing_requirements(domain) == "set BITCYCLE_DATA to the folder that contains planetoid/cora"
    assert missing_requirements(DESIGN.domain("digits")) == ""


def figure(setting, run):
    return Figure(setting, run.schedule, run.seed, 0.9, 0.1, 1, 1.0, run.name, "")


def test_figures_of_another_machine_are_kept_as_long_as_their_runs_are_planned(tmp_path):
    """A control that was solved anew has the same setting and seed, but it is another run."""
    _, study = planned(DESIGN.domain("digit-graph"), "cycles")
    renamed = figure("an earlier name", study.runs[0].run)
    solved_before = [figure(setting, replace(run, schedule="static:5.5")) for setting, run in study.runs]
    path = tmp_path / "f.csv"
    with Store(tmp_path / "store.sqlite") as store:
        assert update(path, study, store) == 0
        assert not path.exists()
        write(path, StudyFigures("accuracy", True, (renamed, *solved_before[1:])))
        assert update(path, study, store) == len(study.runs) - 1
        assert read(path).figures == (figure(*study.runs[0]),)
        write(path, StudyFigures("accuracy", True, tuple(solved_before)))
        assert update(path, study, store) == len(study.runs)
        assert not path.exists()


def test_a_study_is_complete_with_all_planned_figures():
    domain, study = planned(DESIGN.domain("digit-graph"), "cycles")
    made = [figure(setting, run) for setting, run in study.runs]
    for figures_there, is_complete in ((made, True), ([replace(made[0], setting="gone"), *made[1:]], False)):
        found = {(domain.id, "cycles"): StudyFigures("accuracy", True, tuple(figures_there))}
        assert bool(complete_study(DESIGN, domain, "cycles", found)) == is_complete


def test_figures_are_read_as_they_were_written(tmp_path):
    [study] = figures({"static q_min": 2.0, "CT": 1 / 3}).values()
    for higher in (True, False):
        written = replace(study, higher_is_better=higher)
        write(tmp_path / "f.csv", written)
        assert read(tmp_path / "f.csv") == written
    (tmp_path / "f.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="has the columns a, b; they should be setting"):
        read(tmp_path / "f.csv")
    write(tmp_path / "f.csv", study)
    first, second, *rest = (tmp_path / "f.csv").read_text().splitlines()
    (tmp_path / "f.csv").write_text("\n".join([first, second, "<<<<<<< HEAD", *rest]))
    with pytest.raises(ValueError, match=r"f\.csv, line 3: .*, in the row <<<<<<< HEAD$"):
        read(tmp_path / "f.csv")
    (tmp_path / "f.csv").write_text("\n".join([first, second.replace(",100,", ",one,")]))
    with pytest.raises(ValueError, match=r"f\.csv, line 2: .*'one', in the row "):
        read(tmp_path / "f.csv")


def test_figures_come_from_the_runs_of_the_design():
    """Every file belongs to a study, and has seeds for judging alone; pilots have seeds for tuning alone."""
    paths = set(FOLDER.glob("*/*.csv"))
    for domain, role in product(DESIGN.domains, Role):
        for study in domain.studies:
            path = path_of(FOLDER, domain, study, role)
            if path in paths:
                assert {figure.seed for figure in read(path).figures} <= set(DESIGN.seeds(domain, role, study)), path
                paths.remove(path)
    assert not paths


@pytest.mark.slow
def test_the_repository_says_what_the_figures_say():
    judged, pilots = (all_figures(FOLDER, DESIGN, role) for role in (Role.JUDGING, Role.TUNING))
    for path, text in documents(DESIGN, judged, pilots, REPEATS, FOLDER.parent).items():
        assert path.read_text(encoding="utf-8") == text, f"{path}: run 'python -m evidence page --update'"


def test_only_the_folder_of_the_repository_updates_documents(tmp_path, monkeypatch):
    assert repository_of(FOLDER) == FOLDER.parent
    monkeypatch.chdir(FOLDER)
    assert repository_of(Path()) == FOLDER.parent
    with pytest.raises(ValueError, match="quotes the verdict on 'nonsense', which is not a claim"):
        quoted("<!-- verdict nonsense -->x<!-- end -->", {})
    (tmp_path / "evidence").mkdir()
    for other in (FOLDER.parent, FOLDER.parent / "docs", tmp_path / "evidence"):
        with pytest.raises(ValueError, match="--update needs the folder evidence of the repository, got "):
            repository_of(other)


def test_the_page_has_every_cell_and_scrolls_where_it_is_wide():
    found = figures(LOSSES)
    text = html_page(design(claim()), found, {}, {})
    [cell] = judge(design(claim()), found)
    parts = ("supported", "python -m evidence run d", str(Measure.LOSS), f"+{cell.effect.mean:.2f}")
    scrolling = ('<table class="judged">', '<figure><div class="scroll" tabindex="0"')
    assert all(part in text for part in (*parts, *scrolling))
    assert "1 of 1 judged cells are supported" in markdown_page(design(claim()), found, {}, {})


def test_the_gap_is_told_when_all_of_its_seeds_are_done():
    deficits = made_up.domain(id="e", seeds=5, gap_of="d", task={"task": "graph", "bits": [1, 8]})
    both = design(claim(), domains=(made_up.domain(), deficits))
    own = {("e", "schedules"): figures(LOSSES)["d", "schedules"]}
    part = markdown_page(both, figures(LOSSES, seeds=[100]) | own, {}, {})
    assert "The gap is not known yet; seeds that are done: 1 of 10." in part
    assert "The gap of d, which is the unit here, is not known yet; seeds that are done: 1 of 10." in part
    assert "At static" not in part
    whole = markdown_page(both, figures(LOSSES) | own, {}, {})
    assert "At static q\\_min, test loss is 1 higher (" in whole
    assert "than at static q\\_max, over 10 seeds. The paper" in whole
    assert "At static q\\_min of d (3 bits), test loss is 1 higher (" in whole
    assert "than at static q\\_max, over 10 seeds. This gap is the unit here." in whole
    noisy = markdown_page(both, figures({**LOSSES, "static q_min": 1.01}, noise=0.2), {}, {})
    assert "Static q\\_min is not shown to lose by test loss, so no claim is judged by it." in noisy
    diverged = markdown_page(both, figures({**LOSSES, "static q_min": math.nan}), {}, {})
    assert "Static runs diverged by test loss, so no claim is judged by it." in diverged


def test_a_bound_is_not_rounded_onto_a_border():
    assert effect_text(Effect(0.04, 0.0031, 0.08, 5), 0.1) == "+0.04 (+0.003 to +0.08)"
    assert effect_text(Effect(0.0, -0.1, 0.0, 5), 0.1) == f"0.00 ({MINUS}0.10 to 0.00)"
    assert effect_text(Effect(-0.05, -0.1004, 0.0996, 5), 0.1) == f"{MINUS}0.05 ({MINUS}0.1004 to +0.0996)"
    assert effect_text(Effect(0.0, -1e-12, math.inf, 5), 0.1) == f"0.00 (0.000000 to {NONE})"


def test_the_matrix_tells_what_is_not_run_from_what_is_not_studied():
    elsewhere = claim(id="elsewhere", domains=("graph",))
    text = markdown_page(design(claim(), elsewhere), figures(LOSSES, seeds=[100]), {}, {})
    rows = [line for line in text.splitlines() if line.startswith("| CT beats a mixture. |")]
    assert rows == ["| CT beats a mixture. | \N{HORIZONTAL ELLIPSIS} |", "| CT beats a mixture. |  |"]
    assert "\N{HORIZONTAL ELLIPSIS} not run yet. A cell is empty where the claim is not studied." in text
    one = figures({"CT": 1.3}, seeds=[100])
    assert "Not judged yet: 1 run is done." in markdown_page(design(claim()), one, {}, {})


@pytest.fixture(scope="module", autouse=True)
def warm():
    """What a first plan loads, and the solution of controls, take seconds."""
    planned(domain_with("schedules"), "schedules")


@pytest.fixture(autouse=True)
def without_the_renderer(request):
    """Rendering takes seconds; only the picture in the repository is compared."""
    with nullcontext() if request.node.get_closest_marker("slow") else undrawn():
        yield


@pytest.mark.parametrize("page", [html_page, markdown_page])
def test_the_page_has_the_power_of_pilots(page):
    pilots = figures(LOSSES, noise=0.1, seeds=range(4))
    expected, _ = powers(design(claim()), pilots)
    text = page(design(claim()), {}, pilots, {})
    assert "Pilots and power" in text
    assert f"{expected.detectable(expected.domain.seeds):.2f}" in text
    assert "Pilots and power" not in page(design(claim()), {}, {}, {})


def test_the_page_says_what_was_repeated():
    """A run of two studies counts once, and so do its hours."""
    found = figures(LOSSES)
    [(part, study)] = found.items()
    first, second, *_ = study.figures
    equal = {part: replace(study, figures=(first, replace(second, seconds=99.0)))}
    for page in (html_page, markdown_page):
        assert "2 runs of " in (text := page(design(claim()), found, {}, equal))
        assert "metrics, losses and costs are equal in all digits" in text
        assert "trained again" not in page(design(claim()), found, {}, {})
    other = {part: replace(study, figures=(first, replace(second, loss=second.loss + 2**-40)))}
    assert "of 1 of them are equal in all digits, the others differ" in markdown_page(design(claim()), found, {}, other)
    told = replace(first, bitcycle="0.2.0", cpu="A CPU")
    one = {part: replace(study, figures=(told,)), ("d", "cycles"): replace(study, figures=(told,))}
    hours = replace(study, figures=tuple(replace(each, seconds=360.0) for each in study.figures))
    text = markdown_page(design(claim()), {("d", "schedules"): hours, ("d", "cycles"): hours}, {}, one)
    assert "1 run of 40, chosen at random in each study, was trained again by bitcycle 0.2.0 on A CPU: " in text
    assert "Its runs took 4.0 hours in total." in text
    gone = {part: replace(study, figures=(replace(first, run="a run that is no longer planned"),))}
    assert repetitions(found, gone) == {}


def test_repeated_runs_of_the_repository_are_equal():
    assert all(each.is_equal for each in repetitions(all_figures(FOLDER, DESIGN, Role.JUDGING), REPEATS).values())


def test_an_open_claim_says_how_many_seeds_would_settle_it():
    found = figures({**LOSSES, "match(CT, mixed)": 1.5}, noise=0.2)
    [cell] = judge(design(claim()), found)
    assert cell.mark is Mark.OPEN
    assert f"about {seeds_to_settle(claim(), cell.effect):,}" in markdown_page(design(claim()), found, {}, {})
