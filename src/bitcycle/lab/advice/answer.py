"""The answer of ``bc.advise``: the schedule to use, the rules it rests on, and its alternatives."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bitcycle.schedules import Bits, Schedule

MAX_LINE = 100


@dataclass(frozen=True)
class TrainingSettings:
    """How a run is trained apart from its schedule, with the defaults of a run; the code of an advice says the same."""

    backward_bits: Bits | str
    """As :class:`bitcycle.PrecisionScheduler` takes them."""
    weights: str = ""
    """The schedule of weights as a spec; that of the run if empty."""
    activations: str = ""
    """The schedule of activations as a spec; that of the run if empty."""
    strength: str = ""
    """The strength as a spec; full strength if empty."""
    grid: str = "integer"
    evaluate_at: str = "max"

    @property
    def operands(self) -> dict[str, str]:
        """What does not follow the schedule, by argument of the scheduler."""
        operands = {"weights": self.weights, "activations": self.activations, "strength": self.strength}
        return {name: spec for name, spec in operands.items() if spec}

    @property
    def recipe(self) -> dict[str, str]:
        """What differs from the default recipe, by field."""
        fields = {"grid": (self.grid, "integer"), "evaluate_at": (self.evaluate_at, "max")}
        return {name: value for name, (value, default) in fields.items() if value != default}


@dataclass(frozen=True)
class Reason:
    """A rule that the advice rests on, and what the evidence says about it."""

    source: str
    """``paper``, ``bitcycle``, ``given``, ``range test``, ``budget``, ``your runs`` or ``warning``."""
    rule: str
    verdict: str = ""
    """On how many domains the claim that tests it is supported, contradicted or open; empty for what is no claim."""

    def __str__(self) -> str:
        return f"{self.source}: {self.rule}" + (f" [{self.verdict}]" if self.verdict else "")


@dataclass(frozen=True)
class Alternative:
    """Another schedule that could be used, what it saves against static q_max, and what it is."""

    schedule: Schedule
    saving: float
    reason: str

    @property
    def spec(self) -> str:
        """The schedule as a spec."""
        return str(self.schedule)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, for JSON."""
        return {"schedule": self.spec, "saving": self.saving, "reason": self.reason}


@dataclass(frozen=True)
class ModelSaving:
    """What a schedule saves in the training of a given model."""

    saving: float
    """Share of the cost of the model's training at static q_max, with what stays in full precision."""
    quantized: float
    """Share of the multiply-accumulates of a forward pass that the schedule applies to."""
    largest_part: str | None
    """The largest part that stays in full precision; ``None`` if there is none."""
    largest_share: float
    """Its share of the multiply-accumulates of a forward pass."""
    uncounted: tuple[str, ...] = ()
    """Products that cannot be counted, which no number includes."""

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, for JSON."""
        return {**asdict(self), "uncounted": list(self.uncounted)}

    def reasons(self) -> list[Reason]:
        """Return what the schedule applies to, and what not."""
        text = f"{percent(self.quantized)} of the multiply-accumulates of your model are at the bits of the schedule"
        if self.largest_part is not None:
            text += f"; the largest part in full precision is {self.largest_part} with {percent(self.largest_share)}"
        uncounted = [Reason("model", f"NOT counted: {'; '.join(self.uncounted)}")] if self.uncounted else []
        return [Reason("model", text), *uncounted]


@dataclass(frozen=True)
class Advice:
    """The schedule to use, the rules it rests on, and the alternatives on both sides of it."""

    schedule: Schedule
    saving: float
    """Share of the cost of static q_max that it saves, from 0 to 1, with all products at its bits."""
    reasons: list[Reason]
    """The rules it rests on, with their verdicts."""
    cheaper: Alternative | None
    """The next schedule that saves more; ``None`` at the end of the scale."""
    better: Alternative | None
    """The next schedule that has more precision and saves less; ``None`` at the end of the scale."""
    steps: int
    """Training steps for which the saving is computed."""
    q_max: int
    steps_given: bool = True
    """Whether the steps are those of the question; if not, the code has a variable in their place."""
    model: ModelSaving | None = None
    """What it saves in the training of the model that was given."""
    settings: TrainingSettings | None = None
    """How the runs were trained on which the advice is based; ``None`` is on integers with gradients at q_max."""

    @property
    def spec(self) -> str:
        """The schedule as a spec."""
        return str(self.schedule)

    @property
    def training(self) -> TrainingSettings:
        """The settings of the runs, or those that advice assumes without any."""
        return self.settings or TrainingSettings(self.q_max)

    @property
    def code(self) -> str:
        """Three lines to add to a training loop."""
        settings = self.training
        steps = self.steps if self.steps_given else "total_steps"
        recipe = f", bc.Recipe({_arguments(settings.recipe)})" if settings.recipe else ""
        bits = _arguments({"backward_bits": settings.backward_bits, **settings.operands})
        return (
            f"bc.quantize(model{recipe})\n"
            f'precision = bc.PrecisionScheduler(model, "{self.spec}", total_steps={steps}, {bits})\n'
            "precision.step()  # after each optimizer.step()"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, for JSON."""
        return {
            "schedule": self.spec,
            "saving": self.saving,
            "reasons": [asdict(reason) for reason in self.reasons],
            "cheaper": None if self.cheaper is None else self.cheaper.as_dict(),
            "better": None if self.better is None else self.better.as_dict(),
            "code": self.code,
            "steps": self.steps,
            "q_max": self.q_max,
            "model": None if self.model is None else self.model.as_dict(),
        }

    def __str__(self) -> str:
        saves = f"saves {percent(self.saving)} of the cost of static {self.q_max} bits"
        if self.model is not None:
            saves = (
                f"saves {percent(self.model.saving)} of the cost of your model at static {self.q_max} bits "
                f"(the schedule alone: {percent(self.saving)})"
            )
        reasons = [*self.reasons, *([] if self.model is None else self.model.reasons())]
        lines = [_paragraph(f"use {self.spec}: {saves}"), "", "why", *(_paragraph(f"- {each}") for each in reasons)]
        for kind, option in (("\ncheaper", self.cheaper), ("more precision", self.better)):
            text = f"{option.spec} saves {percent(option.saving)}: {option.reason}" if option else "none"
            lines.append(_paragraph(f"{kind}: {text}"))
        return "\n".join([*lines, "", "code", textwrap.indent(self.code, "    ")])


def percent(share: float) -> str:
    """Format a share as a percentage.

    >>> percent(0.3666), percent(0.4)
    ('36.7 %', '40 %')
    """
    return f"{round(100 * share, 1):g} %"


def _arguments(values: Mapping[str, Bits | str]) -> str:
    return ", ".join(
        f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}" for name, value in values.items()
    )


def _paragraph(text: str) -> str:
    begin = "\n" if text.startswith("\n") else ""
    filled = textwrap.fill(text, MAX_LINE, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return begin + filled.lstrip()
