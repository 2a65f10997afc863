"""A run resolves its execution once, records it, and goes on as it began."""

import pytest

from bitcycle.arithmetic import execution
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train

RUN = RunConfig("image", "static:4", steps=4, batch_size=16)


class StoppedError(Exception):
    pass


def train_two_steps(folder, execute):
    def stop(progress):
        if progress.step == 3:
            raise StoppedError

    with pytest.raises(StoppedError):
        train(RUN, folder, stop, checkpoint_every=1, execute=execute)


@pytest.mark.parametrize("execute", ["simulated", "integer"])
def test_a_run_records_how_it_executes(execute):
    result, _ = train(RUN, execute=execute)
    assert result.versions["execution"] == execute
    assert result.versions["kernels"] in ("native", "reference")


@pytest.mark.parametrize(("first", "then"), [("integer", "simulated"), ("simulated", "integer"), ("integer", "auto")])
def test_a_run_resumes_as_it_began(tmp_path, first, then):
    expected, _ = train(RUN, execute=first)
    train_two_steps(tmp_path, first)
    resumed, _ = train(RUN, tmp_path, execute=then)
    assert resumed.versions["execution"] == first
    assert (resumed.test, resumed.curve) == (expected.test, expected.curve)


def test_a_machine_that_cannot_execute_a_run_says_so(tmp_path, monkeypatch):
    train_two_steps(tmp_path, "integer")
    monkeypatch.setattr(execution, "integers_are_right", lambda: False)
    with pytest.raises(ValueError, match="began with the execution 'integer', which this machine does not have"):
        train(RUN, tmp_path, execute="simulated")


def test_an_unknown_execution():
    with pytest.raises(ValueError, match="execute must be 'simulated', 'integer' or 'auto', got 'fast'"):
        train(RUN, execute="fast")
