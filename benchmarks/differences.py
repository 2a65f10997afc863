"""Print a study as a table: the mean of each setting, and its paired differences from others with 95 % intervals.

    python -m benchmarks.differences out/formats.sqlite full
    python -m benchmarks.differences out/healing.sqlite "static 4" full

Differences are paired by seed and positive where the setting is better; intervals are Student's.
"""

from pathlib import Path

import typer

from benchmarks.common import markdown_table
from bitcycle.lab.format import fixed
from bitcycle.lab.report.labels import places_of
from bitcycle.lab.statistics import analyse
from bitcycle.lab.statistics.estimates import compare, t_interval
from bitcycle.lab.studies.store import Store


def main(store: Path, against: list[str] = typer.Argument(help="Settings as bitcycle study prints them.")) -> None:
    """Print the mean of each setting of a study, and its gain over some settings."""
    with Store(store, must_exist=True) as opened:
        records = opened.records(with_curves=False)
    for analysis in analyse(records):
        sign = 1 if analysis.higher_is_better else -1
        places = places_of(analysis)
        by_label = {setting.label: setting for setting in analysis.settings}
        if missing := [label for label in against if label not in by_label]:
            raise SystemExit(f"{analysis.title} has no setting {missing[0]!r}; it has {', '.join(by_label)}")
        rows = []
        for setting in analysis.settings:
            gains = []
            for other in (by_label[label] for label in against):
                found = t_interval(compare(setting.qualities, other.qualities, sign))
                mean, low, high = (fixed(value, places, signed=True) for value in (found.mean, found.low, found.high))
                gains.append("" if setting is other else f"{mean} ({low} to {high})")
            rows.append([setting.label, fixed(setting.quality.mean, places), *gains, str(len(setting.qualities))])
        heads = ["setting", analysis.metric, *(f"gain over {label}" for label in against), "seeds"]
        print(analysis.title, "", markdown_table(heads, rows), "", sep="\n")


if __name__ == "__main__":
    typer.run(main)
