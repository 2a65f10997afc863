"""Print a study as a table: the mean of each setting, and its paired differences from others with 95 % intervals.

    python benchmarks/differences.py out/formats.sqlite --against full
    python benchmarks/differences.py out/healing.sqlite --against "static 4" full

Differences are paired by seed and positive where the setting is better; intervals are Student's.
"""

import argparse
from pathlib import Path

from bitcycle.lab.format import fixed
from bitcycle.lab.report.labels import places_of
from bitcycle.lab.statistics import analyse
from bitcycle.lab.statistics.comparisons import compare, t_interval
from bitcycle.lab.studies.store import Store


def difference(setting, other, sign, places):
    if setting is other:
        return ""
    found = t_interval(compare(setting.qualities, other.qualities, sign))
    mean, low, high = (fixed(value, places, signed=True) for value in (found.mean, found.low, found.high))
    return f"{mean} ({low} to {high})"


def table(analysis, against):
    sign = 1 if analysis.higher_is_better else -1
    places = places_of(analysis)
    by_label = {setting.label: setting for setting in analysis.settings}
    for label in against:
        if label not in by_label:
            raise SystemExit(f"{analysis.title} has no setting {label!r}; it has {', '.join(by_label)}")
    heads = ["setting", analysis.metric, *(f"gain over {label}" for label in against), "seeds"]
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for setting in analysis.settings:
        gains = [difference(setting, by_label[label], sign, places) for label in against]
        cells = [setting.label, fixed(setting.quality.mean, places), *gains, str(len(setting.qualities))]
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("store", type=Path)
    parser.add_argument(
        "--against", nargs="+", default=["full"], help="labels of settings, as bitcycle study prints them"
    )
    arguments = parser.parse_args()
    with Store(arguments.store, must_exist=True) as store:
        records = store.records(with_curves=False)
    for analysis in analyse(records):
        print(f"{analysis.title}\n", *table(analysis, arguments.against), "", sep="\n")
