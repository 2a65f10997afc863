"""``bitcycle advise``: which schedule to use, and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from bitcycle.cli.parameters import STORE, Margin, complete_task, json_option, option
from bitcycle.lab.advice import advise as advice_for
from bitcycle.lab.advice.advisor import saving_of_model
from bitcycle.lab.advice.rules import DOMAINS, GOALS
from bitcycle.lab.models.catalogue import CATALOGUE
from bitcycle.lab.studies.exports import json_text


def advise(
    goal: Annotated[str, option("What matters most: cost, balance or quality.", complete=GOALS)] = "balance",
    domain: Annotated[
        str | None, option(f"{', '.join(DOMAINS)}; default: no particular domain.", complete=complete_task)
    ] = None,
    steps: Annotated[
        int | None,
        option(
            "Training steps; default: those of the runs in --store, otherwise 64,000 for the saving and a "
            "variable in the code."
        ),
    ] = None,
    fine_tuning: Annotated[
        bool, option("The run fine-tunes a pretrained model instead of training from scratch.", "--fine-tuning")
    ] = False,
    bits: Annotated[
        tuple[int, int] | None,
        option("q_min (from 'bitcycle range-test') and q_max; default: depends on the domain.", metavar="Q_MIN Q_MAX"),
    ] = None,
    q_max: Annotated[int | None, option("q_max alone; q_min then depends on the domain; default: 8.")] = None,
    save: Annotated[float | None, option("The minimum saving, for example --save 40.", metavar="PERCENT")] = None,
    store: Annotated[
        Path | None, option("A store with your own runs, on which the advice is then based (see 'bitcycle study').")
    ] = None,
    study: Annotated[
        str, option(f"A study in the store (without --store: in {STORE}); default: the latest study.")
    ] = "",
    margin: Margin = None,
    model: Annotated[
        str | None,
        option(
            "What it saves on your model: a function of yours without arguments that returns a model and example "
            "inputs, or a built-in model such as cifar-resnet-20.",
            metavar="MODULE:CALLABLE",
            complete=CATALOGUE,
        ),
    ] = None,
    as_json: Annotated[
        bool, json_option("an object with schedule, saving, reasons, cheaper, better, code, steps, q_max, model")
    ] = False,
) -> None:
    """Recommend a schedule: what it saves relative to static q_max, why, and the next cheaper and better options."""
    if bits is not None and q_max is not None:
        raise ValueError("q_max is given twice, by --bits and by --q-max: use one of them")
    if save is not None and not 0 < save < 100:
        raise ValueError(f"--save must be a percentage above 0 and below 100, got {save:g}")
    q_min, high = bits if bits is not None else (None, 8 if q_max is None else q_max)
    records = None
    if store is not None or study:
        from bitcycle.lab.studies.evidence import evidence_from

        records, steps_of_runs = evidence_from(store or STORE, study, domain)
        steps = steps_of_runs if steps is None else steps
    share = None if save is None else save / 100
    advice = advice_for(goal, domain, steps, fine_tuning, high, q_min, share, records=records, margin=margin)
    if model is not None:
        from bitcycle.lab.runs.model_cost import cost_of_model

        advice = replace(advice, model=saving_of_model(advice, cost_of_model(model)))
    print(json_text(advice.as_dict()) if as_json else advice)
