"""Options for the fields of a run, made from the fields themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import wraps
from typing import Annotated, Any

import typer

from bitcycle.cli.parameters import complete_model, completion
from bitcycle.lab.data.official import OFFICIAL
from bitcycle.lab.runs.run_config import COMPARED, DEFAULTS, KEYWORDS, FieldInfo


def with_run_options(
    several: bool = False, leave_out: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add an option for each field of a run to a command.

    The command has a parameter ``fields``, in whose place the options are. It receives the values that were given, by
    the name of the field, as a plan file would have them.

    Args:
        several: Whether options for fields that are compared can be repeated.
        leave_out: The fields that the command has no option for.
    """

    def add(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)
        names = [name for name in KEYWORDS if name not in leave_out]
        parameters: list[inspect.Parameter] = []
        for parameter in signature.parameters.values():
            made = [_parameter(name, KEYWORDS[name], several) for name in names]
            parameters += made if parameter.name == "fields" else [parameter]

        @wraps(function)
        def command(**values: Any) -> None:
            given = {name: values.pop(name) for name in names}
            given["options"] = options_of(given.get("options"))
            function(**values, fields={name: value for name, value in given.items() if value not in (None, {}, [])})

        kinds = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
        command.__signature__ = inspect.Signature(kinds)  # type: ignore[attr-defined]
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
    complete: Any = {"model": complete_model, "data": completion(OFFICIAL)}.get(name)
    if complete is None and info.choices:
        complete = completion(info.choices)
    annotation = Annotated[kind | None, typer.Option(option, help=help, autocompletion=complete)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def options_of(pairs: list[str] | None) -> dict[str, str]:
    """Return the options that NAME=VALUE pairs describe.

    >>> options_of(["aggregation=quantized"])
    {'aggregation': 'quantized'}
    """
    options = {}
    for text in pairs or []:
        name, sign, value = text.partition("=")
        if not (name and sign):
            raise ValueError(f"--option must be NAME=VALUE, got {text!r}")
        options[name] = value
    return options
