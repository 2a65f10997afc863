"""``bitcycle deploy-check``."""

from __future__ import annotations

from typing import Annotated

import typer

from bitcycle._support.text import table
from bitcycle.cli.export import OwnTask, TrainedFolder
from bitcycle.cli.parameters import json_option


def deploy_check(
    folder: TrainedFolder,
    task: OwnTask = "",
    bits: Annotated[
        list[int] | None, typer.Option(help="A width to evaluate at; repeatable; default: 8, 6, 4, 3 and 2.")
    ] = None,
    as_json: Annotated[bool, json_option("an object with the metric by width, full precision as 'full'")] = False,
) -> None:
    """Evaluate a trained run on the test data at the widths it could be deployed at."""
    from bitcycle.lab.runs.deployment import WIDTHS, load_trained, metric_at
    from bitcycle.lab.studies.exports import json_text
    from bitcycle.lab.tasks import task_of

    run, training = load_trained(folder, task)
    found = metric_at(training, (None, *bits) if bits else WIDTHS)
    if as_json:
        print(json_text(found))
    else:
        metric = task_of(run).metric
        print(f"{run.task} trained on {run.schedule}, evaluated on the test data with weights and activations at")
        print(table(["bits", metric], [[width, f"{value:.4f}"] for width, value in found.items()]))
