from dataclasses import replace

from benchmarks.speed.kernel_times import time_kernels, time_products
from benchmarks.speed.machine import this_machine
from benchmarks.speed.memory import PeakMemory
from benchmarks.speed.run import BenchResult
from benchmarks.speed.settings import BenchSettings
from benchmarks.speed.steps import StepTime
from benchmarks.speed.tables import as_text, tables
from benchmarks.speed.timing import Spread
from benchmarks.speed.variants import variants_of
from bitcycle.kernels import native


def result():
    settings = BenchSettings(("lstm", "resnet-20"), (1, 2))
    made = BenchResult("1.2.3", this_machine(), settings)
    for threads in settings.threads:
        for model in settings.models:
            for number, variant in enumerate(variants_of(model), start=1):
                ratio = Spread(number, number - 0.25, number + 0.25)
                made.steps.append(StepTime(model, variant, threads, ratio.times(0.01), ratio))
    made.memory = [PeakMemory("lstm", variant, 2**20, 0.5) for variant in variants_of("lstm")]
    return made


def test_a_table_for_each_number_of_threads():
    ours, peers, *_ = made = tables(result())
    assert [table.title for table in made] == [
        "Training step, time relative to FP32, 1 thread",
        "Training step, time relative to FP32, 1 thread: other libraries",
        "Training step, time relative to FP32, 2 threads",
        "Training step, time relative to FP32, 2 threads: other libraries",
        "Training step, peak memory relative to FP32",
    ]
    assert [row[0] for row in ours.rows] == ["LSTM 200", "ResNet-20"]
    assert [row[0] for row in peers.rows] == ["ResNet-20"]
    assert ours.rows[0][1:3] == ["10.0 ms", "2.00 (1.75-2.25)"]
    assert made[-1].rows[0][1:3] == ["1.0 MB", "0.50"]


def test_what_was_not_measured_is_told():
    made = result()
    notes = {"torchao QAT": "not installed", "brevitas": "fails", "integer, tensor": "wrong results"}
    made.steps = [
        replace(row, seconds=None, ratio=None, note=notes[row.variant]) if row.variant in notes else row
        for row in made.steps
    ]
    ours, peers, *_ = tables(made)
    assert [row[3] for row in ours.rows] == ["-", "-"]
    assert ours.notes == ("LSTM 200, integer, tensor: wrong results.", "ResNet-20, integer, tensor: wrong results.")
    assert dict(zip(peers.heads, peers.rows[0], strict=True))["torchao QAT"] == "not installed"
    assert peers.notes == ("ResNet-20, brevitas: fails.",)
    made.steps = [StepTime("gcn", variant, 1, note="needs a library") for variant in variants_of("gcn")]
    [table, _] = tables(made)
    assert set(table.rows[0][1:]) == {"-"}
    assert "GCN 256, FP32: needs a library." in table.notes


def test_text_and_markdown_hold_the_same_cells():
    made = result()
    text, markdown = (as_text(made, markdown) for markdown in (False, True))
    for table in tables(made):
        for row in table.rows:
            assert f"| {' | '.join(row)} |" in markdown
            assert all(cell in text for cell in row)
    for each in (text, markdown):
        assert "bitcycle 1.2.3: 7 bits forward, 8 bits backward" in each
        assert f"torch {made.machine.torch}" in each


def test_kernels_are_the_ones_that_were_in_use_afterwards():
    before = native.current_kernels()
    rows = time_kernels(2**14, rounds=1)
    assert native.current_kernels() == before
    assert {row.kernels for row in rows} == {"torch", "reference", before}
    assert [row.ratio.median for row in rows if row.operation == "copy"] == [1]
    assert len(time_products((32, 16, 24), rounds=1)) == 3
