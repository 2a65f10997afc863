"""What tests of studies share: an engine without processes, the results in a store, the workers of a study."""

import time
from pathlib import Path

from bitcycle.lab.runs.user_code import code_of
from bitcycle.lab.studies.engines.worker import work
from bitcycle.lab.studies.store import Store


class InThisProcess:
    """An engine without processes, which would each load torch.

    Args:
        report: Called with the current step of a run now and then.
    """

    worker_count = thread_count = 1

    def __init__(self, report=lambda step: None):
        self.report = report

    def outcomes(self, runs, store, watch):
        while len(runs):
            if (run := runs.take()) is None:
                time.sleep(0.05)  # another study trains it
            else:
                yield work(run, store.checkpoints / run.name, report=self.report, code=code_of(run))


def results(path):
    """Return everything of the results that is not time, bit for bit; a failure is an error."""
    with Store(path, must_exist=True) as store:
        failures = [each.reason for each in store.failures()]
        assert failures == [], f"false failures: {failures}"
        return {
            (each.run, each.test, each.validation, each.best_step, each.bitops, repr(each.curve))
            for each in store.records()
        }


def workers_of(process):
    """Return the numbers of the worker processes of a study."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(status.read_text().rpartition(")")[2].split()[1]) != process:
                continue
            if b"spawn_main" in status.with_name("cmdline").read_bytes():
                found.append(int(status.parent.name))
        except OSError:
            continue
    return found
