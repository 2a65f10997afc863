"""The kernels against a memory copy, and integer products against float ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch

from benchmarks.speed.timing import Call, Spread, ratio, time_in_turns
from bitcycle.kernels import native
from bitcycle.kernels.noise import noise_key
from bitcycle.kernels.rounding import decode, encode, encode_in_bytes

BITS = 7
ROW = 512
"""The length of the rows of the tensors that are rounded."""
SIZES = (2**16, 2**22)
"""Elements: what fits in the caches of a core, and what does not."""
QUICK_SIZES = (2**14,)
SHAPES = ((4096, 768, 768), (1024, 256, 1024), (1024, 128, 512))
"""Rows, inputs and outputs of a linear layer."""
QUICK_SHAPES = ((32, 16, 24),)
ELEMENTS_PER_TURN = 2**18
"""A call on fewer elements is repeated within its turn, so that the turn is long enough for the clock."""


@dataclass(frozen=True)
class KernelTime:
    """The time of an operation for one element."""

    operation: str
    kernels: str
    """``"native"``, ``"reference"``, or ``"torch"`` for the copy."""
    elements: int
    nanoseconds: Spread
    ratio: Spread
    """To a copy of the tensor."""


@dataclass(frozen=True)
class ProductTime:
    """The time of a matrix product in float and in integers."""

    product: str
    rows: int
    inputs: int
    outputs: int
    float_seconds: Spread
    integer_seconds: Spread
    ratio: Spread


COPY = "copy"


def time_kernels(elements: int, rounds: int) -> list[KernelTime]:
    """Time the kernels on a tensor of this size, one thread."""
    x = torch.randn(elements // ROW, ROW)
    target = torch.empty_like(x)
    noise = noise_key(1, 2, 3)
    encoded = encode(x, BITS)
    operations: dict[str, Call] = {
        "nearest, one grid": partial(encode, x, BITS),
        "nearest, per row": partial(encode, x, BITS, (1,)),
        "nearest, per channel": partial(encode, x, BITS, (0,)),
        "nearest, codes alone": partial(encode_in_bytes, x, BITS),
        "stochastic, one grid": partial(encode, x, BITS, None, noise),
        "decode": partial(decode, encoded.codes, encoded.scale, encoded.zero, torch.float32),
    }
    available = [native.current_kernels()]
    if available == ["native"]:
        available.append("reference")
    calls: dict[str, Call] = {COPY: partial(target.copy_, x)}
    for kernels in available:
        calls |= {f"{kernels}: {name}": _with_kernels(kernels, call) for name, call in operations.items()}
    with one_thread():
        seconds = time_in_turns(calls, rounds, repeats=max(1, ELEMENTS_PER_TURN // elements))
    return [
        KernelTime(
            name.partition(": ")[2] or COPY,
            name.partition(": ")[0] if name != COPY else "torch",
            elements,
            Spread.of(times).times(1e9 / elements),
            ratio(times, seconds[COPY]),
        )
        for name, times in seconds.items()
    ]


def _with_kernels(kernels: str, call: Call) -> Call:
    def run() -> None:
        before = native.current_kernels()
        native.choose_kernels(kernels)
        try:
            call()
        finally:
            native.choose_kernels(before)

    return run


def time_products(rows: int, inputs: int, outputs: int, rounds: int) -> list[ProductTime]:
    """Time the three products of a linear layer on one thread."""
    operands = {
        "activations": torch.randn(rows, inputs),
        "weights": torch.randn(outputs, inputs),
        "grad_output": torch.randn(rows, outputs),
    }
    codes = {name: x.clamp(-1, 1).mul(127).to(torch.int8) for name, x in operands.items()}
    calls: dict[str, Call] = {}
    for means, multiply, values in (("float", torch.mm, operands), ("integer", torch._int_mm, codes)):
        activations, weights, grad_output = values.values()
        calls |= {
            f"{means} output": partial(multiply, activations, weights.t()),
            f"{means} input gradient": partial(multiply, grad_output, weights),
            f"{means} weight gradient": partial(multiply, grad_output.t(), activations),
        }
    with one_thread():
        seconds = time_in_turns(calls, rounds)
    return [
        ProductTime(
            product,
            rows,
            inputs,
            outputs,
            Spread.of(seconds[f"float {product}"]),
            Spread.of(seconds[f"integer {product}"]),
            ratio(seconds[f"integer {product}"], seconds[f"float {product}"]),
        )
        for product in ("output", "input gradient", "weight gradient")
    ]


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
