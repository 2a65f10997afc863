"""The options of the graph task: batches, layers, and what they mean for resume, epochs and cost."""

import os
from pathlib import Path

import pytest
import torch

from bitcycle.lab.built_in_tasks import preset_named
from bitcycle.lab.data.files import DataError
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train
from bitcycle.lab.tasks import graph as graph_task
from bitcycle.lab.tasks import task_named
from tests.lab.data.tiny_sets import unpack_tiny
from tests.lab.runs.test_training import assert_resumes_exactly

DATA = os.environ.get("BITCYCLE_DATA")
NEIGHBOURS = RunConfig(
    "graph", "CR:3-8:cycles=2", 24, seed=3, model="sage", batch_size=50, options={"batches": "neighbours", "fan_out": 4}
)


@pytest.mark.slow
def test_a_killed_run_ends_bit_for_bit_like_one_that_was_not(tmp_path, monkeypatch):
    monkeypatch.setattr(graph_task.GraphTask, "evaluate_every", 6)
    assert_resumes_exactly(NEIGHBOURS, tmp_path, 11)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("sage", {"batches": "neighbours", "fan_out": "5"}),
        ("gat", {"batches": "neighbours", "fan_out": "5", "aggregation": "quantized"}),
    ],
)
def test_batches_learn(model, options):
    result, _ = train(RunConfig("graph", "static:8", 60, model=model, options=options))
    assert result.test > 0.85


@pytest.mark.slow
def test_steps_of_an_epoch():
    def steps(batch_size=0, **options):
        run = RunConfig("graph", "full", 1, model="sage", batch_size=batch_size, options=options)
        return task_named("graph").prepare(run).steps_per_epoch

    assert steps() == 1
    assert steps(batches="neighbours") == 1  # 200 training nodes
    assert steps(64, batches="neighbours") == 4


def test_evaluation_in_chunks_is_that_of_the_whole_graph(monkeypatch):
    for model in ("sage", "gat"):
        torch.manual_seed(0)
        training = task_named("graph").prepare(
            RunConfig("graph", "full", 1, model=model, options={"batches": "neighbours", "layers": "3"})
        )
        training.model.eval()
        with torch.no_grad():
            whole = training.model(training.data.x, training.data.edges)
            torch.testing.assert_close(training._logits(), whole)
            monkeypatch.setattr(graph_task, "CHUNK", 100)
            torch.testing.assert_close(training._logits(), whole)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("gcn", {"batches": "neighbours"}, "is for the models sage and gat"),
        ("gcn", {"batches": "part"}, "'full' or 'neighbours', got 'part'"),
        ("gcn", {"hidden": "many"}, "hidden must be an integer"),
        ("gcn", {"layers": "0"}, "layers must be an integer of 1 or more, got '0'"),
        ("sage", {"batches": "neighbours", "fan_out": "many"}, "fan_out must be an integer of 1 or more, got 'many'"),
    ],
)
def test_misuse(model, options, message):
    with pytest.raises(ValueError, match=message):
        task_named("graph").prepare(RunConfig("graph", "full", 1, model=model, options=options))


def test_the_papers_products_start_on_a_folder_of_that_layout(tmp_path):
    unpack_tiny("ogbn-products", tmp_path)
    preset = preset_named("graph", "paper-products")
    assert (preset.model, preset.bits, preset.batch_size, preset.epochs) == ("sage", (3, 8), 1024, 80)
    run = RunConfig(
        "graph", "CR:3-8:cycles=8", 8, model=preset.model, data=str(tmp_path / "products"),
        batch_size=preset.batch_size, options=preset.options,
    )  # fmt: skip
    training = task_named("graph").prepare(run)
    assert training.fan_outs == (32, 32)
    assert training.steps_per_epoch == 1
    result, _ = train(run)
    assert 0 <= result.test <= 1


@pytest.mark.skipif(not DATA, reason="BITCYCLE_DATA names no folder with official data")
def test_planetoid_folders_as_people_have_them(tmp_path):
    planetoid = Path(DATA) / "planetoid"
    (tmp_path / "mine").mkdir()
    for file in planetoid.glob("ind.cora.*"):
        (tmp_path / "mine" / file.name).symlink_to(file)
    whole = graph_task.read_graph(planetoid / "cora")
    for path in (tmp_path / "mine", tmp_path / "mine" / "cora"):
        assert torch.equal(graph_task.read_graph(path).x, whole.x)
    with pytest.raises(DataError, match="citeseer, cora, pubmed: name one, as in .*planetoid/citeseer"):
        graph_task.read_graph(planetoid)
    with pytest.raises(DataError, match="name one, as in"):
        graph_task.read_graph(planetoid / "corra")
