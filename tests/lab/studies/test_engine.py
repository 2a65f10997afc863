"""The engine on one machine: failures, resuming, kills of workers and of the driver, two studies at once."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from bitcycle.lab.locks import locked, try_lock, unlock
from bitcycle.lab.runs.checkpoints import has_checkpoint
from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.studies.driver import run_study
from bitcycle.lab.studies.engines.local import LocalEngine
from bitcycle.lab.studies.engines.worker import work
from bitcycle.lab.studies.plan_file import plan_of
from bitcycle.lab.studies.queue import TRAINING_LOCK, RunQueue, remove_leftovers
from bitcycle.lab.studies.store import Store
from tests.support.studies import InThisProcess, results, workers_of

pytestmark = pytest.mark.slow

PLAN = {"task": "image", "schedules": ["CR", "static q_max"], "bits": [3, 8], "steps": 30, "batch_size": 16, "seeds": 2}
COMMAND = (
    *(sys.executable, "-m", "bitcycle", "study", "image", "--schedules", "CR", "--schedules", "static q_max"),
    *("--bits", "3", "8", "--steps", "30", "--batch-size", "16", "--seeds", "2", "--workers", "2", "--store"),
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    path = tmp_path_factory.mktemp("undisturbed") / "s.sqlite"
    with Store(path) as store:
        run_study(plan_of(PLAN, "image"), store, LocalEngine(workers=2, threads=1))
    found = results(path)
    assert len(found) == 4
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
        while driver.poll() is None and not list(tmp_path.glob("s.checkpoints/*/training.lock")):
            time.sleep(0.05)
        time.sleep(chance.random())
        workers = workers_of(driver.pid)
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
    done = subprocess.run([*COMMAND, str(store)], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert results(store) == undisturbed
    assert not list(tmp_path.glob("s.checkpoints/*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_and_its_like_stop_cleanly_and_the_same_command_goes_on(undisturbed, tmp_path, number):
    """To the whole group, as a terminal does; SIGTERM to the driver alone, as ``kill`` and batch systems do."""
    store = tmp_path / "s.sqlite"
    driver = subprocess.Popen(
        [*COMMAND, str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # tests in the background would ignore it
    )
    while driver.poll() is None and not list(tmp_path.glob("s.checkpoints/*/training.lock")):
        time.sleep(0.05)
    (os.kill if number == signal.SIGTERM else os.killpg)(driver.pid, number)
    _, printed = driver.communicate(timeout=60)
    assert driver.returncode == 130
    assert "stopped:" in printed
    assert "Run the same command again to resume" in printed
    assert "Traceback" not in printed
    subprocess.run([*COMMAND, str(store)], capture_output=True, check=True)
    assert results(store) == undisturbed


def patch_workers(tmp_path, monkeypatch, code):
    """Let every worker execute this code before it trains."""
    folder = tmp_path / "patch"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(f"import bitcycle.lab.runs.training as training\n{code}")
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")


CRASHING = """
import os
import time
from pathlib import Path

plain, folder = training.train, Path({folder!r})


def train(run, *rest):
    here = folder / f"{{run.seed}}-{{os.getpid()}}-{{time.monotonic()}}"
    here.touch()
    try:
        others = {{path.name.partition("-")[0] for path in folder.glob("[0-9]*-*-*")}} - {{str(run.seed)}}
        if run.seed == 1:  # the one that needs the whole machine
            (folder / f"started beside {{len(others)}}").touch()
            time.sleep(1.5)
            if {dies} or others:
                here.unlink()
                os.kill(os.getpid(), 9)
        else:
            time.sleep(2)
        return plain(run, *rest)
    finally:
        here.unlink(missing_ok=True)


