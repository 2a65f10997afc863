"""What is compared and how it is timed and shown; never its times."""

from itertools import cycle

import pytest
import torch
import torch_geometric  # noqa: F401  a model needs it; loading it takes seconds

from benchmarks.speed.measure import Settings, Spread, time_in_turns, time_kernels, time_steps
from benchmarks.speed.models import MODELS, make
from benchmarks.speed.tables import Result, tables, this_machine
from benchmarks.speed.variants import (
    FULL_PRECISION,
    HALF_PRECISION,
    OWN,
    PEERS,
    NotAvailableError,
    training_step,
    variants_of,
)
from bitcycle.kernels import native


@pytest.mark.parametrize("model", MODELS)
def test_a_model_is_always_the_same_one(model):
    before = torch.random.get_rng_state()
    first, second = make(model, quick=True), make(model, quick=True)
    assert torch.equal(first.loss(first.model), second.loss(second.model))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("model", "variant"), [*zip(MODELS, cycle([FULL_PRECISION, HALF_PRECISION, *OWN]), strict=False)]
)
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
    projections = (("self_attn.in_proj_", "self_attn.query_key_value."), ("self_attn.out_proj.", "self_attn.out."))
    state = torchs.model.state_dict()
    for old, new in projections:
        state = {name.replace(old, new): value for name, value in state.items()}
    ours.model.load_state_dict(state)
    torch.testing.assert_close(ours.loss(ours.model), ours.loss(torchs.model))


def test_a_library_that_fails(monkeypatch):
    def broken(model, bits):
        raise AttributeError("no such\nthing")

    monkeypatch.setitem(PEERS, "torch.ao QAT", PEERS["torch.ao QAT"]._replace(convert=broken))
    settings = Settings(("resnet-20",), (1,), rounds=1, quick=True)
    rows = {row["variant"]: row for row in time_steps("resnet-20", 1, settings)}
    failed = rows["torch.ao QAT"]
    assert failed["seconds"] is None
    version = f"torch {torch.__version__}"
    assert failed["note"] == f"{version} fails with {version}: AttributeError: no such thing"
    assert rows[FULL_PRECISION]["ratio"].median == 1


def test_libraries_have_limits(monkeypatch):
    with pytest.raises(NotAvailableError, match="only for linear layers"):
        training_step("resnet-20", "torchao int8", 7, 8, quick=True)
    training_step("transformer-256", "torch.ao QAT", 8, 8, quick=True)()
    with pytest.raises(NotAvailableError, match="at most 8 bits"):
        training_step("transformer-256", "torch.ao QAT", 9, 8, quick=True)
    monkeypatch.setattr("benchmarks.speed.variants.version_of", lambda peer: None)
    with pytest.raises(NotAvailableError, match="not installed"):
        training_step("resnet-20", "brevitas", 7, 8, quick=True)


@pytest.mark.parametrize("repeats", [1, 3])
def test_calls_run_in_turns(repeats):
    ran = []
    calls = {name: lambda name=name: ran.append(name) for name in "abc"}
    seconds = time_in_turns(calls, rounds=5, warm_up=2, repeats=repeats)
    assert {name: len(times) for name, times in seconds.items()} == dict.fromkeys("abc", 5)
    in_turns = ran[::repeats]
    rounds = [tuple(in_turns[start : start + 3]) for start in range(0, len(in_turns), 3)]
    assert len(rounds) == 7
    assert {tuple(sorted(each)) for each in rounds} == {("a", "b", "c")}
    assert len(set(rounds)) > 1, "the order changes"


def row(model, variant, note="", **figures):
    return {"model": model, "variant": variant, "note": note, **figures}


def result():
    settings = Settings(("lstm", "resnet-20"), (1, 2))
    made = Result("1.2.3", this_machine(), settings)
    for threads in settings.threads:
        for model in settings.models:
            for number, variant in enumerate(variants_of(model), start=1):
                seconds, ratio = Spread(0.01 * number, 0.0, 1.0), Spread(number, number - 0.25, number + 0.25)
                made.steps.append(row(model, variant, threads=threads, seconds=seconds, ratio=ratio))
    made.memory = [row("lstm", variant, bytes=2**20, ratio=0.5) for variant in variants_of("lstm")]
    return made


def test_a_table_for_each_number_of_threads():
    ours, peers, *_ = made = tables(result())
    assert [table.title for table in made] == [
        "Training step, time relative to FP32, 1 thread",
        "Training step, time relative to FP32, 1 thread: other libraries",
        "Training step, time relative to FP32, 2 threads",
        "Training step, time relative to FP32, 2 threads: other libraries",
        "Training step, peak memory relative to FP32",
    ]
    assert [row[0] for row in ours.rows] == ["LSTM 200", "ResNet-20"]
    assert [row[0] for row in peers.rows] == ["ResNet-20"]
    assert ours.rows[0][1:3] == ["10.0 ms", "2.00 (1.75-2.25)"]
    assert made[-1].rows[0][1:3] == ["1.0 MB", "0.50"]


def test_what_was_not_measured_is_told():
    made = result()
    notes = {"torchao int8": "not installed", "brevitas": "fails", "auto": "needs a library"}
    for each in made.steps:
        if each["variant"] in notes:
            each |= {"seconds": None, "ratio": None, "note": notes[each["variant"]]}
    ours, peers, *_ = tables(made)
    assert [row[3] for row in ours.rows] == ["-", "-"]
    assert ours.notes == ("LSTM 200, auto: needs a library.", "ResNet-20, auto: needs a library.")
    assert dict(zip(peers.heads, peers.rows[0], strict=True))["torchao int8"] == "not installed"
    assert peers.notes == ("ResNet-20, brevitas: fails.",)
    made.steps = [row("gcn", variant, "needs a library", threads=1) for variant in variants_of("gcn")]
    [table, _] = tables(made)
    assert set(table.rows[0][1:]) == {"-"}
    assert "GCN 256, FP32: needs a library." in table.notes


def test_kernels_are_the_ones_that_were_in_use_afterwards():
    before = native.current_kernels()
    rows = time_kernels(2**14, rounds=1)
    assert native.current_kernels() == before
    assert {row["kernels"] for row in rows} == {"torch", "reference", before}
