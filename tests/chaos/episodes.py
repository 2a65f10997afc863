"""Episodes: a study is disturbed, started again, and must end as one that was never disturbed.

Everything runs in forked children of one process that has loaded torch, because loading it takes seconds. The children
train in the process of the study, so that a fault can be put at every single write to the disk; some episodes use the
real command with its worker processes.
"""

from __future__ import annotations

import ctypes
import errno
import io
import itertools
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bitcycle.lab.studies.driver import run_study
from bitcycle.lab.studies.plan_file import plan_of
from bitcycle.lab.studies.store import Store
from tests.support.studies import InThisProcess, results, workers_of

STEPS, BATCH, SEEDS = 4, 8, 1
TASK = f"{Path(__file__).with_name('tiny_task.py')}:Tiny"
PLAN = {"task": TASK, "schedules": ["CR", "static q_max"], "bits": [3, 8], "seeds": SEEDS}
PLAN |= {"steps": STEPS, "batch_size": BATCH}
COMMAND = (
    *(sys.executable, "-m", "bitcycle", "study", TASK, "--name", "tiny"),
    *("--schedules", "CR", "--schedules", "static q_max", "--bits", "3", "8"),
    *("--steps", str(STEPS), "--batch-size", str(BATCH), "--seeds", str(SEEDS)),
    *("--workers", "2", "--threads", "1", "--store"),
)
FAIL, FAIL_FROM_HERE, KILL_BEFORE, KILL_AFTER = 1, 2, 3, 4  # as in faults.c
DONE, TOLD, BROKEN = 0, 2, 1  # how a child ends


@dataclass(frozen=True)
class Fault:
    """A fault at one of the calls that change files, counted from 1."""

    number: int
    action: int
    error: int = 0

    def __str__(self) -> str:
        what = {KILL_BEFORE: "killed before", KILL_AFTER: "killed after"}.get(self.action)
        if what is None:
            what = f"{errno.errorcode[self.error]} {'from' if self.action == FAIL_FROM_HERE else 'at'}"
        return f"{what} write {self.number}"


