"""F.scaled_dot_product_attention in the code of a module: all its arguments mean what they mean in torch."""

import math

import pytest
import torch
import torch.nn.functional as F

import bitcycle as bc
from bitcycle.conversion.sites import sites
from tests.nn.cases import Calls
from tests.nn.reference import Plain


def heads(*counts, length=6, features=8):
    torch.manual_seed(0)
    return [torch.randn(2, count, length, features, dtype=torch.float64) for count in counts]


CAUSAL = torch.ones(6, 6, dtype=torch.bool).tril()
OPTIONS = {
    "plain": {},
    "causal": {"is_causal": True},
    "Boolean mask": {"attn_mask": CAUSAL},
    "floating-point mask": {"attn_mask": torch.linspace(-1, 1, 36, dtype=torch.float64).view(6, 6)},
    "mask per head": {"attn_mask": (torch.arange(288).view(2, 4, 6, 6) % 5 > 1) | torch.eye(6, dtype=torch.bool)},
    "Boolean mask and causal": {"attn_mask": torch.arange(36).view(6, 6) % 5 != 1, "is_causal": True},
    "floating-point mask and causal": {"attn_mask": torch.ones(6, 6, dtype=torch.float64), "is_causal": True},
    "scale": {"scale": 0.3},
    "grouped heads": {"enable_gqa": True},
    "grouped heads, causal, scale": {"enable_gqa": True, "is_causal": True, "scale": 2.0},
}
every_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def operands(options):
    return heads(4, 2, 2) if options.get("enable_gqa") else heads(4, 4, 4)


@every_option
def test_attention_equals_the_plain_formulas(options):
    q, k, v = (x.requires_grad_() for x in operands(options))
    groups = q.shape[1] // k.shape[1]
    key, value = (x.repeat_interleave(groups, 1) for x in (k, v))
    given, mask = options.get("attn_mask"), torch.zeros(6, 6, dtype=q.dtype)
    if given is not None:
        mask = mask.masked_fill(~given, -1e300) if given.dtype is torch.bool else given
    if options.get("is_causal"):
        mask = mask.masked_fill(~CAUSAL, -1e300)
    expected, _ = Plain(3, 6).attention(q, key, value, options.get("scale", 8**-0.5), mask)
    weights = torch.linspace(-1, 2, expected.numel(), dtype=q.dtype).view(expected.shape)
    wanted = torch.autograd.grad((expected * weights).sum(), (q, k, v))
    attention = bc.quantize(Calls(F.scaled_dot_product_attention), bc.Recipe.paper(gradients="nearest"))
    assert torch.equal(attention(q, k, v, **options), F.scaled_dot_product_attention(q, k, v, **options))
    bc.set_bits(attention, forward=3, backward=6)
    out = attention(q, k, v, **options)
    torch.testing.assert_close(out, expected)
    for ours, theirs in zip(torch.autograd.grad((out * weights).sum(), (q, k, v)), wanted, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_row_that_attends_to_nothing_is_zero():
    q, k, v = heads(1, 1, 1)
    mask = CAUSAL.clone()
    mask[2] = False
    attention = bc.quantize(Calls(F.scaled_dot_product_attention))
    bc.set_bits(attention, forward=4)
    out = attention(q, k, v, mask)
    assert not out.isnan().any()
    assert (out[:, :, 2] == 0).all()
    assert (F.scaled_dot_product_attention(q, k, v, mask)[:, :, 2] == 0).all()


def test_dropout_applies_as_in_the_function_and_keeps_the_mean():
    q, k, v = heads(4, 4, 4)
    attention = bc.quantize(Calls(F.scaled_dot_product_attention)).eval()
    bc.set_bits(attention, forward=16)
    expected = attention(q, k, v)
    draws = torch.stack([attention(q, k, v, dropout_p=0.5) for _ in range(600)])
    assert not torch.equal(draws[0], draws[1])
    error = draws.std(0) / math.sqrt(len(draws))
    assert ((draws.mean(0) - expected).abs() < 5.5 * error + 1e-9).all()


@pytest.mark.parametrize("execute", ["simulated", "integer"])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_weights_are_computed_again_for_the_backward_pass(execute, half, masked, monkeypatch):
    """Gradients are those of saved weights, bit for bit, and no tensor of their size is saved in single precision."""
    q, k, v = (torch.randn(2, 4, 48, 16, generator=torch.Generator().manual_seed(seed)) for seed in range(3))
    mask = torch.ones(48, 48, dtype=torch.bool).tril() if masked else None
    attention = bc.quantize(Calls(F.scaled_dot_product_attention), execute=execute)
    bc.set_bits(attention, forward=5, backward=6)

    def gradients(saved):
        inputs = [x.clone().requires_grad_() for x in (q, k, v)]
        for site in sites(attention).values():
            site.begin_step(0)

        def pack(x):
            saved.append(x.numel() * x.element_size())
            return x

        with (
            torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x),
            torch.autocast("cpu", torch.bfloat16, enabled=half),
        ):
            out = attention(*inputs, attn_mask=mask)
        return torch.autograd.grad(out.float().square().sum(), inputs)

    without, with_weights = [], []
    got = gradients(without)
    monkeypatch.setattr("bitcycle.nn.attention.output_again", lambda _: None)
    expected = gradients(with_weights)
    for ours, theirs in zip(got, expected, strict=True):
        assert torch.equal(ours, theirs)
    assert sum(with_weights) - sum(without) >= (2 * 4 * (2 if half else 4) - 4) * 48 * 48  # less the mask
