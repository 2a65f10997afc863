"""The answer of ``bc.advise``: the schedule to use, the rules it rests on, and its alternatives."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from bitcycle.lab.format import percent
from bitcycle.schedules import Bits, Schedule

MAX_LINE = 100


@dataclass(frozen=True)
class TrainingSettings:
    """How runs are trained apart from their schedule: the arguments in the code of an advice."""

    backward_bits: Bits | str
    """As :class:`bitcycle.PrecisionScheduler` takes them."""
    operands: Mapping[str, str] = field(default_factory=dict)
    """Specs of what does not follow the schedule, by argument of the scheduler: weights, activations, strength."""
    recipe: Mapping[str, str] = field(default_factory=dict)
    """What differs from the default recipe, by field."""


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
    uncounted: list[str]
    """Products that cannot be counted, which no number includes."""

    def reasons(self) -> list[Reason]:
        """Return what the schedule applies to, and what not."""
        text = f"{percent(self.quantized)} of the multiply-accumulates of your model are at the bits of the schedule"
        if self.largest_part is not None:
            text += f"; the largest part in full precision is {self.largest_part} with {percent(self.largest_share)}"
        uncounted = [f"NOT counted: {'; '.join(self.uncounted)}"] if self.uncounted else []
        return [Reason("model", each) for each in (text, *uncounted)]


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
    settings: TrainingSettings
    """How the runs were trained on which the advice is based; without any, with gradients at q_max."""
    steps_given: bool = True
    """Whether the steps are those of the question; if not, the code has a variable in their place."""
    model: ModelSaving | None = None
    """What it saves in the training of the model that was given."""

    @property
    def spec(self) -> str:
        """The schedule as a spec."""
        return str(self.schedule)

    @property
    def code(self) -> str:
        """Three lines to add to a training loop."""
        steps = self.steps if self.steps_given else "total_steps"
        recipe = f", bc.Recipe({_arguments(self.settings.recipe)})" if self.settings.recipe else ""
        bits = _arguments({"backward_bits": self.settings.backward_bits, **self.settings.operands})
        return (
            f"bc.quantize(model{recipe})\n"
            f'precision = bc.PrecisionScheduler(model, "{self.spec}", total_steps={steps}, {bits})\n'
            "precision.step()  # after each optimizer.step()"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, for JSON."""
        options = {"cheaper": self.cheaper, "better": self.better}
        return {
            "schedule": self.spec,
            "saving": self.saving,
            "reasons": [asdict(reason) for reason in self.reasons],
            **{name: each and {**vars(each), "schedule": each.spec} for name, each in options.items()},
            "code": self.code,
            "steps": self.steps,
            "q_max": self.q_max,
            "model": self.model and asdict(self.model),
        }

    def __str__(self) -> str:
        of_model = [] if self.model is None else self.model.reasons()
        saves = f"saves {percent(self.saving)} of the cost of static {self.q_max} bits"
        if self.model is not None:
            saves = (
                f"saves {percent(self.model.saving)} of the cost of your model at static {self.q_max} bits "
                f"(the schedule alone: {percent(self.saving)})"
            )
        paragraphs = [f"use {self.spec}: {saves}", "", "why", *(f"- {each}" for each in (*self.reasons, *of_model)), ""]
        for kind, option in (("cheaper", self.cheaper), ("more precision", self.better)):
            text = f"{option.spec} saves {percent(option.saving)}: {option.reason}" if option else "none"
            paragraphs.append(f"{kind}: {text}")
        wrap = textwrap.TextWrapper(MAX_LINE, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        return "\n".join([*map(wrap.fill, paragraphs), "", "code", textwrap.indent(self.code, "    ")])


def _arguments(values: Mapping[str, Bits | str]) -> str:
    return ", ".join(
        f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}" for name, value in values.items()
    )
