"""The engine on one machine: failures, resuming, kills of workers and of the driver, two studies at once."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bitcycle._study.driver import run_study
from bitcycle._study.engines.local import LocalEngine
from bitcycle._study.engines.worker import work
from bitcycle._study.plan_file import plan_of
from bitcycle._study.store import Store
from bitcycle.experiments.result import RunFailure, RunResult
from bitcycle.experiments.run_config import RunConfig

PLAN = {"task": "image", "schedules": ["CR", "static q_max"], "bits": [3, 8], "steps": 30, "batch_size": 16, "seeds": 2}
COMMAND = (
    *(sys.executable, "-m", "bitcycle", "study", "image", "--schedules", "CR", "--schedules", "static q_max"),
    *("--bits", "3", "8", "--steps", "30", "--batch-size", "16", "--seeds", "2", "--workers", "2", "--store"),
)


def results(path):
    """Everything of the records that is not time, bit for bit, and nothing else in the store."""
    with Store(path) as store:
        assert store.failures() == []
        return {
            (each.run, each.test, each.validation, each.best_step, each.bitops, repr(each.curve))
            for each in store.records()
        }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    path = tmp_path_factory.mktemp("undisturbed") / "s.sqlite"
    with Store(path) as store:
        run_study(plan_of(PLAN, "image"), store, LocalEngine(workers=2, threads=1))
    return results(path)


def test_an_undisturbed_study_is_complete(undisturbed):
    assert len(undisturbed) == 4
    assert {run.schedule for run, *_ in undisturbed} == {"CR:3-8:cycles=8", "static:8"}


def children_of(process):
    """The processes below a process, the workers among them."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == process:
            command = status.with_name("cmdline").read_bytes()
            if b"spawn_main" in command:
                found.append(int(status.parent.name))
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_random_moments(undisturbed, tmp_path, seed):
    """The driver and single workers, killed hard several times: the store ends as that of an undisturbed study."""
    store, chance = tmp_path / "s.sqlite", random.Random(seed)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for victim in ("driver", "worker", "driver"):
        driver = subprocess.Popen(
            [*COMMAND, str(store)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        )
        while driver.poll() is None and not list(tmp_path.glob("s.checkpoints/*/progress")):
            time.sleep(0.05)
        time.sleep(chance.random())
        workers = children_of(driver.pid)
        if victim == "worker" and workers:
            os.kill(chance.choice(workers), signal.SIGKILL)
            assert driver.wait() == 0  # it goes on with another worker
        else:
            driver.send_signal(signal.SIGKILL)
            driver.wait()
            patience = time.monotonic() + 20
            while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < patience:
                time.sleep(0.1)
            assert not any(Path(f"/proc/{pid}").exists() for pid in workers), "workers outlive their driver"
        for checkpoint in tmp_path.glob("s.checkpoints/*/checkpoint.pt.*"):
            assert checkpoint.suffix != ".pt"
    done = subprocess.run([*COMMAND, str(store)], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert results(store) == undisturbed
    assert not list(tmp_path.glob("s.checkpoints/*"))


def test_ctrl_c_stops_cleanly_and_the_same_command_goes_on(undisturbed, tmp_path):
    store = tmp_path / "s.sqlite"
    driver = subprocess.Popen(
        [*COMMAND, str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background would ignore it
    )
    while driver.poll() is None and not list(tmp_path.glob("s.checkpoints/*/progress")):
        time.sleep(0.05)
    os.killpg(driver.pid, signal.SIGINT)  # as a terminal does: to the whole group
    _, told = driver.communicate(timeout=60)
    assert driver.returncode == 130
    assert "stopped:" in told
    assert "Run the same command again to resume" in told
    assert "Traceback" not in told
    subprocess.run([*COMMAND, str(store)], capture_output=True, check=True)
    assert results(store) == undisturbed


def test_a_worker_that_dies_again_and_again_fails_its_run(tmp_path, monkeypatch):
    """The rest of the study is not touched by it."""
    deadly = tmp_path / "deadly"
    deadly.mkdir()
    (deadly / "sitecustomize.py").write_text(
        "import bitcycle.experiments.training as t\n"
        "plain = t.train\n"
        "def train(run, *rest):\n"
        "    if run.seed == 1: import os; os._exit(9)\n"
        "    return plain(run, *rest)\n"
        "t.train = train\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(deadly))
    plan = plan_of({**PLAN, "schedules": ["static:8"], "steps": 5}, "deadly")
    with Store(tmp_path / "s.sqlite") as store:
        run_study(plan, store, LocalEngine(workers=1, threads=1))
        assert [each.run.seed for each in store.records()] == [0]
        [failure] = store.failures()
        assert failure.run.seed == 1
        assert failure.reason.startswith("worker crashed 3 times")


def test_one_failing_run_does_not_stop_the_others(tmp_path):
    plan = plan_of({**PLAN, "schedules": ["static:8"], "steps": 5, "data": str(tmp_path / "nowhere")}, "fails")
    good = plan_of({**PLAN, "schedules": ["static:8"], "steps": 5}, "good")
    both = type(plan)("both", plan.parts + good.parts)
    with Store(tmp_path / "s.sqlite") as store:
        seen = []
        run_study(both, store, LocalEngine(workers=1, threads=1), watch=lambda now: seen.append((now.done, now.failed)))
        assert len(store.records()) == 2
        assert seen[-1] == (2, 2)
        assert all("there is no such folder" in failure.reason for failure in store.failures())
        assert "Traceback" in store.failures()[0].traceback
        run_study(both, store, _Refusing(), watch=lambda now: seen.append((now.done, now.failed)))
        assert seen[-1] == (2, 2)  # neither done nor failed runs run again
        asked = []
        run_study(both, store, _Asked(asked), retry_failed=True)
        assert {run.data for run in asked} == {str(tmp_path / "nowhere")}


def test_workers_and_the_end_are_stored(tmp_path):
    plan = plan_of({**PLAN, "schedules": ["static:8"], "steps": 5}, "timed")
    with Store(tmp_path / "s.sqlite") as store:
        stopped = run_study(plan, store, _Asked([]))
        assert (stopped.workers, stopped.ended) == (None, None)
        study = run_study(plan, store, LocalEngine(workers=1, threads=1), "first")
        assert (study.workers, study.command) == (1, "first")
        assert study.begun <= study.ended
        again = run_study(plan, store, _Refusing(), "second")
        assert again == study == store.study("timed")  # a start with nothing to run leaves the entry as it is
        more = run_study(
            plan_of({**PLAN, "schedules": ["static:8"], "steps": 5, "seeds": 1}, "timed"), store, _Refusing()
        )
        assert len(more.runs) == 1
        assert (more.workers, more.ended is None) == (None, False)


class _Refusing:
    worker_count = thread_count = 1

    def outcomes(self, runs, store, watch):
        assert list(runs) == []
        yield from ()


class _Asked:
    worker_count = thread_count = 1

    def __init__(self, asked):
        self.asked = asked

    def outcomes(self, runs, store, watch):
        self.asked += runs
        yield from ()


def test_a_full_disk_stops_the_study_and_is_no_failure_of_the_run(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device", "checkpoint.pt")

    monkeypatch.setattr("bitcycle.experiments.training.save_checkpoint", full)
    with pytest.raises(OSError, match="No space left"):
        work(RunConfig("image", "static:8", 4, batch_size=8), tmp_path / "run")


def test_a_run_that_another_study_finished_meanwhile_is_taken_from_the_store(tmp_path):
    run = RunConfig("image", "static:8", 4, batch_size=8)
    first = work(run, tmp_path / "c" / run.name)
    assert isinstance(first, RunResult)
    with Store(tmp_path / "s.sqlite") as store:
        store.write(first)
    import fcntl

    lock = (tmp_path / "c" / run.name).with_suffix(".lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    waiting = subprocess.Popen(
        [
            sys.executable, "-c",
            "import sys; from pathlib import Path; from tests.study.test_engine import *\n"
            "folder, store = map(Path, sys.argv[1:])\n"
            "import bitcycle.experiments.training as t; t.train = None\n"  # it would fail if it trained
            "print('ready', flush=True)\n"
            "print(work(RunConfig('image', 'static:8', 4, batch_size=8), folder, store=store).test)",
            str(tmp_path / "c" / run.name), str(tmp_path / "s.sqlite"),
        ],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert waiting.stdout.readline() == "ready\n"
    time.sleep(1)
    assert waiting.poll() is None
    lock.close()
    assert float(waiting.communicate()[0]) == first.test


def test_an_error_becomes_a_failure(tmp_path):
    outcome = work(RunConfig("image", "static:8", 4, model="resnet-9"), tmp_path / "run")
    assert isinstance(outcome, RunFailure)
    assert "has no model 'resnet-9'" in outcome.reason
