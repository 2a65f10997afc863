"""Options that several commands share: those of the fields of a run, made from the fields, and groups of others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import is_dataclass
from functools import wraps
from typing import Annotated, Any

import typer

from bitcycle.cli.parameters import complete_model, completion
from bitcycle.lab.data.official import OFFICIAL
from bitcycle.lab.runs.fields import FieldInfo
from bitcycle.lab.runs.run_config import COMPARED, DEFAULTS, KEYWORDS


def with_run_options(
    fields: Collection[str] = tuple(KEYWORDS), several: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options that a command shares with others.

    A parameter ``fields`` stands for an option for each field of a run. The command receives the values that were
    given, by the name of the field, as a plan file would have them. A parameter whose type is a dataclass stands for an
    option for each field of that class, and the command receives an object of it.

    Args:
        fields: The fields of a run that the command has options for.
        several: Whether options for fields that are compared can be repeated.
    """

    def add(function: Callable[..., None]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        groups: dict[str, tuple[Callable[..., Any], list[str]]] = {}
        for parameter in inspect.signature(function, eval_str=True).parameters.values():
            made = [parameter]
            kind = parameter.annotation
            if parameter.name == "fields":
                made = [_parameter(name, KEYWORDS[name], several) for name in KEYWORDS if name in fields]
                groups["fields"] = _given_fields, [each.name for each in made]
            elif isinstance(kind, type) and is_dataclass(kind):
                made = list(inspect.signature(kind, eval_str=True).parameters.values())
                groups[parameter.name] = kind, [each.name for each in made]
            parameters += [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in made]

        @wraps(function)
        def command(**values: Any) -> None:
            for name, (build, members) in groups.items():
                values[name] = build(**{member: values.pop(member) for member in members})
            function(**values)

        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return add


def _parameter(name: str, info: FieldInfo, several: bool) -> inspect.Parameter:
    """Return the parameter of a command for a field; None means that the option was not given."""
    default = DEFAULTS[name]
    option = info.option or f"--{name.replace('_', '-')}"
    help = info.help
    kind: Any = str
    if isinstance(default, bool):
        kind, option = bool, f"{option}/--no-{option.removeprefix('--')}"
    elif isinstance(default, int) or name == "steps":
        kind = int
    if name == "options":
        kind, help = list[str], "An option of the task as NAME=VALUE; repeatable."
    elif several and name in COMPARED:
        kind, help = list[str], f"{help.removesuffix('.')}; repeatable."
    complete: Any = {"model": complete_model, "data": completion(OFFICIAL)}.get(name) or completion(info.choices)
    annotation = Annotated[kind | None, typer.Option(option, help=help, autocompletion=complete)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _given_fields(**values: Any) -> dict[str, Any]:
    """Return the fields that were given, with the NAME=VALUE pairs of options as a dictionary.

    >>> _given_fields(model="gcn", steps=None, options=["aggregation=quantized"])
    {'model': 'gcn', 'options': {'aggregation': 'quantized'}}
    """
    given = {name: value for name, value in values.items() if value not in (None, [])}
    if "options" in given:
        for text in given["options"]:
            if text.find("=") < 1:
                raise ValueError(f"--option must be NAME=VALUE, got {text!r}")
        given["options"] = dict(text.split("=", 1) for text in given["options"])
    return given


def parse_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of options in the form in which a run has them.

    >>> parse_fields({"weights": "4", "backward_bits": "full", "options": {"layers": "2"}})
    {'weights': 'static:4', 'backward_bits': None, 'options': {'layers': '2'}}
    """
    return {name: each if name == "options" else KEYWORDS[name].parse(each, name) for name, each in fields.items()}
