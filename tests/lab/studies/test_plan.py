"""Plans: what they multiply out to, as files, and what they say when something is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.studies import estimate as estimate_module
from bitcycle.lab.studies import plan as plan_module
from bitcycle.lab.studies.plan import Plan, StudyPart
from bitcycle.lab.studies.plan_file import plan_of, read_plan
from bitcycle.schedules.cyclic import TEN


def test_the_default_is_the_ten_and_three_baselines():
    plan = plan_of({"task": "image", "seeds": 2}, "digits")
    runs = plan.runs()
    assert len(runs) == 2 * 13
    first = [run for run in runs if run.seed == 0]
    assert [run.schedule for run in first] == [
        *(f"{name}:2-8:cycles=8" for name in TEN),
        "static:8",
        "static:2",
        "full",
    ]
    # Gradients of a fixed width are on the plan's q_max, as those of the schedules are.
    assert {run.schedule: run.backward_bits for run in first if run.schedule[0] in "sf"} == {
        "static:8": 8,
        "static:2": 8,
        "full": "max",
    }


def test_everything_multiplies_and_nothing_comes_twice():
    plan = plan_of(
        {
            "task": "graph",
            "schedules": ["CR", "static:8", "static q_max"],
            "bits": [[3, 8], [4, 8]],
            "cycles": [2, 4],
            "seeds": [5, 7],
            "options": {"aggregation": ["full", "quantized"]},
        },
        "g",
    )
    runs = plan.runs()
    assert len(set(runs)) == len(runs) == 2 * 2 * (4 + 1)
    assert {run.seed for run in runs[:10]} == {5}  # seed by seed


def test_several_parts_share_what_is_said_above_them(tmp_path):
    (tmp_path / "both.toml").write_text(
        'seeds = 2\nschedules = ["CR"]\n[[part]]\ntask = "image"\nsteps = 9\n[[part]]\ntask = "graph"\nseeds = 1\n'
    )
    plan = read_plan(tmp_path / "both.toml")
    assert plan.name == "both"
    assert [(run.task, run.seed) for run in plan.runs()] == [("image", 0), ("graph", 0), ("image", 1)]


def test_what_is_given_holds_for_deficits_too(tmp_path):
    (tmp_path / "plan.toml").write_text('[[deficit]]\ntask = "graph"\nsteps = 400\nlengths = [0, 1]\nwindow = 0\n')
    assert [run.steps for run in read_plan(tmp_path / "plan.toml", {"steps": 4, "seeds": 1}).runs()] == [4, 8, 8, 8]


def test_data_is_named_by_a_path_that_is_the_same_from_everywhere(tmp_path, monkeypatch):
    (tmp_path / "here" / "data").mkdir(parents=True)
    named = set()
    for folder, data in ((tmp_path / "here", "data"), (tmp_path, "here/data"), (tmp_path, str(tmp_path / "here/data"))):
        monkeypatch.chdir(folder)
        named.add(plan_of({"task": "image", "data": data, "schedules": "CR"}).runs()[0].name)
    assert len(named) == 1
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "another.txt").write_text("x")
    assert plan_of({"task": "image", "data": "data", "schedules": "CR"}).runs()[0].name not in named


names = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=12)


def fields(backward, options, **further):
    """Return the fields of a part that are not the default."""
    given = {"backward_bits": (backward,), "autocast": True, "options": options, **further}
    return {name: value for name, value in given.items() if value not in ("", {}, ("max",))}


@given(
    name=names,
    data=st.sampled_from(["", "cifar10", "/some/folder", "/ein Ordner/ünd mehr"]),
    seeds=st.lists(st.integers(0, 99), min_size=1, max_size=3, unique=True),
    options=st.dictionaries(names, st.lists(names, min_size=1, max_size=2).map(tuple), max_size=2),
    backward=st.sampled_from(["max", None, 6]),
)
def test_a_plan_written_down_is_the_same_plan(tmp_path_factory, name, data, seeds, options, backward):
    part = StudyPart(
        "image", ("CR", "all"), ((2, 8), (3, 6)), (2, 8), tuple(seeds), 77, fields(backward, options, data=data)
    )  # fmt: skip
    path = tmp_path_factory.mktemp("plan") / "plan.toml"
    path.write_text(Plan(name, (part,)).as_toml(), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plan, "check", lambda plan: None)  # the task does not have these options
        assert read_plan(path) == Plan(name, (part,))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"schedules": ["CQ"]}, "CQ"),
        ({"schedules": ["CT"], "cycles": 3}, "even"),
        ({"schedules": ["static:40"]}, "bits must be from 1 to 16, got 40"),
        ({"model": "resnet-9"}, "has no model 'resnet-9'"),
        ({"options": {"colour": "red"}}, "no option 'colour'"),
        ({"schedules": []}, "has no runs"),
    ],
)
def test_what_does_not_fit_is_found_before_anything_runs(values, message):
    with pytest.raises(ValueError, match=message):
        plan_of({"task": "image", **values}, "x")


@given(st.data())
def test_the_name_of_a_run_follows_from_its_content_alone(data):
    values = {
        "task": data.draw(st.sampled_from(["image", "graph"])),
        "schedule": data.draw(st.sampled_from(["CR:3-8:cycles=8", "static:8"])),
        "steps": data.draw(st.integers(1, 3)),
        "seed": data.draw(st.integers(0, 3)),
        "options": data.draw(st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"))),
    }
    run, again = RunConfig(**values), RunConfig(**{**values, "options": dict(reversed(values["options"].items()))})
    assert run == again
    assert run.name == again.name == RunConfig.from_dict(run.as_dict()).name
    other = RunConfig(**{**values, "seed": values["seed"] + 1})
    assert other.name != run.name
    assert other.condition == run.condition


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task = 'image'\nschedule = ['CR']", "plan.toml: a plan has no key 'schedule'; did you mean 'schedules'"),
        ("task = 'imagge'", "unknown task 'imagge'; did you mean 'image'"),
        ("seeds = 3", "each part of a plan must have a task"),
        ("task = 'image'\nbits = 8", "bits must be a pair such as .* got 8"),
        ("task = 'image'\nbits = [8, 3]", "in this order, got 8 and 3"),
        ("task = 'image'\nseeds = 0", "seeds must be an integer of 1 or more, got 0"),
        ("task = 'image'\nseeds = 1000000000", "seeds must be from 1 to 100000"),
        ("task = 'image'\nsteps = 'many'", "steps must be an integer of 1 or more, got 'many'"),
        ("task = 'image'\npart = 3", r"parts must be written as \[\[part\]\] tables"),
        ("task = 'image'\noptions = 3", "options must be a table"),
        ("task = ", "is not TOML"),
        ("x = " + "[" * 10_000, "nested too deep"),
        ("[" + " . ".join(["a"] * 50_000) + "]", "a key may have 16 parts at most"),
        ("x = {y = 1, " + ".".join(["'a'"] * 50_000) + " = 1}", "a key may have 16 parts at most"),
        ("#" * 2_000_000, "a plan may have 1,000,000 bytes at most"),
        ("steps = " + "9" * 5000, "is not TOML"),
        (
            "task = 'image'\nsteps = 0x" + "f" * 5000,
            "steps must be from 1 to .*, got an integer of more than 60 digits",
        ),
        ("task = 'image'\nsteps = 1000000000001", "steps must be from 1 to 100000000, got 1000000000001"),
        ("task = 'image'\ncycles = 1000001", "cycles must be from 1 to 1000000, got 1000001"),
        ("task = 'image'\nbits = [3, 17]", "bits must be from 1 to 16, got 17"),
        ("task = 'image'\nbackward_bits = 17", "backward_bits must be from 1 to 16, got 17"),
        ("task = 'image'\nseeds = [9223372036854775808]", "a seed must be from 0 to 9223372036854775807"),
        ("task = 'image'\noptions = { a = 0x" + "f" * 5000 + " }", "the option 'a' must be a text or a number"),
        ("task = 'image'\noptions = { a = { b = 1 } }", "the option 'a' must be a text or a number"),
        ("task = 'image'\nmodel = [" + "'x'," * 9000 + "]", "model must be a string"),
    ],
    ids=lambda value: value[:30],
)
def test_wrong_plans_are_refused_in_one_line(tmp_path, text, message):
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(ValueError, match=message) as refused:
        read_plan(tmp_path / "plan.toml")
    assert len(str(refused.value).splitlines()) == 1
    assert len(str(refused.value)) < 400 + len(str(tmp_path))


def part(seeds):
    return StudyPart("image", ("ten",), bits=((3, 8),), cycles=(8,), seeds=seeds, steps=40)


def test_a_plan_parses_a_schedule_once_for_all_seeds(monkeypatch):
    parsed = []
    for name in ("parse_schedule", "check_widths"):
        plain = getattr(plan_module, name)
        monkeypatch.setattr(plan_module, name, lambda *words, plain=plain: parsed.append(words) or plain(*words))
    plan = Plan("x", (part(tuple(range(500))),))
    plan.check()
    assert len(plan.runs()) == 5000
    assert len(parsed) <= 30


def test_an_estimate_counts_a_setting_once_for_all_seeds(monkeypatch):
    counted = []

    class Counting:
        def training(self, spec, steps, backward_bits, **overrides):
            counted.append(spec)
            return 1

    monkeypatch.setattr(estimate_module, "_measure", lambda run: (Counting(), 1.0))
    assert len(estimate_module.estimate(part(tuple(range(50))).runs())) == 500
    assert len(counted) == 10


def test_too_many_seeds_are_refused_before_anything_is_made():
    with pytest.raises(ValueError, match="up to 100,000 seeds, got 1,000,000,000"):
        Plan("x", (part(range(10**9)),)).check()
