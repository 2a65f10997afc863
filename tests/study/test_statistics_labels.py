"""Labels: short, unique, and with what tells settings apart."""

from hypothesis import given
from hypothesis import strategies as st

from bitcycle._study.statistics.labels import labels
from bitcycle.experiments.run_config import RunConfig
from tests.schedules.strategies import schedules
from tests.study.statistics_records import SPECS


def of(*specs):
    return labels([RunConfig("graph", spec, 100) for spec in specs])


def test_the_usual_study():
    assert of(*SPECS, "full") == [
        "static 8", "static 3", "CR", "CT", "LR", "LT", "ER", "ETH", "ETV", "RR", "RTH", "RTV", "full",
    ]  # fmt: skip


def test_bits_and_cycles_where_they_differ():
    assert of("CR:3-8", "CR:3-6", "LR:3-8") == ["CR 3-8", "CR 3-6", "LR"]
    assert of("CR:3-8", "CR:3-8:cycles=2", "CT:3-8") == ["CR n=8", "CR n=2", "CT"]
    assert of("CR:3-8", "LR:3-6:cycles=4") == ["CR 3-8 n=8", "LR 3-6 n=4"]  # no usual bits: each tells its own
    assert of("CR:3-8", "CT:3-8", "LR:3-6") == ["CR", "CT", "LR 3-6"]


def test_other_schedules():
    assert of("RR:3-8", "RR:3-8:constant=0.5") == ["RR", "RR constant=0.5"]
    assert of("linear-fall:3-8", "CR:3-8") == ["linear-fall-h", "CR"]
    assert of("delay(0.25, CR:3-8)", "CR:3-8") == ["delay(0.25, CR:3-8:cycles=8)", "CR"]
    assert of("deficit(3@0.0..0.5, static:8)", "call:mine") == ["deficit(3@0.0..0.5, static:8)", "call:mine"]


def test_gradients_and_rates_where_they_differ():
    runs = [RunConfig("graph", "CR:3-8", 100, backward_bits=bits) for bits in ("max", 6, None)]
    assert labels(runs) == ["CR gradients 8", "CR gradients 6", "CR gradients full"]
    assert labels(runs[1:2]) == ["CR"]
    assert labels([RunConfig("graph", "static:8", 100, learning_rate=rate) for rate in ("", "restart@50")]) == [
        "static 8",
        "static 8 restart@50",
    ]


def test_one_schedule_spelt_in_two_ways():
    runs = [RunConfig("graph", spec, 100) for spec in ("CR:3-8", "CR:3-8:cycles=8")]
    assert labels(runs) == [f"CR ({run.name})" for run in runs]


@given(st.lists(schedules, unique=True, min_size=1, max_size=8))
def test_labels_are_unique(found):
    made = of(*map(str, found))
    assert len(set(made)) == len(found)
