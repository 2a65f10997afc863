"""The training loop: exact resume, for every task; learning; and what it says when something is wrong."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

from bitcycle.lab.runs.checkpoints import NAME
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train
from bitcycle.lab.tasks import TASKS, task_named
from bitcycle.lab.tasks.batches import Batches

SHORT = {"image": 24, "graph": 40, "language": 24, "entailment": 12, "detection": 8}


class KilledError(Exception):
    pass


def killed_after(step):
    def report(progress):
        if progress.step == step:
            raise KilledError

    return report


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TASKS))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_killed_run_ends_bit_for_bit_like_one_that_was_not(name, tmp_path, monkeypatch):
    monkeypatch.setattr(type(task_named(name)), "evaluate_every", SHORT[name] // 4)
    run = RunConfig(name, "CR:3-8:cycles=2", SHORT[name], seed=3)
    expected, expected_model = train(run)
    stops = sorted(random.Random(name).sample(range(1, run.steps), 2))
    for stop in stops:
        with pytest.raises(KilledError):
            train(run, tmp_path, killed_after(stop), checkpoint_every=5)
    torch.manual_seed(1234)
    result, model = train(run, tmp_path, checkpoint_every=5)
    assert (result.test, result.validation, result.best_step) == (
        expected.test,
        expected.validation,
        expected.best_step,
    )
    assert result.bitops == expected.bitops
    assert result.curve == expected.curve
    for key, value in model.state_dict().items():
        assert torch.equal(value, expected_model.state_dict()[key]), key


@pytest.mark.slow
def test_kill_nine_at_random_moments(tmp_path):
    """The command itself, killed hard and started again, against one that was left alone."""
    arguments = ["train", "image", "--steps", "40", "--checkpoint-every", "3", "--threads", "1", "--bits", "3", "8"]
    command = [sys.executable, "-m", "bitcycle", *arguments]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    subprocess.run([*command, "--out", str(tmp_path / "whole")], check=True, capture_output=True, env=environment)
    delays = random.Random(0)
    for _ in range(2):
        process = subprocess.Popen(
            [*command, "--out", str(tmp_path / "killed")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=environment,
        )  # fmt: skip
        while not (tmp_path / "killed" / NAME).exists() and process.poll() is None:
            time.sleep(0.05)
        time.sleep(delays.random())
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run([*command, "--out", str(tmp_path / "killed")], check=True, capture_output=True, env=environment)
    whole, killed = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("whole", "killed"))
    for result in (whole, killed):
        result.pop("seconds")
    assert whole == killed


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
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "of 100000; run the same command again to resume" in told
    assert "Traceback" not in told


def test_batches_go_once_through_the_data_each_epoch():
    batches = Batches(rows=10, size=3, seed=5)
    rows = torch.cat([batches(step) for step in range(10)])
    for epoch in rows.split(10):
        assert sorted(epoch.tolist()) == list(range(10))
    assert not torch.equal(rows[:10], rows[10:20])
    again = Batches(rows=10, size=3, seed=5)
    assert torch.equal(
        torch.cat([again(step) for step in reversed(range(10))]).flip(0).sort().values, rows.sort().values
    )
    assert torch.equal(again(7), batches(7))


def test_another_run_does_not_take_over_a_checkpoint(tmp_path):
    run = RunConfig("graph", "static:8", 4)
    train(run, tmp_path)
    with pytest.raises(ValueError, match="belongs to another run .*seed 0 instead of 1"):
        train(RunConfig("graph", "static:8", 4, seed=1), tmp_path)


def test_the_trained_model_is_a_float_model(tmp_path):
    result, model = train(RunConfig("image", "static:4", 20))
    assert not any("bitcycle" in vars(module) for module in model.modules())
    assert 0.1 < result.test <= 1
    json.dumps(result.as_dict())


@pytest.mark.slow
def test_autocast():
    result, _ = train(RunConfig("image", "static:8", 30, autocast=True))
    assert result.test > 0.5


@pytest.mark.parametrize(
    ("run", "told"),
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
def test_misuse(run, told):
    with pytest.raises(ValueError, match=told):
        train(run)


def test_batches_have_no_negative_size():
    with pytest.raises(ValueError, match="batch_size must be 1 or more"):
        RunConfig("image", "static:8", 4, batch_size=-3)


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


def test_the_last_weights_are_tested_where_a_run_keeps_them():
    """A deficit at the end ruins them, whatever was best on validation before it."""
    run = RunConfig("image", "deficit(1@20..40, static:8)", 40, batch_size=64)
    last, model = train(replace(run, test_weights="last"))
    assert last.best_step == 40
    assert last.validation == last.curve[-1]["validation"]
    with pytest.raises(ValueError, match="test_weights must be 'best' or 'last', got 'first'"):
        replace(run, test_weights="first")
    assert last.test < 0.9
    assert not any("bitcycle" in vars(module) for module in model.modules())


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
