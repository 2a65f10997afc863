"""``python -m evidence``: run the studies behind the paper's claims, and put their verdicts on one page."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Collection
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.common import run_commands
from bitcycle._support.text import table
from bitcycle.cli.parameters import Workers
from bitcycle.cli.progress import StudyBar
from bitcycle.lab.format import count
from bitcycle.lab.runs.result import RunFailure
from bitcycle.lab.studies.driver import run_study
from bitcycle.lab.studies.engines.local import LocalEngine
from bitcycle.lab.studies.exports import replacing
from bitcycle.lab.studies.store import Store
from evidence.design import FOLDER, Design, Domain, Role, read_design
from evidence.documents import documents, repository_of
from evidence.figures import all_figures, path_of, read, update
from evidence.page import html_page
from evidence.power import powers
from evidence.repetition import REPEATED, Known, Repetition, keep, known_runs, repetitions, sample
from evidence.repetition import repeat as repeat_runs
from evidence.studies import missing_requirements, planned_study, settings_of

Folder = Annotated[Path, typer.Option(help="The folder with claims.toml and domains.toml.")]
EvidenceStore = Annotated[Path, typer.Option(help="The store of all runs.")]
Pilot = Annotated[bool, typer.Option("--pilot", help="Use the pilot seeds instead of the judging seeds.")]
Parts = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[DOMAIN|DOMAIN/STUDY]...",
        help="Domains, or studies such as digits/cycles or 'digits/range test'; default: all, as in domains.toml.",
    ),
]

STORE = Path("out/evidence.sqlite")
POWER_SEEDS = (5, 8, 10, 15, 20)
"""Numbers of seeds that the analysis of power tries."""


def run(
    parts: Parts = None,
    folder: Folder = FOLDER,
    store: EvidenceStore = STORE,
    pilot: Pilot = False,
    workers: Workers = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--setting",
            help="Only these settings, as in the column 'setting' of evidence/figures/*.csv; studies without them are "
            "skipped; repeatable.",
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Also train the runs whose figures are in the folder, and replace these; needs a copy of the folder "
            "as --folder and a new --store.",
        ),
    ] = False,
) -> None:
    """Train the runs that are missing, all or some parts, and write their figures.

    Stop it at any time, and run the same command again to continue; it also repeats failed runs. Runs whose figures are
    in the folder are not trained again, unless --again is given. Unless they are named, domains whose data or model is
    missing are skipped.
    """
    if again and folder.resolve() == FOLDER.resolve():
        raise ValueError(f"--again replaces figures: copy the folder {str(folder)!r}, and give the copy with --folder")
    design, role = read_design(folder), Role.TUNING if pilot else Role.JUDGING
    command = shlex.join(["python", "-m", "evidence", *sys.argv[1:]])
    chosen = _available(_with_settings(design, _chosen(design, parts), settings), parts)
    engine = LocalEngine(workers, threads=1)
    failures: list[RunFailure] = []
    tried = 0
    with Store(store) as opened:
        for domain, name in chosen:
            study = planned_study(design, domain, name, role)
            left = wanted = study.of_settings(settings)
            path = path_of(folder, domain, name, role)
            earlier = read(path)
            if again:
                _check_again(opened, wanted, command)
            elif earlier is not None:
                done = {figure.run for figure in earlier.figures}
                left = {name: run for name, run in wanted.items() if name not in done}
            stored = opened.done(left)
            state = f"{len(left) - len(stored)} to train" + (f", {len(stored)} in the store" if stored else "")
            print(f"{domain.id}/{name}: {count(len(wanted), 'run')}, {state}", flush=True)
            try:
                if left:
                    with StudyBar() as bar:
                        run_study(study.plan, opened, engine, command, True, bar.follow, wanted=left)
            finally:  # even without new runs: figures may be no longer planned, or settings have other names
                planned = {(setting, run.name) for setting, run in study.runs}
                outdated = earlier and {(each.setting, each.run) for each in earlier.figures} != planned
                if (left or outdated) and (dropped := update(path, study, opened)):
                    gone = f"dropped {count(dropped, 'figure')} of runs that are no longer planned"
                    print(f"{path}: {gone}", file=sys.stderr)
            failures += opened.failures(left.values())
            tried += len(left)
    if failures:
        for reason, number in Counter(failure.reason for failure in failures).most_common():
            print(f"bitcycle: {number} of {count(tried, 'run')} failed: {reason}", file=sys.stderr)
        shown = shlex.join(["bitcycle", "results", "--failed", "--store", str(store)])
        print(f"'{shown}' shows the tracebacks; the same command repeats these runs", file=sys.stderr)
        raise typer.Exit(1)


def repeat(
    parts: Parts = None,
    folder: Folder = FOLDER,
    share: Annotated[float, typer.Option(metavar="PERCENT", min=0, max=100, help="The share of the runs.")] = 10,
    seed: Annotated[int, typer.Option(help="Random seed of the choice.")] = 0,
    workers: Workers = 0,
    again: Annotated[bool, typer.Option("--again", help="Also train runs that were repeated before.")] = False,
) -> None:
    """Train a random part of the judging runs again, and compare the figures digit by digit.

    They are equal on the kind of machine that made them; another CPU may differ in the last digits. The runs are a
    share of those of each study; a run that two studies share is trained once. Their figures are kept in the folder
    'repeated': stop it at any time, and run the same command again to continue.
    """
    if not share > 0:
        raise ValueError(f"the share must be above 0 %, got {share:g}")
    worker_count = LocalEngine(workers).worker_count
    design = read_design(folder)
    made = all_figures(folder, design, Role.JUDGING)
    with_figures = [(domain, study) for domain, study in _chosen(design, parts) if (domain.id, study) in made]
    known: dict[str, Known] = {}  # a run that several studies share is there once
    chosen: dict[str, Known] = {}
    unplanned = 0
    for domain, study in _available(with_figures, parts):
        figures = made[domain.id, study]
        planned = known_runs(planned_study(design, domain, study, Role.JUDGING), figures)
        runs = len({figure.run for figure in figures.figures})
        if gone := runs - len(planned):
            reason = f"{gone} of {runs} runs with figures are not those planned now and are not repeated"
            print(f"{domain.id}/{study}: {reason}", file=sys.stderr)
            unplanned += gone
        known |= planned
        chosen |= sample(planned, share / 100, seed)
    if not known and not unplanned:
        raise ValueError(f"{folder} has no figures that can be repeated: 'python -m evidence run' makes them")

    def repeated() -> dict[str, Repetition]:
        found = repetitions(made, all_figures(folder / REPEATED, design, Role.JUDGING))
        return {name: pair for name, pair in found.items() if name in chosen}

    before = repeated()
    waiting = [each for name, each in chosen.items() if again or name not in before]
    done = len(chosen) - len(waiting)
    print(f"{count(len(chosen), 'run')} of {len(known):,}, {done} repeated before", flush=True)
    for number, pair in enumerate(repeat_runs(waiting, worker_count), start=done + 1):
        keep(folder, design, made, pair.again)
        mark = "equal" if pair.is_equal else f"DIFFERENT: {pair.known} became {pair.again}"
        if pair.is_equal and pair.known.run in before and not before[pair.known.run].is_equal:
            mark = "equal, but an earlier repetition in the folder 'repeated' was different"
        run = f"{pair.known.run}  {pair.known.setting} seed {pair.known.seed}"
        print(f"{number:4}/{len(chosen)}  {run}: {mark}", flush=True)
    equal = sum(pair.is_equal for pair in repeated().values())
    print(f"{equal} of {count(len(chosen), 'repeated run')} equal, digit by digit")
    if equal < len(chosen) or unplanned:
        raise typer.Exit(1)


def power(folder: Folder = FOLDER) -> None:
    """Print the power of each claim from the pilots: what can be decided and detected with how many seeds."""
    design = read_design(folder)
    rows = []
    for each in powers(design, all_figures(folder, design, Role.TUNING)):
        numbers = [f"{100 * each.decided(n):.0f} % / {each.detectable(n):.2f}" for n in POWER_SEEDS]
        scatter = [f"{each.effect:+.2f}", f"{each.scatter:.2f}"]
        rows.append([each.domain.id, each.claim.id, str(each.measure), str(each.pilot_seeds), *scatter, *numbers])
    if not rows:
        raise ValueError(f"{folder} has no pilots: 'python -m evidence run --pilot' trains them")
    print(
        "effect, scatter: mean and standard deviation over pilot seeds, in gaps.\n"
        "5 seeds, ...: the probability of the right verdict if the true effect is zero (contradicted for claims that "
        "something is better, supported for claims that it is no worse) / the smallest effect that is detected with a "
        "power of 80 %, in gaps.\n"
        "Claims whose settings are not in the pilots of a domain are not listed.\n"
    )
    heads = ["domain", "claim", "measure", "pilots", "effect", "scatter", *(f"{n} seeds" for n in POWER_SEEDS)]
    print(table(heads, rows))


def page(
    folder: Folder = FOLDER,
    out: Annotated[Path, typer.Option(help="The HTML page.")] = Path("out/evidence.html"),
    update: Annotated[
        bool,
        typer.Option(
            "--update", help="Also update the documents of the repository that quote the verdicts, and advice."
        ),
    ] = False,
) -> None:
    """Write the page of verdicts from the figures in the folder. Nothing is trained."""
    root = repository_of(folder) if update else None
    design = read_design(folder)
    judged, pilots = (all_figures(folder, design, role) for role in (Role.JUDGING, Role.TUNING))
    repeated = all_figures(folder / REPEATED, design, Role.JUDGING)
    texts = {out: html_page(design, judged, pilots, repeated)}
    if root is not None:
        texts |= documents(design, judged, pilots, repeated, root)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
        print(path)


def _check_again(store: Store, names: Collection[str], command: str) -> None:
    """Refuse a store that has results of these runs, which are not trained then, unless the same command made them."""
    earlier = [store.study(name) for name in store.studies()]
    made = {run.name for study in earlier if study.command == command for run in study.runs}
    if others := store.done(names) - made:
        number = f"{len(others)} of {len(names)} runs"
        raise ValueError(f"{store.path} already has {number}, which --again would not train: give a new --store")


def _chosen(design: Design, parts: list[str] | None) -> list[tuple[Domain, str]]:
    """Return the domains and studies that arguments name; all if there are none."""
    chosen: list[tuple[Domain, str]] = []
    for name in parts or [domain.id for domain in design.domains]:
        id, _, study = name.partition("/")
        domain = design.domain(id)
        hyphenated = study.replace(" ", "-")  # as in the name of its file
        named = [each for each in domain.studies if not study or each.replace(" ", "-") == hyphenated]
        if not named:
            raise ValueError(f"the domain {id} has no study {study!r}; it has {', '.join(domain.studies)}")
        chosen += [(domain, each) for each in named]
    return chosen


def _with_settings(
    design: Design, chosen: list[tuple[Domain, str]], settings: list[str] | None
) -> list[tuple[Domain, str]]:
    """Return the studies that have some of these settings; all if none are given."""
    if not settings:
        return chosen
    known = [settings_of(design, domain, study) for domain, study in chosen]
    names = dict.fromkeys(chain.from_iterable(known))
    for setting in settings:
        if setting not in names:
            raise ValueError(f"no chosen study has the setting {setting!r}; they have {', '.join(map(repr, names))}")
    return [part for part, each in zip(chosen, known, strict=True) if not set(settings).isdisjoint(each)]


def _available(chosen: list[tuple[Domain, str]], parts: list[str] | None) -> list[tuple[Domain, str]]:
    """Return the studies whose data and model are there. Without them, a part that is named is an error, others are
    skipped, with a line for each domain.
    """
    advice = {domain.id: missing_requirements(domain) for domain, _ in chosen}
    for id, text in advice.items():
        if text and parts:
            raise ValueError(f"{id}: {text}")
        if text:
            print(f"{id}: skipped; {text}", file=sys.stderr)
    return [(domain, study) for domain, study in chosen if not advice[domain.id]]


if __name__ == "__main__":
    run_commands(
        "python -m evidence",
        "The paper's claims on every domain: run the studies, analyse their power, and write the page of verdicts.",
        (run, repeat, power, page),
    )
