"""Deficit experiments: their plan, and that their statistics find what was planted, and nothing that was not."""

import math
import tomllib
from dataclasses import replace

import pytest

from bitcycle.lab.report.words import details, headline
from bitcycle.lab.runs.learning_rate import LearningRatePolicy
from bitcycle.lab.statistics.deficits import analyse_deficits
from bitcycle.lab.statistics.estimates import compare, holm
from bitcycle.lab.studies.deficits import ARMS, DeficitPart
from bitcycle.lab.studies.plan import Plan
from bitcycle.lab.studies.plan_file import plan_of
from tests.lab.studies.examples import make_deficit_records

PART = DeficitPart("image", (3, 8), 400, fields={"diagnostics": False})


def analysed(effect, part=PART, **changes):
    return analyse_deficits(part, make_deficit_records(part, effect, **changes))


def claim(analysis, *words):
    """The one claim whose details have all of these words."""
    [found] = [claim for claim in analysis.claims if all(word in details(claim, analysis) for word in words)]
    return found


def with_length(by):
    """Damage that grows with the length of an initial deficit in the held arm, and nothing else."""
    return lambda cell, part: by * cell.place / part.steps if (cell.experiment, cell.arm) == ("length", "held") else 0.0


def of_position(by):
    """Damage in both arms that shrinks the later the deficit comes; lengths are left out of the plan."""
    return lambda cell, part: 0.0 if cell.arm == "longer" else by * (1 - cell.place / part.steps)


ONLY_LENGTHS = replace(PART, window=0.0)
ONLY_POSITIONS = replace(PART, lengths=())


def of_steps(by):
    """Quality falls with the number of steps in all arms alike: the deficit did nothing."""
    return lambda cell, part: by * cell.place / part.steps


def without_repair(by):
    """Damage that grows with the length of an initial deficit, with or without a restart."""
    return lambda cell, part: 0.0 if cell.arm == "longer" else by * cell.place / part.steps


@pytest.mark.parametrize(
    ("effect", "part", "words", "verdict"),
    [
        (with_length(0.02), ONLY_LENGTHS, ("Final quality falls with the length", "changes by -0.02"), "supported"),
        (with_length(0.02), ONLY_LENGTHS, ("The damage lasts", "(800 steps)"), "supported"),
        (with_length(0.02), ONLY_LENGTHS, ("Restarting", "helps", "Of the gap of 0.04"), "supported"),
        (with_length(-0.02), ONLY_LENGTHS, ("Final quality rises with the length",), "contradicted"),
        (with_length(-0.02), ONLY_LENGTHS, ("The deficit improved quality",), "contradicted"),
        (with_length(-0.02), ONLY_LENGTHS, ("Restarting the learning rate", "hurts"), "contradicted"),
        (without_repair(0.02), ONLY_LENGTHS, ("Restarting", "has no significant effect"), "open"),
        (of_steps(0.02), ONLY_LENGTHS, ("Final quality does not change significantly",), "open"),
        (of_steps(0.02), ONLY_LENGTHS, ("No significant lasting damage",), "open"),
        (of_position(0.02), ONLY_POSITIONS, ("held during it", "of the same length hurts less"), "supported"),
        (of_position(0.02), ONLY_POSITIONS, ("restarted after it", "of the same length hurts less"), "supported"),
        (of_position(-0.02), ONLY_POSITIONS, ("held during it", "hurts more"), "contradicted"),
    ],
)
def test_what_was_planted_is_found(effect, part, words, verdict):
    found = analysed(effect, part)
    assert claim(found, *words).verdict == verdict
    assert (found.lengths == []) == (part is ONLY_POSITIONS)
    assert (found.positions == []) == (part is ONLY_LENGTHS)


def test_no_effect():
    found = analysed(lambda cell, part: 0.0, noise=0.004)
    assert {each.verdict for each in found.claims} == {"open"}
    assert len(found.claims) == 5


def test_perplexity_is_turned():
    found = analysed(with_length(0.02), ONLY_LENGTHS, metric="perplexity")
    assert not found.higher_is_better
    assert claim(found, "Final quality falls").verdict == "supported"
    last = [point for point in found.lengths if point.arm == "held"][-1]
    assert last.quality.mean > 130  # the metric itself stays what it is
    assert last.loss.difference.mean < 0
    assert last.loss.outcome == "worse"


