from itertools import cycle

import pytest
import torch

from benchmarks.speed.peers import PEERS, NotAvailableError
from benchmarks.speed.settings import MODELS, BenchSettings
from benchmarks.speed.steps import time_steps
from benchmarks.speed.variants import FULL_PRECISION, OWN, training_step, variants_of
from benchmarks.speed.workloads import MAKERS, make


def test_every_model_has_a_maker_and_variants():
    assert set(MAKERS) == set(MODELS)
    assert variants_of("lstm") == (FULL_PRECISION, *OWN)
    assert variants_of("resnet-20") == (FULL_PRECISION, *OWN, *PEERS)


@pytest.mark.parametrize("model", MODELS)
def test_a_model_is_always_the_same_one(model):
    before = torch.random.get_rng_state()
    first, second = make(model, quick=True), make(model, quick=True)
    assert torch.equal(first.loss(first.model), second.loss(second.model))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(("model", "variant"), [*zip(MODELS, cycle([FULL_PRECISION, *OWN]), strict=False)])
def test_a_step_trains(model, variant, monkeypatch):
    made = []
    monkeypatch.setattr("benchmarks.speed.variants.make", lambda *a, **k: made.append(make(*a, **k)) or made[-1])
    step = training_step(model, variant, forward=7, backward=8, quick=True)
    [workload] = made
    before = [parameter.detach().clone() for parameter in workload.model.parameters()]
    step()
    assert all(torch.isfinite(parameter).all() for parameter in workload.model.parameters())
    assert any(not torch.equal(*pair) for pair in zip(before, workload.model.parameters(), strict=True))


@pytest.mark.parametrize("model", ["transformer-256", "transformer-512"])
def test_attention_of_linear_layers_computes_what_torch_does(model):
    """Other libraries train the same Transformer as bitcycle."""
    torchs, ours = make(model, quick=True), make(model, quick=True, of_linear_layers=True)
    names = {
        "self_attn.in_proj_": "attention.query_key_value.",
        "self_attn.out_proj.": "attention.out.",
    }
    state = {}
    for name, value in torchs.model.state_dict().items():
        for old, new in names.items():
            name = name.replace(old, new)
        state[name] = value
    ours.model.load_state_dict(state)
    torch.testing.assert_close(ours.loss(ours.model), ours.loss(torchs.model))


def test_a_library_that_is_not_installed(monkeypatch):
    monkeypatch.setattr("benchmarks.speed.peers.version_of", lambda peer: None)
    with pytest.raises(NotAvailableError, match="not installed"):
        training_step("resnet-20", "brevitas", 7, 8, quick=True)


def test_a_library_that_fails(monkeypatch):
    def broken(model, bits):
        raise AttributeError("no such\nthing")

    monkeypatch.setitem(PEERS, "torch.ao QAT", PEERS["torch.ao QAT"]._replace(convert=broken))
    settings = BenchSettings(("resnet-20",), (1,), rounds=1, quick=True)
    rows = {row.variant: row for row in time_steps("resnet-20", 1, settings)}
    failed = rows["torch.ao QAT"]
    assert failed.seconds is None
    assert (
        failed.note == f"torch {torch.__version__} fails with torch {torch.__version__}: AttributeError: no such thing"
    )
    assert rows[FULL_PRECISION].ratio.median == 1


def test_libraries_have_limits():
    with pytest.raises(NotAvailableError, match="only for linear layers"):
        training_step("resnet-20", "torchao int8", 7, 8, quick=True)
    training_step("transformer-256", "torch.ao QAT", 8, 8, quick=True)()
    with pytest.raises(NotAvailableError, match="at most 8 bits"):
        training_step("transformer-256", "torch.ao QAT", 9, 8, quick=True)
