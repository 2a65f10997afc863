"""The training loop: exact resume, for every task; learning; and what it says when something is wrong."""

import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

from bitcycle.arithmetic import execution
from bitcycle.lab.runs.checkpoints import NAME
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train
from bitcycle.lab.tasks import TASKS, task_named
from bitcycle.lab.tasks.batches import Batches

SHORT = {"graph": 40, "entailment": 12, "detection": 8}
"""Steps of short trainings of tasks, unless 24."""


class KilledError(Exception):
    pass


def killed_after(step):
    def report(progress):
        if progress.step == step:
            raise KilledError

    return report


def assert_resumes_exactly(run, folder, *stops):
    """A training that is killed after some steps and resumed each time ends like one that was not."""
    expected, expected_model = train(run)
    for stop in stops:
        with pytest.raises(KilledError):
            train(run, folder, killed_after(stop), checkpoint_every=5)
    torch.manual_seed(1234)
    result, model = train(run, folder, checkpoint_every=5)
    assert replace(result, seconds=0) == replace(expected, seconds=0)
    assert result.curve == expected.curve
    for key, value in model.state_dict().items():
        assert torch.equal(value, expected_model.state_dict()[key]), key


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TASKS))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_killed_run_ends_bit_for_bit_like_one_that_was_not(name, tmp_path, monkeypatch):
    run = RunConfig(name, "CR:3-8:cycles=2", SHORT.get(name, 24), seed=3)
    monkeypatch.setattr(type(task_named(name)), "evaluate_every", run.steps // 4)
    assert_resumes_exactly(run, tmp_path, *sorted(random.Random(name).sample(range(1, run.steps), 2)))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_training_as_ctrl_c_does(tmp_path, number):
    command = [sys.executable, "-m", "bitcycle", "train", "image", "--steps", "100000", "--out", str(tmp_path)]
    process = subprocess.Popen(
        [*command, "--checkpoint-every", "3"], stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )  # fmt: skip
    while not (tmp_path / NAME).exists() and process.poll() is None:
        time.sleep(0.05)
    second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (second.returncode, second.stderr) == (
        2,
        f"bitcycle: another process is training in {tmp_path}: wait for it, or choose another folder\n",
    )
    process.send_signal(number)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "of 100,000 steps done. Run the same command again to resume." in message
    assert "Traceback" not in message


def test_batches_go_once_through_the_data_each_epoch():
    batches = Batches(rows=10, size=3, seed=5)
    rows = torch.cat([batches(step) for step in range(10)])
    for epoch in rows.split(10):
        assert sorted(epoch.tolist()) == list(range(10))
    assert not torch.equal(rows[:10], rows[10:20])
    assert torch.equal(Batches(rows=10, size=3, seed=5)(7), batches(7))


@pytest.mark.slow
def test_autocast():
    result, _ = train(RunConfig("image", "static:8", 30, autocast=True))
    assert result.test > 0.5


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (RunConfig("imgae", "static:8", 4), "unknown task 'imgae'; did you mean 'image'"),
        (RunConfig("image", "static:8", 4, model="resnet-9"), "has no model 'resnet-9'; did you mean"),
        (RunConfig("image", "static:8", 4, data="/nowhere"), "/nowhere"),
        (RunConfig("image", "static:99", 4), "from 1 to 16"),
        (RunConfig("image", "static:8", 0), "total_steps must be 1 or more"),
        (RunConfig("language", "static:8", 4, batch_size=10**6), "cannot be cut into 1000000 columns"),
        (RunConfig("graph", "static:8", 4, options={"agregation": "full"}), "no option 'agregation'; did you mean"),
        (RunConfig("graph", "static:8", 4, options={"aggregation": "half"}), "'full' or 'quantized'"),
    ],
)
def test_misuse(run, message):
    with pytest.raises(ValueError, match=message):
        train(run)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch.compile's own