training.train = train
"""


@pytest.mark.parametrize("always", [True, False])
def test_a_crash_is_that_of_one_run(tmp_path, monkeypatch, always):
    """Its neighbours neither fail nor start again, and a run that crashes beside others gets the machine for itself."""
    log = tmp_path / "log"
    log.mkdir()
    patch_workers(tmp_path, monkeypatch, CRASHING.format(folder=str(log), dies=always))
    plan = plan_of({**PLAN, "schedules": ["static:8"], "steps": 5, "seeds": 5}, "deadly")
    with Store(tmp_path / "s.sqlite") as store:
        run_study(plan, store, LocalEngine(workers=2, threads=1))
        failed = {each.run.seed: each.reason for each in store.failures()}
        assert [*failed] == ([1] if always else [])
        assert all(reason.startswith("worker crashed 3 times (signal 9)") for reason in failed.values())
        assert {each.run.seed for each in store.records()} == {0, 1, 2, 3, 4} - failed.keys()
    assert (log / "started beside 0").exists()


def test_a_failure_keeps_its_checkpoint_and_goes_on_from_it(undisturbed, tmp_path, monkeypatch):
    failing = (
        "plain = training.train\n"
        "def train(run, folder, report, *rest):\n"
        "    def failing(now):\n"
        "        if now.step == 20: raise RuntimeError('the library is not installed')\n"
        "    return plain(run, folder, failing, *rest)\n"
        "training.train = train\n"
    )
    with monkeypatch.context() as patched, Store(tmp_path / "s.sqlite") as store:
        patch_workers(tmp_path, patched, failing)
        run_study(plan_of(PLAN, "image"), store, LocalEngine(workers=2, threads=1))
        assert len(store.failures()) == 4
        assert all(has_checkpoint(store.checkpoints / each.run.name) for each in store.failures())
    resumed = []
    monkeypatch.setattr("bitcycle.lab.studies.engines.worker.REPORT_INTERVAL_S", 0)
    plan = plan_of(PLAN, "image")
    with Store(tmp_path / "s.sqlite") as store:
        run_study(plan, store, InThisProcess(resumed.append), retry_failed=True)
    assert results(tmp_path / "s.sqlite") == undisturbed
    assert min(resumed) > 15
    assert not list(tmp_path.glob("s.checkpoints/*"))


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
        run_study(both, store, _Asked(again := []), watch=lambda now: seen.append((now.done, now.failed)))
        assert (seen[-1], again) == ((2, 2), [])  # neither done nor failed runs run again
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
        again = run_study(plan, store, _Asked([]), "second")
        assert again == study == store.study("timed")  # a start with nothing to run leaves the entry as it is
        more = run_study(
            plan_of({**PLAN, "schedules": ["static:8"], "steps": 5, "seeds": 1}, "timed"), store, _Asked([])
        )
        assert len(more.runs) == 1
        assert (more.workers, more.ended is None) == (None, False)


def test_some_runs_of_a_study_are_trained_and_all_are_stored(tmp_path):
    plan = plan_of({**PLAN, "schedules": ["static:8", "static:4"], "steps": 5, "seeds": 1}, "part")
    first, second = plan.runs()
    asked = []
    with Store(tmp_path / "s.sqlite") as store:
        study = run_study(plan, store, _Asked(asked), wanted={second.name})
        assert asked == [second]
        assert study.runs == (first, second)
        seen = []
        here = InThisProcess()
        study = run_study(plan, store, here, watch=lambda now: seen.append(now.planned_runs), wanted={second.name})
        assert set(seen) == {1}
        assert (study.runs, study.ended) == ((first, second), None)
        study = run_study(plan, store, here, wanted={first.name})
        assert study.runs == (first, second)
        assert study.ended is not None


class _Asked:
    """An engine that trains nothing, and notes the runs it should train."""

    worker_count = thread_count = 1

    def __init__(self, asked):
        self.asked = asked

    def outcomes(self, runs, store, watch):
        self.asked += runs
        yield from ()


def test_a_full_disk_stops_the_study_and_is_no_failure_of_the_run(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device", "checkpoint.pt")

    monkeypatch.setattr("bitcycle.lab.runs.training.save_checkpoint", full)
    with pytest.raises(OSError, match="No space left"):
        work(RunConfig("image", "static:8", 4, batch_size=8), tmp_path / "run")


def test_a_run_that_another_study_trains_waits_and_is_then_taken_from_the_store(tmp_path):
    run, other = (RunConfig("image", "static:8", 4, seed, batch_size=8) for seed in range(2))
    with Store(tmp_path / "s.sqlite") as store, Store(tmp_path / "s.sqlite") as same:
        first, ended = RunQueue([run, other], store, print), []
        assert first.take() == run
        second = RunQueue([run, other], same, ended.append)
        assert second.take() == other
        assert second.take() is None  # the first study has the other run
        assert len(second) == 1
        assert first.take() is None
        store.write(RunResult(run, "accuracy", True, 0.5, 0.5, 4, 1, 1.0))
        assert second.take() is None  # its result is stored, but the first study is not through with its folder
        assert ended == []
        first.end(run, keep_checkpoint=False)
        assert second.take() is None
        assert [each.run for each in ended] == [run]
        second.close()
        assert first.take() == other  # it was given up
        first.close()
    assert not list(tmp_path.glob("s.checkpoints/*"))


def test_a_folder_in_which_a_worker_still_trains_is_not_deleted(tmp_path):
    run = RunConfig("image", "static:8", 4, batch_size=8)
    with Store(tmp_path / "s.sqlite") as store:
        queue = RunQueue([run], store, print)
        queue.take()
        folder = store.checkpoints / run.name
        folder.mkdir()
        with locked(folder / TRAINING_LOCK):
            queue.end(run, keep_checkpoint=False)
            assert folder.is_dir()
        store.write(RunResult(run, "accuracy", True, 0.5, 0.5, 4, 1, 1.0))
        remove_leftovers(store)
        assert not folder.exists()


def test_a_lock_whose_file_was_removed_is_taken_anew(tmp_path):
    """Whoever waited for the removed file would share the run with whoever makes a new one."""
    held = try_lock(tmp_path / "lock")
    is_locked, go_on = threading.Event(), threading.Event()

    def wait():
        with locked(tmp_path / "lock"):
            is_locked.set()
            go_on.wait()

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.3)
    unlock(held)
    assert is_locked.wait(10)
    assert try_lock(tmp_path / "lock") is None
    go_on.set()
    waiting.join()
    assert not list(tmp_path.iterdir())


def test_two_studies_at_once_share_the_runs(undisturbed, tmp_path):
    """Started at once, or one a little later: no run fails, and the results are those of one study."""
    store, chance = tmp_path / "s.sqlite", random.Random(1)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [*COMMAND, str(store), "--out", str(tmp_path / "report")]
    studies = []
    for _ in range(2):
        studies.append(
            subprocess.Popen([*command, "--name", f"n{len(studies)}"], stderr=subprocess.PIPE, env=environment)
        )
        time.sleep(chance.random() * 3)
    printed = [study.communicate()[1] for study in studies]
    assert [study.returncode for study in studies] == [0, 0], printed
    assert results(store) == undisturbed
    assert not list(tmp_path.glob("s.checkpoints/*"))


def test_a_study_repeats_the_runs_whose_rows_are_damaged(tmp_path, caplog):
    plan = plan_of({**PLAN, "schedules": ["static:8"], "steps": 5}, "image")
    with Store(tmp_path / "s.sqlite") as store:
        run_study(plan, store, InThisProcess())
        before = results(tmp_path / "s.sqlite")
        store._connection.execute("UPDATE runs SET test = 0.99 WHERE seed = 1")
        store._connection.execute("UPDATE studies SET plan = 'x'")
        steps = []
        run_study(plan, store, InThisProcess(steps.append))
        assert steps
    assert results(tmp_path / "s.sqlite") == before
    [line] = [record.getMessage() for record in caplog.records]
    damaged = next(run for run in plan.runs() if run.seed == 1)
    assert f"is damaged; deleted: the rows of {damaged.name}, image. Runs of this study" in line
