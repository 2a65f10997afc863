"""What the commands of studies print: a plan before it runs, and what came of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from bitcycle._support.text import short, table

if TYPE_CHECKING:
    from bitcycle._study.analysis import DeficitAnalysis
    from bitcycle._study.driver import Engine
    from bitcycle._study.plan import Plan
    from bitcycle._study.store import Store


def report_folder(store: Path, name: str) -> Path:
    """The folder of a study's report: its name, as far as a folder can be called so, beside the store."""
    return store.parent / (re.sub(r"[^\w.-]+", "-", name).strip(".-") or "study")


def print_report(store: Store, name: str, folder: Path) -> None:
    """Analyse a study, write its report, say what came out and where it is."""
    from bitcycle._study.reporting import report
    from bitcycle._study.wording import details

    reported = report(store, name, folder)
    for analysis in reported.analyses:
        sign = "higher" if analysis.higher_is_better else "lower"
        print(f"\n{analysis.title}: {analysis.metric}, {sign} is better")
        rows = [
            [
                setting.label,
                f"{setting.quality.mean:.4f}",
                f"[{setting.quality.low:.4f}, {setting.quality.high:.4f}]",
                f"{100 * (1 - setting.relative_cost):.1f} %",
                str(setting.group or ""),
                setting.against.outcome if setting.against else "the baseline" if setting.baseline else "",
            ]
            for setting in analysis.settings
        ]
        print(table(["setting", "mean", "95 % interval", "saving", "group", "against the baseline"], rows))
        for claim in analysis.claims:
            print(f"- {details(claim, analysis)} ({claim.verdict})")
    for deficit in reported.deficits:
        _print_deficit(deficit)
    print(f"\nreport: {folder / 'report.html'}")


def _print_deficit(found: DeficitAnalysis) -> None:
    from bitcycle._study.wording import details

    sign = "higher" if found.higher_is_better else "lower"
    print(f"\n{found.title}: {found.metric}, {sign} is better")
    for heading, points in (("length", found.lengths), ("begins at", found.positions)):
        rows = [
            [
                *(f"{point.place:,} steps", point.arm, f"{point.quality.mean:.4f}"),
                f"[{point.quality.low:.4f}, {point.quality.high:.4f}]",
                point.loss.outcome if point.loss else "the control",
            ]
            for point in points
        ]
        if rows:
            print(table([heading, "arm", "mean", "95 % interval", "against the control"], rows))
    for claim in found.claims:
        print(f"- {details(claim, found)} ({claim.verdict})")


def show(plan: Plan, path: Path, engine: Engine) -> None:
    """The runs of a plan, what each costs and how long it would take."""
    import torch

    from bitcycle._study.estimate import estimate
    from bitcycle._study.store import Store

    workers = getattr(engine, "chosen_workers", 1)
    torch.set_num_threads(getattr(engine, "chosen_threads", 1))  # as a worker would
    done: set[str] = set()
    if path.exists():
        with Store(path) as store:
            done = store.done()
    estimates = estimate(plan.runs())
    rows = [
        [
            *(each.run.name, each.run.task, each.run.schedule, str(each.run.seed), str(each.run.steps)),
            *(f"{short(each.bitops // 32**2)}", f"{each.seconds:.0f} s"),
            "done" if each.run.name in done else "",
        ]
        for each in estimates
    ]
    print(table(["run", "task", "schedule", "seed", "steps", "effective MACs", "time", ""], rows))
    missing = [each for each in estimates if each.run.name not in done]
    seconds = sum(each.seconds for each in missing) / min(workers, max(1, len(missing)))
    print(f"{len(rows)} runs, {len(missing)} of them to do: about {_duration(seconds)} with {workers} workers")


def _duration(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )
