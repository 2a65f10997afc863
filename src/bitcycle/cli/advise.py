"""``bitcycle advise``: which schedule to use, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from bitcycle.advice import advise as advice_on
from bitcycle.cli.parameters import STORE

STEPS = 64_000  # the length of the paper's trainings on CIFAR


def advise(
    goal: Annotated[str, typer.Option(help="What matters most: 'cost', 'balance' or 'quality'.")] = "balance",
    domain: Annotated[
        str | None, typer.Option(help="image, detection, graph, language or entailment; leave out if none fits.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(help="Steps of the whole training; 64,000 if nothing says, with a store those of its runs."),
    ] = None,
    fine_tuning: Annotated[bool, typer.Option("--fine-tuning", help="A short fine-tuning, not from scratch.")] = False,
    bits: Annotated[
        tuple[int, int] | None,
        typer.Option(help="q_min and q_max, if known: q_min from 'bitcycle range-test', q_max the static width."),
    ] = None,
    q_max: Annotated[int | None, typer.Option(help="q_max alone, 8 if not given; q_min is then by domain.")] = None,
    save: Annotated[
        float | None, typer.Option(metavar="PERCENT", help="A budget: save at least so much, as in --save 40.")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="A store of your own runs: then they decide, see 'bitcycle study'.")
    ] = None,
    study: Annotated[
        str, typer.Option(help=f"Which study of the store ({STORE} if none is given); the latest if not given.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Advise on a schedule: what to use, what it saves against static q_max, why, and what lies on both sides."""
    if bits is not None and q_max is not None:
        raise ValueError("q_max is given twice: by --bits and by --q-max; leave one of them out")
    if save is not None and not 0 < save < 100:
        raise ValueError(f"--save is a percentage above 0 and below 100, not {save:g}")
    q_min, high = bits if bits is not None else (None, 8 if q_max is None else q_max)
    records = None
    if store is not None or study:
        from bitcycle._study.evidence import evidence_from

        records, trained = evidence_from(store or STORE, study, domain)
        steps = trained if steps is None else steps
    advice = advice_on(
        goal,
        domain,
        STEPS if steps is None else steps,
        fine_tuning,
        high,
        q_min,
        None if save is None else save / 100,
        records=records,
    )
    print(json.dumps(advice.as_dict(), indent=2) if as_json else advice)
