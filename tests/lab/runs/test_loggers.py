"""Figures of a training reach the loggers, and one that is not there says so."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from bitcycle._support.extras import MissingExtraError
from bitcycle.lab.runs.loggers import LoggedRun, open_loggers
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train

RUN = RunConfig("graph", "CR:3-8:cycles=2", 30)
LOGGED = LoggedRun(RUN.name, "graph CR:3-8:cycles=2 seed 0", RUN.as_dict())


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    result, _ = train(RUN, tmp_path, log=["tensorboard"])
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    found = {name: [(e.step, e.value) for e in events.Scalars(name)] for name in events.Tags()["scalars"]}
    assert found["test"] == [(30, pytest.approx(result.test))]
    assert [step for step, _ in found["validation"]] == [point["step"] for point in result.curve]
    assert [value for _, value in found["bits"]] == [point["bits"] for point in result.curve]


def test_mlflow_is_called_as_documented(tmp_path, monkeypatch):
    calls = []
    mlflow = ModuleType("mlflow")
    mlflow.set_experiment = lambda name: calls.append(("experiment", name))
    mlflow.start_run = lambda **keywords: (
        calls.append(("start", keywords)) or SimpleNamespace(info=SimpleNamespace(run_id="abc"))
    )
    mlflow.log_params = lambda values: calls.append(("params", values))
    mlflow.log_metrics = lambda values, step: calls.append(("metrics", step, values))
    mlflow.end_run = lambda: calls.append(("end",))
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    result, _ = train(RUN, tmp_path, log=["mlflow"])
    assert ("params", RUN.as_dict()) in calls
    assert ("metrics", 30, {"test": result.test, **result.extra}) in calls
    assert calls[-1] == ("end",)
    calls.clear()
    open_loggers(["mlflow"], LOGGED, tmp_path, resumed=True)
    assert calls[1] == ("start", {"run_id": "abc"})


def test_weights_and_biases_is_called_as_documented(tmp_path, monkeypatch):
    calls = []
    wandb = ModuleType("wandb")
    wandb.init = lambda **keywords: (
        calls.append(keywords)
        or SimpleNamespace(
            log=lambda figures, step: calls.append((step, figures)), finish=lambda: calls.append("finished")
        )
    )
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    train(RUN, tmp_path, log=["wandb"])
    assert calls[0]["id"] == RUN.name
    assert calls[0]["config"] == RUN.as_dict()
    assert calls[0]["name"] == LOGGED.title
    assert calls[-1] == "finished"


def test_what_is_missing_or_misspelt(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="unknown logger 'tensorbord'; did you mean 'tensorboard'"):
        open_loggers(["tensorbord"], LOGGED, tmp_path)
    with pytest.raises(ValueError, match="give --out FOLDER"):
        open_loggers(["tensorboard"], LOGGED, None)
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'bitcycle\[wandb\]'"):
        open_loggers(["wandb"], LOGGED, tmp_path)
