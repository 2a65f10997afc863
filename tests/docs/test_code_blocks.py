"""All code of the README and the documentation: Python runs, and every ``bitcycle`` command is one that exists.

The blocks of a page run one after the other in one namespace. A page that speaks of "your model" finds one there.
"""

import re
import shlex
import types
from pathlib import Path

import pytest
import torch
import typer
from torch import nn
from typer.testing import CliRunner

import bitcycle as bc
from bitcycle.cli.app import application
from bitcycle.lab.advice import RunRecord
from tests.docs.pages import PAGES, ROOT, blocks
from tests.support.studies import InThisProcess

pytestmark = pytest.mark.slow

NOT_RUN = {"data.md": "it downloads"}
ALTERNATIVES = ("ready_made.md",)
"""Pages whose blocks are alternatives: each makes a scheduler for a model of its own."""
BEFORE = {"language_models.md": "bc.quantize(model)"}
"""What a page has told in words before its first block."""
RUNS = {"CR:3-8:cycles=8": 0.6, "static:8": 1.0}


def surroundings():
    """What a page may take for granted: a model with data, an optimiser and a training step."""
    torch.manual_seed(0)
    model = nn.Sequential()
    model.add_module("layer1", nn.Sequential(nn.Linear(8, 16), nn.ReLU()))
    model.add_module("head", nn.Linear(16, 16))
    model.add_module("fc", nn.Linear(16, 4))
    loader = [(x := torch.randn(16, 8), x[:, :4].argmax(1)) for _ in range(40)]  # a rule that can be learnt
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    loss = nn.CrossEntropyLoss()

    def step(batch):
        optimizer.zero_grad()
        value = loss(model(batch[0]), batch[1])
        value.backward()
        optimizer.step()
        return value

    x = loader[0][0]
    return {
        "bc": bc, "torch": torch, "nn": nn, "model": model, "loader": loader, "batches": loader, "epochs": 1,
        "step": step, "optimizer": optimizer, "loss": loss, "example_input": x, "example_inputs": x, "inputs": x,
        "loss_of": lambda model, batch: loss(model(batch[0]), batch[1]),
        "lr_scheduler": torch.optim.lr_scheduler.ConstantLR(optimizer), "self": types.SimpleNamespace(),
        "T": len(loader), "schedule": "CR:3-8:cycles=2",
        "runs": [RunRecord(spec, seed, 0.9 + 0.001 * seed, cost) for spec, cost in RUNS.items() for seed in range(5)],
        "__name__": "__main__",
    }  # fmt: skip


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder of its own, studies without processes, and no functions of other pages."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bitcycle.schedules.custom.FUNCTIONS", {})
    monkeypatch.setattr("bitcycle.lab.studies.from_python.engine_of", lambda *arguments: InThisProcess())
    return tmp_path


@pytest.mark.filterwarnings(
    "ignore:.*does not have many workers",
    "ignore:.*smaller than the logging interval",
    "ignore:.*LeafSpec:FutureWarning",
)  # of Lightning
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_python_runs(page, place, capsys):
    namespace = surroundings()
    exec(BEFORE.get(page.name, ""), namespace)
    for block in blocks(page):
        if block.language == "python":
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
            if page.name == "own_task.md" and "class MyTask" in block.text:
                (place / "my_task.py").write_text(block.text)
            if page.name in ALTERNATIVES:
                trained_with(code)
            elif page.name not in NOT_RUN:
                exec(code, namespace)


def trained_with(code):
    """Run a block that makes the scheduler ``precision``, then train with it to the end."""
    namespace = surroundings()
    exec(code, namespace)
    losses = []
    for batch in namespace["loader"]:
        losses.append(namespace["step"](batch).item())
        namespace["precision"].step()
    assert sum(losses[-5:]) < sum(losses[:5])


def drawn_by_commands():
    drawing = re.compile(r"^\(?`?(bitcycle schedules .*--plot docs/pictures/\w+\.svg)", re.MULTILINE)
    for page in PAGES:
        for command in drawing.findall(page.read_text("utf-8")):
            *words, picture = shlex.split(command)[1:]
            yield pytest.param(words, ROOT / picture, id=Path(picture).name)


@pytest.mark.parametrize(("words", "picture"), list(drawn_by_commands()))
def test_pictures_are_those_of_the_commands(words, picture, tmp_path):
    drawn = tmp_path / picture.name
    done = CliRunner().invoke(application(), [*words, str(drawn)])
    assert done.exit_code == 0, done.output
    assert drawn.read_text("utf-8") == picture.read_text("utf-8")


def test_every_ready_made_schedule_has_a_picture():
    drawn = [each.values[1].name for each in drawn_by_commands()]
    shown = re.findall(r"!\[.*?\]\(pictures/(.*?)\)", (ROOT / "docs" / "ready_made.md").read_text("utf-8"))
    assert set(shown) < set(drawn)
    assert len(shown) == 6


def commands():
    for page in PAGES:
        for block in blocks(page):
            for line in block.text.splitlines():
                if line.startswith("bitcycle ") and block.language in ("", "bash", "sh"):
                    yield pytest.param(shlex.split(line, comments=True)[1:], id=f"{page.name}: {line.split('#')[0]}")


@pytest.mark.parametrize("words", list(commands()))
def test_commands_exist(words):
    command = typer.main.get_command(application())
    context = command.make_context("bitcycle", list(words), resilient_parsing=True)
    while hasattr(command, "commands"):
        name, command, words = command.resolve_command(context, words)
        context = command.make_context(name, list(words), parent=context)
    assert command.callback is not None


@pytest.mark.parametrize("words", [["schedules"], ["tasks"], ["schedules", "--bits", "3", "8", "--json"]])
def test_quick_commands_run(words):
    done = CliRunner().invoke(application(), words)
    assert done.exit_code == 0, done.output
    assert done.stdout
