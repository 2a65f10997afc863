"""``bitcycle tasks`` and ``bitcycle task new``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bitcycle.cli.parameters import argument, json_option
from bitcycle.lab.studies.exports import json_text


def tasks(
    as_json: Annotated[
        bool,
        json_option(
            "a list of objects with name, about, metric, higher_is_better, models, options, embedded_data, "
            "official_data, data_sets, presets, steps, bits and cycles"
        ),
    ] = False,
) -> None:
    """List the tasks with their models, metric, options, presets and data."""
    from bitcycle.lab.tasks import TASKS

    described = [_described(name) for name in sorted(TASKS)]
    if as_json:
        print(json_text(described))
    else:
        for each in described:
            _print(each)


def _described(name: str) -> dict[str, Any]:
    from bitcycle.lab.built_in_tasks import BUILT_IN
    from bitcycle.lab.data.official import OFFICIAL
    from bitcycle.lab.tasks import task_named

    task = task_named(name)
    return {
        "name": name,
        "about": task.about,
        "metric": task.metric,
        "higher_is_better": task.higher_is_better,
        "models": task.models,
        "options": {key: {**vars(option), "kind": option.kind.__name__} for key, option in task.options.items()},
        "embedded_data": task.embedded,
        "official_data": task.official,
        "data_sets": [official.name for official in OFFICIAL.values() if official.task == name],
        "presets": BUILT_IN[name].presets if name in BUILT_IN else {},
        "steps": task.steps,
        "bits": task.bits,
        "cycles": task.cycles,
    }


def _print(task: dict[str, Any]) -> None:
    better = "higher" if task["higher_is_better"] else "lower"
    name = typer.style(task["name"], bold=True)
    typer.echo(f"{name}: {task['about']}; {task['metric']}, {better} is better")
    low, high = task["bits"]
    for heading, text in (
        ("models", ", ".join(task["models"])),
        *(("option", f"{key}={option['default']}: {option['about']}") for key, option in task["options"].items()),
        ("embedded data", task["embedded_data"]),
        ("with --data FOLDER", task["official_data"]),
        ("with --data NAME", f"{', '.join(task['data_sets'])} (download with: bitcycle data get NAME)"),
        *(("preset", f"{key}: {preset.about}") for key, preset in task["presets"].items()),
        ("default", f"{task['steps']} steps, {low}-{high} bits, {task['cycles']} cycles"),
    ):
        print(f"  {heading + ':':19} {text}")


task = typer.Typer(no_args_is_help=True, help="Write a task of your own.")


@task.callback()
def about() -> None:
    """Write a task of your own."""  # with a callback, a group of one command stays a group


@task.command()
def new(
    file: Annotated[Path, argument("The file to write, such as my_task.py.", metavar="FILE.py")],
) -> None:
    """Write a file with a complete task, as a starting point for your own."""
    from bitcycle.lab.tasks.user_tasks import write_template

    name = write_template(file)
    print(f"written: {file}\ntry: bitcycle study {file}:{name} --seeds 2 --steps 100")
