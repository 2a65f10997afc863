"""bitcycle with the rest of torch."""

import copy

import pytest
import torch
from torch import nn

import bitcycle as bc


def cnn():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2, groups=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    )


def mlp():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def transformer():
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


# Seeded: other modules import these, and the global generator is in another state in each process of a test run.
_RANDOM = torch.Generator().manual_seed(0)
IMAGES, VECTORS, SEQUENCES = (torch.randn(*shape, generator=_RANDOM) for shape in ((4, 3, 8, 8), (4, 8), (3, 5, 8)))


def on_bits(model, forward=4, backward=8, **options):
    bc.quantize(model, **options)
    bc.set_bits(model, forward=forward, backward=backward)
    return model


def gradients(model, x, run=None):
    model.zero_grad()
    (model if run is None else run)(x).square().sum().backward()
    return [p.grad.clone() for p in model.parameters()]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "x"), [(mlp, VECTORS), (cnn, IMAGES), (transformer, SEQUENCES)])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Online softmax:UserWarning")
def test_one_compiled_graph_over_a_whole_schedule(make, x, backend):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    eager = bc.quantize(make())
    model = copy.deepcopy(eager)
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    for step in (compiled, eager):
        own = model if step is compiled else eager
        p = bc.PrecisionScheduler(own, "join(CR:3-8:cycles=2, 0.7, full)", total_steps=14, backward_bits=8)
        optimizer = torch.optim.SGD(own.parameters(), 0.01)
        for _ in range(14):
            optimizer.zero_grad()
            step(x).square().mean().backward()
            optimizer.step()
            p.step()
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    for a, b in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("make", "x"), [(mlp, VECTORS), (cnn, IMAGES), (transformer, SEQUENCES)])
def test_autocast(make, x):
    model, plain = on_bits(make(), 8, 8), make()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, expected = model(x), plain(x)
    assert out.dtype is expected.dtype
    assert (out - expected).abs().max() < 0.1 * expected.abs().max()
    out.float().square().sum().backward()
    assert all(p.grad.dtype is torch.float32 for p in model.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_types(dtype):
    model = on_bits(cnn().to(dtype), 8, 8)
    out = model(IMAGES.to(dtype))
    assert out.dtype is dtype
    out.sum().backward()
    assert all(p.grad.dtype is dtype for p in model.parameters())


def test_gradients_of_torch_func_are_those_of_the_float_model_or_refused():
    model = mlp()
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def loss(given):
        return torch.func.functional_call(model, given, (VECTORS,)).square().sum()

    expected = torch.func.grad(loss)(parameters)
    bc.quantize(model)
    assert all(torch.equal(got, expected[name]) for name, got in torch.func.grad(loss)(parameters).items())
    bc.set_bits(model, forward=4, backward=8)
    with pytest.raises(RuntimeError, match="torch.func cannot differentiate a quantised product"):
        torch.func.grad(loss)(parameters)


def test_vmap_is_that_of_the_float_model_or_refused():
    class Mapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(6, 6))

        def forward(self, x):
            return torch.vmap(lambda row: row @ self.weight)(x)

    model, x = Mapped(), torch.randn(3, 4, 6)
    expected = model(x)
    bc.quantize(model)
    assert torch.equal(model(x), expected)
    bc.set_bits(model, forward=4, backward=8)
    with pytest.raises(RuntimeError, match=r"cannot differentiate a quantised product, nor map it .* \(vmap\)"):
        model(x)


def test_a_traced_graph_is_copied_with_its_bits():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 6)

        def forward(self, x):
            return torch.relu(self.layer(x)) @ self.layer.weight

    model, x = torch.fx.symbolic_trace(Own()), torch.randn(4, 6)
    plain = model(x)
    bc.quantize(model)
    bc.set_bits(model, forward=3)
    expected = model(x)
    copied = copy.deepcopy(model)
    assert torch.equal(copied(x), expected)
    bc.set_bits(copied, forward=8)
    assert torch.equal(model(x), expected)
    assert not torch.equal(copied(x), expected)
    assert torch.equal(bc.restore(copied)(x), plain)


def test_gradients_of_gradients_are_refused_clearly():
    model, x = on_bits(mlp()), VECTORS.clone().requires_grad_()
    with pytest.raises(RuntimeError, match=r"gradients of gradients \(create_graph=True\) are not defined"):
        torch.autograd.grad(model(x).sum(), x, create_graph=True)
    bc.set_bits(model, forward=None, backward=None)
    (g,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
    g.sum().backward()


def test_codes_take_one_byte_per_element():
    """A layer saves its input and its weight for backward as codes, one byte each, and a few numbers."""
    x = torch.randn(64, 256, requires_grad=True)
    for bits, bytes_each in ((3, 1), (8, 1), (9, 4)):
        layer = on_bits(nn.Linear(256, 128), bits, 8)
        kept = []

        def keep(t, kept=kept):
            kept.append(t)
            return t

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
            layer(x)
        large = [t for t in {t.data_ptr(): t for t in kept}.values() if t.numel() > 1000]
        assert sorted(t.numel() for t in large) == [64 * 256, 128 * 256]
        assert {t.element_size() for t in large} == {bytes_each}


def test_setting_bits_between_forward_and_backward_is_safe():
    model = on_bits(mlp())
    loss = model(VECTORS).sum()
    bc.set_bits(model, forward=2, backward=2)
    loss.backward()
