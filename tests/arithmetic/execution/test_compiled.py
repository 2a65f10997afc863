"""torch.compile: products that integers compute are operators of the graph, and compute what eager code computes."""

import copy

import pytest
import torch
from torch import nn

import bitcycle as bc
from bitcycle.conversion.sites import sites
from tests.support.executions import NEEDS_INTEGERS, randn, seeded

pytestmark = [*NEEDS_INTEGERS, pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture(autouse=True)
def _nothing_compiled_before():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


LAYERS = {
    "linear": (lambda: nn.Linear(24, 40), (6, 5, 24)),
    "linear without a bias": (lambda: nn.Linear(24, 40, bias=False), (6, 24)),
    "convolution": (lambda: nn.Conv2d(3, 20, 3, 2, padding=1), (4, 3, 9, 11)),
    "pointwise": (lambda: nn.Conv2d(16, 5, 1, bias=False), (4, 16, 6, 6)),
    "grouped": (lambda: nn.Conv2d(4, 6, 3, groups=2), (4, 4, 6, 6)),
    "attention": (lambda: nn.MultiheadAttention(16, 2, batch_first=True), (3, 20, 16)),
}


def output_of(layer, x):
    out = layer(x, x, x, need_weights=False) if isinstance(layer, nn.MultiheadAttention) else layer(x)
    return out[0] if isinstance(out, tuple) else out


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("grad_output", ["tensor", "row and column"])
def test_a_compiled_layer_computes_what_it_computes_in_eager_code(name, half, grad_output):
    """Over changes of the bits, full precision among them, in one graph. Noise is the same."""
    build, shape = LAYERS[name]
    layer = bc.quantize(seeded(build), bc.Recipe(grad_output=grad_output), execute="integer")
    eager, graphs = copy.deepcopy(layer), []

    def backend(graph, inputs):
        graphs.append(graph)
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

    compiled = torch.compile(output_of, fullgraph=True, backend=backend)
    for step, bits in enumerate(((8, 8), (4, 6), (3, 8), (None, None), (10, 12))):
        results = []
        for model, run in ((layer, compiled), (eager, output_of)):
            bc.set_bits(model, forward=bits[0], backward=bits[1])
            for site in sites(model).values():
                site.begin_step(step)
            x = randn(*shape).requires_grad_()
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                out = run(model, x)
            model.zero_grad()
            if name != "grouped" and bits[0] in (8, 4):  # an operator keeps the operands of the forward pass
                bc.set_bits(model, forward=2, backward=bits[1])
            (out.float() * torch.linspace(-1, 2, out.numel()).sin().view(out.shape)).sum().backward()
            results.append([out.float(), x.grad, *(parameter.grad for parameter in model.parameters())])
        for ours, theirs in zip(*results, strict=True):
            assert ours.dtype is theirs.dtype
            error = (ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-3)
            assert error < (0.02 if name == "attention" or half else 1e-5), (bits, error)
    assert len(graphs) == 1
    for model in (layer, eager):
        bc.set_bits(model.eval(), forward=2, evaluate=6)
    with torch.no_grad():
        got, expected = compiled(layer, randn(*shape)), output_of(eager, randn(*shape))
    assert (got - expected).abs().max() < 0.02 * expected.abs().max()
    operators = str(graphs[0].graph)
    assert ("bitcycle.product" in operators) == (name != "grouped")


def test_inductor_runs_the_operators():
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 8, 3), nn.Flatten(), nn.Linear(288, 4)
    )
    bc.quantize(model, execute="integer")
    bc.set_bits(model, forward=5, backward=8)
    eager, compiled = copy.deepcopy(model), torch.compile(model, fullgraph=True)
    x = randn(4, 3, 8, 8)
    for memory in (torch.contiguous_format, torch.channels_last):
        losses = [run(x.to(memory_format=memory)).square().sum() for run in (compiled, eager)]
        sum(losses).backward()
        torch.testing.assert_close(*losses)
    for ours, theirs in zip(model.parameters(), eager.parameters(), strict=True):
        assert (ours.grad - theirs.grad).abs().max() <= 0.02 * theirs.grad.abs().max()


def test_small_products_stay_in_the_graph_where_speed_is_asked():
    graphs = []

    def backend(graph, inputs):
        graphs.append(str(graph.graph))
        return graph.forward

    for size in (16, 512):
        layer = bc.quantize(nn.Linear(size, size))
        for site in sites(layer).values():
            site.execution = bc.arithmetic.execution.Execution.FASTEST
        bc.set_bits(layer, forward=8, backward=8)
        torch.compile(layer, fullgraph=True, backend=backend)(randn(64, size))
    assert ["bitcycle.product" in graph for graph in graphs] == [False, True]
