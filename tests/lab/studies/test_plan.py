"""Plans: what they multiply out to, as files, and what they say when something is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.studies.deficits import DeficitPart
from bitcycle.lab.studies.plan import Plan, StudyPart
from bitcycle.lab.studies.plan_file import plan_of, read_plan, stored_parts
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
    ("text", "told"),
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
    ],
)
def test_misuse(tmp_path, text, told):
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(ValueError, match=told):
        read_plan(tmp_path / "plan.toml")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"schedules": ["CQ"]}, "CQ"),
        ({"schedules": ["CT"], "cycles": 3}, "even"),
        ({"schedules": ["static:40"]}, "bits must be from 1 to 16, got 40"),
        ({"model": "resnet-9"}, "has no model 'resnet-9'"),
        ({"options": {"colour": "red"}}, "no option 'colour'"),
        ({"schedules": []}, "has no runs"),
    ],
)
def test_what_does_not_fit_is_found_before_anything_runs(values, told):
    with pytest.raises(ValueError, match=told):
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


@given(
    backward=st.sampled_from(["max", None, 6]), options=st.dictionaries(names, st.lists(names, min_size=1).map(tuple))
)
def test_stored_parts_are_the_parts_of_the_plan(backward, options):
    part = StudyPart("gone", ("CR", "all"), ((2, 8),), (8,), (3, 5), 77, fields(backward, options, data="nowhere"))
    deficit = DeficitPart(
        "gone", (3, 8), 40, recovery="whole", arms=("longer", "held"), fields={"options": {"a": "b"}, "grid": "mx"}
    )
    assert stored_parts(Plan("mine", (part, deficit)).as_toml()) == [part, deficit]


def test_a_stored_plan_that_is_incomplete():
    with pytest.raises(ValueError, match="the stored plan has no bits"):
        stored_parts('[[part]]\ntask = "image"\n')


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = " + "[" * 10_000, "nested too deep"),
        ("x = " + "{x=" * 10_000, "nested too deep"),
        (".".join(["a"] * 50_000) + " = 1", "a key may have 16 parts at most"),
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
def test_absurd_plans_are_refused_in_one_line(tmp_path, text, told):
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(ValueError, match=told) as refused:
        read_plan(tmp_path / "plan.toml")
    assert len(str(refused.value).splitlines()) == 1
    assert len(str(refused.value)) < 400 + len(str(tmp_path))


@pytest.mark.parametrize("text", ["x = " + "[" * 10_000, "steps = " + "9" * 5000, ".".join(["a"] * 50_000) + " = 1"])
def test_an_absurd_stored_plan_is_refused(text):
    with pytest.raises(ValueError, match="is not TOML that can be read"):
        stored_parts(text)


def test_a_plan_can_evaluate_at_the_current_width():
    plan = plan_of({"task": "graph", "schedules": "CR", "seeds": 1, "evaluate_at": "current"}, "p")
    assert [run.evaluate_at for run in plan.runs()] == ["current"]
    [part] = stored_parts(plan.as_toml())
    assert list(part.runs()) == plan.runs()
    assert "evaluate_at" not in plan_of({"task": "graph", "schedules": "CR", "seeds": 1}, "p").as_toml()
