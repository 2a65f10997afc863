"""Evaluation never runs in full precision by accident: its bits travel with the model, or the model warns."""

import copy
import pickle
import warnings

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

import bitcycle as bc
from bitcycle.conversion.sites import sites

X = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
NEVER_SET = "evaluates in full precision because its bits were never set"


class Multiplies(nn.Module):
    """A module whose own forward has products, which become sites when it runs."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 36).reshape(6, 6))

    def forward(self, x):
        return (x @ self.weight) @ self.weight.T


def float_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 6), Multiplies())


def converted():
    return bc.quantize(float_model())


def trained(**changes):
    model = converted()
    precision = bc.PrecisionScheduler(model, "CR:2-4:cycles=2", total_steps=3, backward_bits=8)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(3):
        optimizer.zero_grad()
        model(X).square().mean().backward()
        optimizer.step()
        precision.step()
    if changes:
        bc.set_bits(model, **changes)
    return model


def evaluate(model):
    model.eval()
    with torch.no_grad():
        return model(X)


def evaluation_bits(model):
    return {name: site.evaluate_bits for name, site in sites(model).items()}


def saved_and_loaded(state, tmp_path):
    torch.save({"model": state}, tmp_path / "checkpoint.pt")
    return torch.load(tmp_path / "checkpoint.pt", weights_only=True)["model"]


def test_a_model_without_bits_warns_once_and_says_where():
    model = converted()
    with pytest.warns(UserWarning, match=NEVER_SET) as caught:
        evaluate(model)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "bc.set_bits(model, evaluate=8)" in str(caught[0].message)
    evaluate(model)  # a second warning would be an error
    with pytest.warns(UserWarning, match=NEVER_SET):
        evaluate(converted())


def test_each_kind_of_module_warns():
    for model in (nn.Linear(6, 6), Multiplies()):
        bc.quantize(model)
        model(X)
        with pytest.warns(UserWarning, match=NEVER_SET):
            evaluate(model)


@pytest.mark.parametrize("bits", [{"forward": None}, {"evaluate": None}, {"evaluate": 8}, {"forward": 4, "where": "0"}])
def test_bits_that_were_set_never_warn(bits):
    model = converted()
    bc.set_bits(model, **bits)
    evaluate(model)


def test_backward_bits_alone_are_no_bits_of_evaluation():
    model = converted()
    bc.set_bits(model, backward=8)
    with pytest.warns(UserWarning, match=NEVER_SET):
        evaluate(model)


def test_training_mode_counting_and_the_summary_do_not_warn():
    model = converted()
    model(X)
    model.eval()
    bc.cost(model, X)
    bc.summary(model, X)
    bc.quantize(float_model().eval(), example_inputs=X)
    bc.quantize(nn.Sequential(nn.Linear(6, 6)), keep="0").eval()(X)


def test_bits_travel_with_copies():
    model = trained()
    expected = evaluate(model)
    averaged = AveragedModel(model)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), averaged):
        assert torch.equal(evaluate(copied), expected)
        assert not torch.equal(evaluate(copied), evaluate(bc.restore(copied)))


def test_an_average_made_before_the_scheduler_warns():
    model = converted()
    averaged = AveragedModel(model)
    bc.PrecisionScheduler(model, "static:4", total_steps=3)
    averaged.update_parameters(model)
    evaluate(model)
    with pytest.warns(UserWarning, match=NEVER_SET):
        evaluate(averaged)
    averaged.module.load_state_dict(model.state_dict())
    assert torch.equal(evaluate(averaged), evaluate(model))


def test_bits_travel_through_checkpoints(tmp_path):
    model = trained()
    for state in (
        model.state_dict(),
        copy.deepcopy(model.state_dict()),
        saved_and_loaded(model.state_dict(), tmp_path),
        saved_and_loaded(copy.deepcopy(model.state_dict()), tmp_path),
    ):
        loaded = converted()
        loaded.load_state_dict(state)
        assert torch.equal(evaluate(loaded), evaluate(model))
        assert evaluation_bits(loaded) == evaluation_bits(model)
        assert {(site.forward_bits, site.backward_bits) for site in sites(loaded).values()} == {(None, None)}


def test_the_state_has_the_keys_of_the_float_model_which_loads_it(tmp_path):
    model, plain = trained(), float_model()
    state = model.state_dict()
    assert list(state) == list(plain.state_dict())
    plain.load_state_dict(saved_and_loaded(state, tmp_path))
    assert torch.equal(evaluate(plain), evaluate(bc.restore(model)))
    assert "bitcycle" not in repr(model.state_dict()._metadata)


def test_each_site_keeps_its_own_bits():
    model = trained(evaluate=5, where="0")
    bc.set_bits(model, evaluate=None, where="3")
    bc.set_bits(model, evaluate=2, where="4:matmul#2")
    loaded = converted()
    loaded.load_state_dict(model.state_dict())
    assert torch.equal(evaluate(loaded), evaluate(model))
    assert evaluation_bits(loaded) == evaluation_bits(model)


def test_bits_that_were_set_win_over_those_of_a_checkpoint():
    model, state = converted(), trained().state_dict()
    bc.PrecisionScheduler(model, "static:6", total_steps=3)
    model.load_state_dict(state)
    assert set(evaluation_bits(model).values()) == {6}


def test_the_checkpoint_that_was_loaded_last_wins():
    model = converted()
    model(X)
    for bits in (4, 7, None):
        model.load_state_dict(trained(evaluate=bits).state_dict())
        assert set(evaluation_bits(model).values()) == {bits}
    bc.PrecisionScheduler(model, "static:6", total_steps=3)
    assert set(evaluation_bits(model).values()) == {6}


def test_a_state_without_its_metadata_leads_to_the_warning():
    model = converted()
    model.load_state_dict(dict(trained().state_dict()))
    with pytest.warns(UserWarning, match=NEVER_SET):
        evaluate(model)


def test_a_state_of_a_wrapped_model_loads():
    loaded = converted()
    state = AveragedModel(trained()).state_dict()
    state.pop("n_averaged")
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    loaded.load_state_dict(state)
    assert set(evaluation_bits(loaded).values()) == {4}


def test_evaluation_at_the_current_bits_takes_the_last_ones():
    recipe = bc.Recipe(evaluate_at="current")
    model = bc.quantize(float_model(), recipe)
    bc.set_bits(model, forward=3, backward=8, evaluate=8)
    loaded = bc.quantize(float_model(), recipe)
    loaded.load_state_dict(model.state_dict())
    assert torch.equal(evaluate(loaded), evaluate(model))


@pytest.mark.slow
def test_a_compiled_model_evaluates_at_the_loaded_bits():
    model, loaded = trained(), converted()
    compiled = torch.compile(loaded, backend="aot_eager", fullgraph=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        evaluate(compiled)
        loaded.load_state_dict(model.state_dict())
        torch.testing.assert_close(evaluate(compiled), evaluate(model))
