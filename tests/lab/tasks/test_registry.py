"""The registry of tasks: what it takes and what it refuses."""

from pathlib import Path

import pytest

from bitcycle.lab.built_in_tasks import BUILT_IN
from bitcycle.lab.data.official import OFFICIAL
from bitcycle.tasks import TASKS, Task, register_task, task_named

DOCS = (Path(__file__).parents[3] / "docs/tasks.md").read_text()


@pytest.fixture(autouse=True)
def registry():
    before = dict(TASKS)
    yield
    TASKS.clear()
    TASKS.update(before)


def make(class_name, **attributes):
    def prepare(self, run):
        raise NotImplementedError

    attributes = {"name": "mine", "metric": "accuracy", "bits": (3, 8), "steps": 5, "prepare": prepare, **attributes}
    return type(class_name, (Task,), {"__module__": "somewhere", "__qualname__": class_name, **attributes})


def test_a_registered_task_is_found_and_can_be_registered_again():
    """A notebook cell that is executed again defines the class once more."""
    mine = register_task(make("Mine"))
    assert isinstance(task_named("mine"), mine)
    assert mine.models == ("default",)
    again = register_task(make("Mine"))
    assert TASKS["mine"] is again


def test_another_class_cannot_take_a_name():
    with pytest.raises(ValueError, match=r"^the task name 'image' of somewhere.Mine is already taken by .*ImageTask$"):
        register_task(make("Mine", name="image"))
    register_task(make("Mine"))
    with pytest.raises(ValueError, match="'mine' of somewhere.Other is already taken by somewhere.Mine"):
        register_task(make("Other"))
    assert TASKS["mine"].__name__ == "Mine"


@pytest.mark.parametrize("wrong", [dict, "image", None, object(), lambda: None])
def test_only_tasks_are_registered(wrong):
    before = dict(TASKS)
    with pytest.raises(TypeError, match="register_task takes a subclass of bitcycle.tasks.Task, got"):
        register_task(wrong)
    assert before == TASKS


def test_a_missing_attribute_is_named():
    incomplete = make("Mine")
    del incomplete.metric, incomplete.steps
    with pytest.raises(ValueError, match="the task somewhere.Mine has no metric, steps; set it as a class attribute"):
        register_task(incomplete)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_task_is_what_its_table_says(name):
    task = task_named(name)
    assert (task.name, task.models) == (name, BUILT_IN[name].models)
    assert [entry for entry in OFFICIAL.values() if entry.task == name]
    row = next(line for line in DOCS.splitlines() if line.startswith(f"| {name} |"))
    assert task.metric in row
    assert all((task.about, task.embedded, task.official, task.models))
    assert all(option.about for option in task.options.values())
    assert all(option.default in option.choices for option in task.options.values() if option.choices)