class Chaos:
    """One series of episodes.

    Args:
        folder: Where the studies are.
        seed: Decides every choice; the moment of a kill also depends on the machine.
        library: The compiled ``faults.c``, which must be preloaded; None if there is no compiler.
    """

    def __init__(self, folder: Path, seed: int, library: Path | None) -> None:
        self.folder, self.seed = folder.resolve(), seed
        self.library = ctypes.CDLL(str(library)) if library else None
        if self.library:
            self.library.chaos_calls.restype = ctypes.c_long
        self.folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        self.undisturbed, self.writes = self._undisturbed()
        self.duration = time.monotonic() - began

    def _undisturbed(self) -> tuple[object, int]:
        """Return the results of an undisturbed study, and how many calls of it change files."""
        path = self._fresh("undisturbed")
        counted = path.with_name("count")
        if self._attempt(path, count_into=counted) != DONE:
            raise AssertionError("an undisturbed study does not end")
        found = results(path)
        if len(found) != 2:
            raise AssertionError(f"an undisturbed study has {len(found)} results")
        return found, int(counted.read_text())

    def episodes(self) -> Iterator[tuple[str, Callable[[random.Random, Path], str]]]:
        """Yield what happens in each episode, for ever; 24 of 1,000 use the real command."""
        cycle = itertools.cycle(
            ["write", "write", "kill", "write", "damage", "write", "two studies", "write", "kill", "full disk"]
        )
        for number in itertools.count():
            kind = "command" if number % 41 == 20 else next(cycle)
            if self.library is None and kind in ("write", "full disk"):
                kind = "kill"
            yield kind, getattr(self, f"_{kind.replace(' ', '_')}")

    def play(self, number: int, kind: str, episode: Callable[[random.Random, Path], str]) -> str:
        """Play an episode, check how it ended, and return what was done."""
        chance = random.Random(f"{self.seed}/{number}")
        self._number = number
        path = self._fresh("disturbed")
        what = f"{kind}: {episode(chance, path)}"
        self._finish(path, what)
        return what

    def _finish(self, path: Path, what: str) -> None:
        if self._attempt(path) != DONE:
            raise AssertionError(f"{what}: the study does not go on: {self._said(path)}")
        if results(path) != self.undisturbed:
            raise AssertionError(f"{what}: other results than an undisturbed study: {results(path)}")
        left = [str(each.relative_to(path.parent)) for each in path.parent.glob("*.checkpoints/**/*")]
        left += [each.name for each in path.parent.glob("*-journal")]
        if left:
            raise AssertionError(f"{what}: left behind: {left}")

    # the episodes

    def _write(self, _: random.Random, path: Path) -> str:
        """Every write has a fault before any has a second one; the next time round, it has another of four faults."""
        ways = [(FAIL, errno.ENOSPC), (KILL_BEFORE, 0), (FAIL, errno.EIO), (KILL_AFTER, 0)]
        turn = sum(1 for _, kind in zip(range(self._number), self.episodes(), strict=False) if kind[0] == "write")
        action, error = ways[(turn + turn // self.writes) % len(ways)]
        fault = Fault(turn % self.writes + 1, action, error)
        return f"{fault}, {self._disturbed(path, fault)}"

    def _kill(self, chance: random.Random, path: Path) -> str:
        """Killed at random moments, several times."""
        moments = [chance.random() * self.duration for _ in range(chance.randint(1, 3))]
        for moment in moments:
            child = self._child(path)
            time.sleep(moment)
            os.kill(child, signal.SIGKILL)
            self._wait(child, path, "killed")
        return f"after {', '.join(f'{moment:.2f}' for moment in moments)} s"

    def _full_disk(self, chance: random.Random, path: Path) -> str:
        fault = Fault(chance.randint(1, self.writes), FAIL_FROM_HERE, chance.choice([errno.ENOSPC, errno.EDQUOT]))
        return f"{fault}, {self._disturbed(path, fault)}"

    def _two_studies(self, chance: random.Random, path: Path) -> str:
        """Two studies share the runs; one of them may be killed."""
        children = [self._child(path, name="one"), self._child(path, name="two")]
        victim = chance.choice([None, None, 0, 1])
        if victim is not None:
            time.sleep(chance.random() * self.duration)
            os.kill(children[victim], signal.SIGKILL)
        for place, child in enumerate(children):
            ended = self._wait(child, path, "two studies")
            if ended != DONE and place != victim:
                raise AssertionError(f"two studies: one ended with {ended}: {self._said(path)}")
        return "none killed" if victim is None else "one killed"

    def _damage(self, chance: random.Random, path: Path) -> str:
        """A study is killed, bits of one of its files change, and it is started again."""
        while not (files := self._damageable(path)):
            self._fresh(path.parent.name)
            if self.library:
                self._disturbed(path, Fault(chance.randint(self.writes // 4, self.writes), KILL_AFTER))
            else:
                self._kill(chance, path)
        file = chance.choice(files)
        intact = file.read_bytes()
        changed = bytearray(intact)
        for _ in range(chance.randint(1, 3)):
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        if chance.random() < 0.2:
            del changed[chance.randrange(len(changed)) :]
        file.write_bytes(changed)
        if file == path and self._attempt(path) == TOLD:
            said = self._said(path)
            if path.name not in said:
                raise AssertionError(f"damage: the file is not named: {said}")
            if file.read_bytes() != changed and len(changed) > 0:
                raise AssertionError(f"damage: a store that was refused has been changed: {said}")
            path.write_bytes(intact)  # as one would from a copy
            return f"{file.name}, refused"
        return f"{file.name}"

    def _damageable(self, path: Path) -> list[Path]:
        """Return the checkpoints, and the store unless a journal would undo the damage."""
        files = sorted(each for each in path.parent.glob("*.checkpoints/*/checkpoint*") if each.stat().st_size)
        if path.exists() and path.stat().st_size and not path.with_name(f"{path.name}-journal").exists():
            files.append(path)
        return files

    def _command(self, chance: random.Random, path: Path) -> str:
        """The real command; its driver or one of its workers is killed."""
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        command = [*COMMAND, str(path), "--out", str(path.with_name("report"))]
        victim = chance.choice(["driver", "worker"])
        driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        began = time.monotonic()
        while driver.poll() is None and not list(path.parent.glob("*.checkpoints/*/*")):
            time.sleep(0.05)
        loading = time.monotonic() - began
        time.sleep(chance.random() * min(loading, 3))
        workers = workers_of(driver.pid)
        if victim == "worker" and workers and driver.poll() is None:
            os.kill(chance.choice(workers), signal.SIGKILL)
            if driver.wait() != 0:
                raise AssertionError("command: the driver did not survive the death of a worker")
        else:
            driver.kill()
            driver.wait()
            patience = time.monotonic() + 60
            while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < patience:
                time.sleep(0.1)
        ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if ended.returncode != 0:
            raise AssertionError(f"command: the study does not go on: {ended.stderr}")
        return f"{victim} killed"

    # children

    def _fresh(self, name: str) -> Path:
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder / "s.sqlite"

    def _disturbed(self, path: Path, fault: Fault) -> str:
        ended = self._attempt(path, fault)
        if ended == TOLD and len(self._said(path).splitlines()) != 1:
            raise AssertionError(f"{fault}: not told in one line: {self._said(path)}")
        return {DONE: "done", TOLD: "told"}.get(ended, "killed")

    def _attempt(self, path: Path, fault: Fault | None = None, count_into: Path | None = None) -> int:
        return self._wait(self._child(path, fault, count_into=count_into), path, str(fault or "no fault"))

    def _wait(self, child: int, path: Path, what: str) -> int:
        """Return how a child ended: DONE, TOLD, or the negative number of the signal that killed it."""
        _, status = os.waitpid(child, 0)
        ended = os.waitstatus_to_exitcode(status)
        if ended in (DONE, TOLD, -signal.SIGKILL):
            return ended
        raise AssertionError(f"{what}: ended with {ended}: {self._said(path)}")

    def _said(self, path: Path) -> str:
        said = path.with_name("said")
        return said.read_text() if said.exists() else ""

    def _child(self, path: Path, fault: Fault | None = None, name: str = "tiny", count_into: Path | None = None) -> int:
        child = os.fork()
        if child:
            return child
        ended = BROKEN
        try:
            logging.getLogger("bitcycle").setLevel(logging.CRITICAL)
            with path.with_name("said").open("w") as said:
                ended = self._study(path, fault, name, said)
            if count_into is not None:
                count_into.write_text(str(self.library.chaos_calls() if self.library else 100))
        finally:
            os._exit(ended)

    def _study(self, path: Path, fault: Fault | None, name: str, said) -> int:
        """Run the study as the command does: an error of the disk or a damaged file is told in one line."""
        if self.library:
            chosen = fault or Fault(0, 0)
            self.library.chaos_arm(str(path.parent).encode(), chosen.number, chosen.action, chosen.error)
        try:
            with Store(path) as store:
                run_study(plan_of(PLAN, name), store, InThisProcess())
            return DONE
        except (ValueError, OSError) as error:
            self._tell(said, error)
            return TOLD
        except BaseException:
            self._tell(said, traceback.format_exc())
            return BROKEN

    def _tell(self, said, text: object) -> None:
        if self.library:
            self.library.chaos_arm(b"", 0, 0, 0)
        said.write(f"{text}\n")


def warm_up() -> None:
    """Load what a training loads, so that no child has to. No backward pass: torch cannot fork after one."""
    import torch

    from bitcycle.conversion.convert import quantize, set_bits
    from bitcycle.lab.data.splits import Split
    from bitcycle.lab.tasks.user_tasks import load_task

    training = load_task(TASK)().prepare(plan_of(PLAN, "warm").runs()[0])
    quantize(training.model, training.recipe, policy=training.policy)
    set_bits(training.model, forward=8, backward=8)
    training.model.eval()
    with torch.no_grad():
        training.evaluate(Split.VALIDATION)
    for parameter in training.model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    training.optimizer.step()
    torch.save({"model": training.model.state_dict(), "optimizer": training.optimizer.state_dict()}, io.BytesIO())
