"""Other devices than the CPU: a training step never waits for a value."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bitcycle.kernels.integer_sums import multiply_codes

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_training_step_reads_no_value():
    command = [sys.executable, "-m", "tests.arithmetic.pretended_device"]
    paths = os.pathsep.join(path for path in (str(ROOT), os.environ.get("PYTHONPATH")) if path)
    result = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-4000:]


class OnCuda(torch.Tensor):
    """A tensor of the CPU that says it is on another device."""

    device = property(lambda self: torch.device("cuda"))


def test_integer_products_on_cuda_are_padded(monkeypatch):
    """To more than 16 rows and to multiples of 8, which changes no result."""
    multiply, seen = torch._int_mm, []
    monkeypatch.setattr(torch, "_int_mm", lambda p, q: seen.append((p.shape, q.shape)) or multiply(p, q))
    generator = torch.Generator().manual_seed(0)
    for rows, terms, columns in ((1, 1, 1), (5, 7, 9), (17, 8, 16), (40, 13, 3)):
        p = torch.randint(-128, 128, (rows, terms), generator=generator, dtype=torch.int8)
        q = torch.randint(-128, 128, (terms, columns), generator=generator, dtype=torch.int8)
        product = multiply_codes(p.as_subclass(OnCuda), q.as_subclass(OnCuda)).as_subclass(torch.Tensor)
        assert torch.equal(product, (p.double() @ q.double()).int())
        assert product.is_contiguous()
    for p, q in seen:
        assert p[0] > 16
        assert p[1] == q[0]
        assert p[1] % 8 == q[1] % 8 == 0
    assert len(seen) == 4