def test_compiled():
    """The same training by torch.compile, but for the order of sums: same bits, same noise, same cost."""
    run = RunConfig("graph", "CR:3-8:cycles=2", 6)
    (plain, _), (compiled, model) = train(run), train(replace(run, compiled=True))
    assert compiled.bitops == plain.bitops
    assert [point["bits"] for point in compiled.curve] == [point["bits"] for point in plain.curve]
    assert compiled.curve[-1]["loss"] == pytest.approx(plain.curve[-1]["loss"], rel=0.05)
    assert not any(key.startswith("_orig_mod") for key in model.state_dict())


@pytest.mark.slow
def test_the_last_weights_are_tested_where_a_run_keeps_them():
    """A deficit at the end ruins them, whatever was best on validation before it."""
    run = RunConfig("image", "deficit(1@20..40, static:8)", 40, batch_size=64)
    last, model = train(replace(run, test_weights="last"))
    assert last.best_step == 40
    assert last.validation == last.curve[-1]["validation"]
    with pytest.raises(ValueError, match="test_weights must be 'best' or 'last', got 'first'"):
        replace(run, test_weights="first")
    assert 0.05 < last.test < 0.9
    assert not any("bitcycle" in vars(module) for module in model.modules())  # a float model again
    json.dumps(last.as_dict())


@pytest.mark.slow
def test_a_run_can_be_tested_at_the_width_it_ends_at():
    high_low = RunConfig("graph", "deficit(1@4..8, static:8)", 8, test_weights="last")
    at_current = replace(high_low, evaluate_at="current")
    at_max, at_last = train(high_low)[0], train(at_current)[0]
    assert at_max.extra["test loss"] != at_last.extra["test loss"]
    assert at_max.bitops == at_last.bitops
    low_high = RunConfig("graph", "deficit(1@0..4, static:8)", 8, test_weights="last")
    assert train(low_high)[0].test == train(replace(low_high, evaluate_at="current"))[0].test
    assert (high_low.name, "evaluated at current" in at_current.description) == (at_max.run.name, True)
    with pytest.raises(ValueError, match="evaluate_at must be 'max' or 'current', got 'last'"):
        replace(high_low, evaluate_at="last")


def test_a_task_can_record_further_metrics(monkeypatch):
    graph = type(task_named("graph").prepare(RunConfig("graph", "static:8", 1)))
    monkeypatch.setattr(graph, "extra_metrics", lambda self, split: {"nodes": float(len(self.data[split]))})
    result, _ = train(RunConfig("graph", "static:8", 1))
    assert set(result.extra) == {"nodes", "test loss"}


# How products are executed


EXECUTED = RunConfig("image", "static:4", steps=4, batch_size=16)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "then"), [("integer", "simulated"), ("simulated", "integer"), ("integer", "auto")])
def test_a_run_records_how_it_executes_and_resumes_as_it_began(tmp_path, first, then):
    expected, _ = train(EXECUTED, execute=first)
    assert expected.versions["execution"] == first
    assert expected.versions["kernels"] in ("native", "reference")
    with pytest.raises(KilledError):
        train(EXECUTED, tmp_path, killed_after(3), checkpoint_every=1, execute=first)
    resumed, _ = train(EXECUTED, tmp_path, execute=then)
    assert resumed.versions["execution"] == first
    assert (resumed.test, resumed.curve) == (expected.test, expected.curve)


def test_executions_that_cannot_be_used(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="execute must be 'simulated', 'integer' or 'auto', got 'fast'"):
        train(EXECUTED, execute="fast")
    with pytest.raises(KilledError):
        train(EXECUTED, tmp_path, killed_after(3), checkpoint_every=1, execute="integer")
    monkeypatch.setattr(execution, "integers_are_right", lambda: False)
    with pytest.raises(ValueError, match="began with the execution 'integer', which this machine does not have"):
        train(EXECUTED, tmp_path, execute="simulated")