def test_figures_are_those_of_the_records():
    records = make_deficit_records(PART)
    found = analyse_deficits(PART, records)
    by_run = {record.run: record.test for record in records}
    cells = {}
    for cell, run in PART.cells():
        cells.setdefault(cell, {})[run.seed] = by_run[run]
    for name, points in (("length", found.lengths), ("position", found.positions)):
        assert [(ARMS.index(p.arm), p.place) for p in points] == sorted((ARMS.index(p.arm), p.place) for p in points)
        assert {(name, p.place, p.arm) for p in points} == {tuple(cell) for cell in cells if cell.experiment == name}
        compared = [point for point in points if point.loss]
        assert [p.loss.corrected for p in compared] == holm([p.loss.p for p in compared])
        for point in points:
            assert point.qualities == cells[name, point.place, point.arm]
            assert point.share == point.place / PART.steps
            assert (point.loss is None) == (point.arm == "longer")
        for point in compared:
            fresh = compare(point.qualities, cells[name, point.place, "longer"], 1)
            assert point.loss.difference == fresh.difference


def test_a_single_seed_leaves_everything_open():
    found = analysed(with_length(0.02), replace(PART, seeds=(7,)), noise=0.0)
    assert {each.verdict for each in found.claims} == {"open"}
    assert all("(no interval)" in details(each, found) and "nan" not in details(each, found) for each in found.claims)
    assert {point.loss.outcome for point in found.lengths if point.loss} == {"too few seeds"}


@pytest.mark.parametrize("count", range(1, 60, 9))
def test_an_unfinished_study(count):
    records = make_deficit_records(PART)[:count]
    found = analyse_deficits(PART, records)
    assert sum(len(point.qualities) for point in (*found.lengths, *found.positions)) >= count
    assert not any("nan" in words(each, found) for each in found.claims for words in (headline, details))


def test_a_position_whose_control_is_missing():
    records = make_deficit_records(ONLY_POSITIONS, of_position(0.02))
    controls = {run for cell, run in ONLY_POSITIONS.cells() if (cell.place, cell.arm) == (100, "longer")}
    found = analyse_deficits(ONLY_POSITIONS, [record for record in records if record.run not in controls])
    assert claim(found, "held during it", "hurts less").verdict == "supported"
    assert [p.loss is None for p in found.positions if p.arm == "held"] == [False, True, False, False]


def test_arms_that_share_no_seed():
    held = {run for cell, run in ONLY_LENGTHS.cells() if cell.arm == "held" and run.seed < 2}
    others = {run for cell, run in ONLY_LENGTHS.cells() if cell.arm != "held" and run.seed >= 2}
    records = [record for record in make_deficit_records(ONLY_LENGTHS) if record.run in held | others]
    found = analyse_deficits(ONLY_LENGTHS, records)
    assert found.claims == []
    assert {p.loss.outcome for p in found.lengths if p.arm == "held"} == {"too few seeds"}


def test_nothing_finished():
    assert analyse_deficits(PART, []) is None


def test_a_run_that_diverged():
    lost = lambda cell, seed: (cell.arm, seed) == ("held", 1) and cell.place >= 400  # noqa: E731
    found = analysed(with_length(0.02), ONLY_LENGTHS, diverged=lost)
    assert claim(found, "Final quality does not change significantly", "a run diverged").verdict == "open"
    assert claim(found, "No significant lasting damage", "a run diverged").verdict == "open"
    assert [math.isnan(p.quality.mean) for p in found.lengths if p.arm == "held"] == [False, False, True, True]
    assert [p.loss.outcome for p in found.lengths if p.arm == "held"][2:] == ["diverged", "diverged"]


def test_an_infinite_perplexity():
    records = make_deficit_records(ONLY_LENGTHS, with_length(0.02), "perplexity")
    records = [replace(r, test=math.inf) if "0..800" in r.run.schedule and r.run.seed == 0 else r for r in records]
    found = analyse_deficits(ONLY_LENGTHS, records)
    assert claim(found, "No significant lasting damage", "a run diverged").verdict == "open"
    assert not any("inf" in words(each, found) for each in found.claims for words in (headline, details))


def test_rounding_is_no_effect():
    """All qualities are the same: a slope of 1e-17 that all seeds share is not one."""
    part = replace(PART, seeds=tuple(range(8)), lengths=(0.0, 0.1, 0.3, 0.7), starts=(0.0, 0.1, 0.3, 0.7))
    records = [replace(record, test=0.1 + 0.2) for record in make_deficit_records(part)]
    found = analyse_deficits(part, records)
    assert {each.verdict for each in found.claims} == {"open"}


