"""The kernels against a memory copy, and integer products against float ones, on one thread."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from benchmarks.speed.timing import Call, Spread, ratio, time_in_turns, with_threads
from bitcycle.kernels import native
from bitcycle.kernels.noise import noise_key
from bitcycle.kernels.rounding import decode, encode, encode_in_bytes

BITS = 7
ROW = 512
"""The length of the rows of the tensors that are rounded."""
ELEMENTS_PER_TURN = 2**18
"""A call on fewer elements is repeated within its turn, so that the turn is long enough for the clock."""
COPY = ("copy", "torch")


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


def sizes(quick: bool) -> tuple[int, ...]:
    """Return the numbers of elements that are rounded: what fits in the caches of a core, and what does not."""
    return (2**14,) if quick else (2**16, 2**22)


def shapes(quick: bool) -> tuple[tuple[int, int, int], ...]:
    """Return the rows, inputs and outputs of the linear layers whose products are timed."""
    return ((32, 16, 24),) if quick else ((4096, 768, 768), (1024, 256, 1024), (1024, 128, 512))


def time_kernels(elements: int, rounds: int) -> list[KernelTime]:
    """Time the kernels on a tensor of this size."""
    x = torch.randn(elements // ROW, ROW)
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
    calls: dict[tuple[str, str], Call] = {COPY: partial(torch.empty_like(x).copy_, x)}
    for kernels in dict.fromkeys([native.current_kernels(), "reference"]):
        calls |= {(name, kernels): partial(_run_with, kernels, call) for name, call in operations.items()}
    with with_threads(1):
        seconds = time_in_turns(calls, rounds, repeats=max(1, ELEMENTS_PER_TURN // elements))
    return [
        KernelTime(*name, elements, Spread.of(times).times(1e9 / elements), ratio(times, seconds[COPY]))
        for name, times in seconds.items()
    ]


def _run_with(kernels: str, call: Call) -> None:
    before = native.current_kernels()
    native.choose_kernels(kernels)
    try:
        call()
    finally:
        native.choose_kernels(before)


def time_products(shape: tuple[int, int, int], rounds: int) -> list[ProductTime]:
    """Time the three products of a linear layer with these numbers of rows, inputs and outputs."""
    rows, inputs, outputs = shape
    floats = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(rows, outputs)
    codes = tuple(x.clamp(-1, 1).mul(127).to(torch.int8) for x in floats)
    calls: dict[tuple[str, str], Call] = {}
    for kind, multiply, operands in (("float", torch.mm, floats), ("integer", torch._int_mm, codes)):
        activations, weights, grad_output = operands
        calls["output", kind] = partial(multiply, activations, weights.t())
        calls["input gradient", kind] = partial(multiply, grad_output, weights)
        calls["weight gradient", kind] = partial(multiply, grad_output.t(), activations)
    with with_threads(1):
        times = time_in_turns(calls, rounds)
    made = []
    for product in dict.fromkeys(product for product, _ in calls):
        in_float, in_integers = times[product, "float"], times[product, "integer"]
        spreads = Spread.of(in_float), Spread.of(in_integers), ratio(in_integers, in_float)
        made.append(ProductTime(product, *shape, *spreads))
    return made
