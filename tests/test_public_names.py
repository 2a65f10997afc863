"""The names that users write: all of them resolve and are documented, and the library needs torch and numpy alone."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import bitcycle as bc

REFERENCE = (Path(__file__).parents[1] / "docs" / "api.md").read_text("utf-8")
DOCUMENTED = re.findall(r"^::: (\S+)$", REFERENCE, re.MULTILINE)

LIBRARY_ALONE = """
import sys

sys.modules.update(dict.fromkeys({blocked}))  # importing them fails
import torch
import bitcycle as bc

model = bc.quantize(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)))
precision = bc.PrecisionScheduler(model, "RTH:3-8:cycles=2", total_steps=8, backward_bits=8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def step():
    optimizer.zero_grad()
    loss = model(torch.randn(16, 4)).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()

for _ in range(8):
    step()
    precision.step()
bc.set_bits(model, evaluate=8)
cost = bc.cost(model, torch.randn(16, 4))
assert 0 < cost.saving("RTH:3-8:cycles=2", steps=8, backward_bits=8) < 1
assert len(bc.summary(model).sites) == 2
assert set(bc.export(model)) == {{"0.weight", "0.bias", "2.weight", "2.bias"}}
bc.restore(model)
loaded = [name for name in sys.modules if name.startswith(("bitcycle.lab", "transformers", "torch_geometric"))]
assert not loaded, loaded
"""


def test_every_public_name_resolves():
    for name in bc.__all__:
        assert getattr(bc, name).__name__ == name


def test_every_public_name_is_documented():
    assert {f"bitcycle.{name}" for name in bc.__all__} <= set(DOCUMENTED)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_reference_names_no_private_module(name):
    assert not [part for part in name.split(".") if part.startswith("_")]
    assert not name.startswith("bitcycle.lab.")


@pytest.mark.slow
def test_the_library_needs_no_extra():
    """Everything else that is installed for the laboratory is hidden."""
    blocked = {"matplotlib", "onnx", "pandas", "PIL", "pooch", "ray", "rich", "scipy", "sklearn", "typer"}
    blocked |= {"vl_convert", "onnxruntime", "lightning", "pyarrow"}
    code = LIBRARY_ALONE.format(blocked=blocked)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