@pytest.mark.parametrize(("seeds", "verdict"), [(2, "open"), (5, "open"), (6, "supported")])
def test_an_effect_that_all_seeds_share_needs_seeds(seeds, verdict):
    """Student's interval has no width then, and two runs of a coarse metric may well agree by chance."""
    part = replace(ONLY_LENGTHS, seeds=tuple(range(seeds)))
    found = analysed(with_length(0.02), part, noise=0.0)
    assert claim(found, "length of an initial deficit:").verdict == verdict
    assert claim(found, "after the longest initial deficit (").verdict == verdict


@pytest.mark.slow
def test_other_runs_of_a_study_do_not_count():
    records = make_deficit_records(PART)
    other = make_deficit_records(replace(PART, fields={"model": "another"}), lambda cell, part: 0.5)
    assert analyse_deficits(PART, [*other, *records]) == analyse_deficits(PART, records)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bits": (8, 8)}, "q_min below q_max, got 8 and 8"),
        ({"steps": 0}, "1 step or more, got 0"),
        ({"lengths": (0.5, -1.0)}, "from 0 to 1000 normal runs, got -1"),
        ({"lengths": (math.nan,)}, "from 0 to 1000 normal runs, got nan"),
        ({"window": math.inf}, "from 0 to 1000 normal runs, got inf"),
        ({"starts": (0.0, 1.0)}, "before the last of the 400 steps"),
        ({"starts": (-1.0,), "recovery": "whole"}, "from 0 to 1000 normal runs, got -1"),
        ({"recovery": "half"}, "'rest' or 'whole', got 'half'"),
        ({"starts": (0.999,)}, "before the last of the 400 steps"),
        ({"arms": ("held",)}, "must include 'longer', the control for the others, got held"),
        ({"arms": ("longer", "shorter")}, "an arm must be 'held' or 'restarted' or 'longer', got 'shorter'"),
    ],
)
def test_misuse(changes, message):
    with pytest.raises(ValueError, match=message) as caught:
        replace(PART, **changes)
    assert "\n" not in str(caught.value)


def test_a_whole_recovery_follows_every_window_alike():
    part = DeficitPart("image", (1, 8), 60, (0.0,), 0.5, (0.0, 1.0), "whole", seeds=(0,))
    runs = {(cell.place, cell.arm): run for cell, run in part.cells() if cell.experiment == "position"}
    assert {place: runs[place, "held"].steps for place in (0, 60)} == {0: 90, 60: 150}
    late = runs[60, "held"]
    assert (late.schedule, late.learning_rate) == ("deficit(1@60..90, static:8)", "hold@0..90")
    assert runs[60, "restarted"].learning_rate == "restart@90"
    assert (runs[60, "longer"].schedule, runs[60, "longer"].learning_rate) == ("static:8", "hold@0..90")
    course = LearningRatePolicy.of(late.learning_rate, late.steps)
    assert [course.position(step) for step in (0, 89, 90, 149)] == [(0, 60), (0, 60), (0, 60), (59, 60)]


def test_few_steps_without_a_window():
    part = DeficitPart("image", (3, 8), 2, window=0.0)
    assert {cell.experiment for cell, _ in part.cells()} == {"length"}


OF_RUNS = {
    "diagnostics": False,
    "model": "gcn",
    "batch_size": 32,
    "options": {"aggregation": "quantized"},
    "weights": "static:8",
    "grid": "mx",
    "backward_bits": None,
    "test_weights": "best",
}
MANY_VALUES = DeficitPart("graph", (2, 6), 50, (0.0, 1.5), 0.0, (2.0,), "whole", (7, 9), ("held", "longer"), OF_RUNS)


@pytest.mark.parametrize("part", [DeficitPart("image", (3, 8), 400), MANY_VALUES])
def test_a_plan_file_gives_the_same_part(part):
    text = Plan("mine", (part,)).as_toml()
    assert "[[deficit]]" in text
    [again] = plan_of(tomllib.loads(text), "mine").parts
    assert again == part
    assert list(again.runs()) == list(part.runs())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"length": [1]}, "a plan has no key 'length'"),
        ({"lengths": ["long"]}, "lengths must be a number, got 'long'"),
        ({"learning_rate": "hold@0..9"}, "a plan has no key 'learning_rate'"),
        ({"grid": ["mx", "float"]}, "grid must have one value in a deficit, got 2"),
    ],
)
def test_a_plan_says_what_is_wrong_with_a_deficit(values, message):
    with pytest.raises(ValueError, match=message):
        plan_of({"deficit": [{"task": "image", **values}]}, "mine")
