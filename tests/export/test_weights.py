"""Float weights on their grids, and torch.export."""

import copy

import pytest
import torch
from torch import nn

import bitcycle as bc
from bitcycle._export.recording import record
from tests.ecosystem.test_with_torch import IMAGES, SEQUENCES, VECTORS, cnn, mlp, transformer
from tests.nn.cases import CASES

MODELS = [(mlp, VECTORS), (cnn, IMAGES), (transformer, SEQUENCES)]


def converted(model, bits, **options):
    bc.quantize(model, **options)
    bc.set_bits(model, evaluate=bits)
    return model.eval()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_layer_exports_the_weights_that_it_multiplies(case):
    model = converted(case.build().double(), 3, recipe=case.recipe)
    plain = bc.restore(copy.deepcopy(model))
    needs_inputs = isinstance(plain, (nn.Bilinear, nn.LinearCrossEntropyLoss))  # they call a function with their weight
    if needs_inputs:
        with pytest.raises(ValueError, match="multiplies parameters, or may do so: pass example_inputs"):
            bc.export(model)
    plain.load_state_dict(bc.export(model, case.inputs() if needs_inputs else None))
    recording = record(model, [case.inputs()])
    rounded = [pair for site in bc.summary(model).sites for pair in recording.weights_of(site_named(model, site.name))]
    mine = {p.untyped_storage().data_ptr(): p for p in model.parameters()}
    names = {id(p): name for name, p in model.named_parameters()}
    exported = dict(plain.named_parameters())
    for weight, values in rounded:
        parameter = exported[names[id(mine[weight.untyped_storage().data_ptr()])]]
        view = parameter.detach().as_strided(weight.shape, weight.stride(), weight.storage_offset())
        assert torch.equal(view, values)
    changed = [name for name, p in model.named_parameters() if not torch.equal(p, exported[name])]
    assert bool(changed) == bool(rounded) or isinstance(model, nn.Embedding)


def site_named(model, name):
    from bitcycle.conversion.sites import named_sites

    return named_sites(model)[name]


def test_biases_are_exported_on_their_grids_if_the_recipe_rounds_them():
    model = converted(nn.MultiheadAttention(8, 2), 2, recipe=bc.Recipe(bias=True))
    nn.init.normal_(model.in_proj_bias)
    assert all(len(part.unique()) <= 4 for part in bc.export(model)["in_proj_bias"].chunk(3))


def test_symmetric_grids():
    model = converted(mlp(), 3, recipe=bc.Recipe(grid="symmetric"))
    for row in bc.export(model)["0.weight"]:
        codes = row / (row.abs().max() / 3)
        torch.testing.assert_close(codes, codes.round(), rtol=0, atol=1e-6)
        assert codes.abs().max() == 3


def test_other_grids_are_refused():
    model = converted(mlp(), 8, recipe=bc.Recipe(grid="float"))
    with pytest.raises(
        ValueError, match="only grids of integers can be exported, and the model has Recipe\\(grid='float'\\)"
    ):
        bc.export(model)


def test_tied_weights_stay_tied_with_a_warning():
    model = nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 10, bias=False))
    model[1].weight = model[0].weight
    converted(model, 3)
    with pytest.warns(UserWarning, match="one tensor, which is on the grid for all uses: 0.weight and 1.weight"):
        state = bc.export(model)
    assert torch.equal(state["0.weight"], state["1.weight"])


@pytest.mark.slow
@pytest.mark.parametrize(("make", "x"), MODELS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_exported_program_keeps_its_bits(make, x):
    model = converted(make(), 4)
    program = torch.export.export(model, (x,)).module()
    expected = model(x)
    torch.testing.assert_close(program(x), expected)
    bc.set_bits(model, evaluate=2)
    torch.testing.assert_close(program(x), expected)
    assert not torch.allclose(model(x), expected)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_sites_can_be_discovered_by_an_export():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 8))

        def forward(self, x):
            return torch.relu(x) @ self.weight

    model, x = converted(Own(), 3).eval(), torch.randn(4, 8)
    program = torch.export.export(model, (x,)).module()  # before any run
    assert torch.equal(program(x), model(x))
    assert [row.evaluate for row in bc.summary(model).sites] == [3]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("train", "strict", "message"), [(True, False, r"call model.eval\(\) first"), (False, True, "needs strict=False")]
)
def test_torch_export_refuses_the_training_mode_and_its_strict_mode(train, strict, message):
    with pytest.raises(ValueError, match=message):
        torch.export.export(converted(mlp(), 4).train(train), (VECTORS,), strict=strict)


def test_exported_weights_compute_the_evaluation_with_activations_in_full_precision():
    model = mlp()
    bc.quantize(model)
    bc.set_bits(model, weights=3, activations=None)
    plain = mlp()
    plain.load_state_dict(bc.export(model))
    torch.testing.assert_close(plain(VECTORS), model.eval()(VECTORS))


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
@pytest.mark.parametrize("norm", [nn.utils.parametrizations.weight_norm, nn.utils.weight_norm])
def test_weights_that_are_made_of_others_are_refused(norm):
    model = converted(nn.Sequential(norm(nn.Linear(4, 3))), 4)
    with pytest.raises(ValueError, match="the weight of 0 is computed from other parameters.*bc.restore"):
        bc.export(model)


def test_a_single_number_is_one_prediction():
    class Mean(nn.Linear):
        def forward(self, x):
            return super().forward(x).mean()

    model = bc.quantize(Mean(4, 2))
    bc.set_bits(model, evaluate=16)
    found = bc.check_weights(bc.export(model, VECTORS[:, :4]), model, [VECTORS[:, :4]])
    assert (found.predictions, found.argmax) == (1, 1)


@pytest.mark.filterwarnings("ignore:Initializing zero-element")
def test_a_layer_without_inputs_is_exported():
    assert bc.export(converted(nn.Linear(0, 4), 4))["weight"].shape == (4, 0)


class TiedHead(nn.Module):
    """A language model whose head multiplies by the table of its embedding."""

    def __init__(self):
        super().__init__()
        self.table, self.layer = nn.Embedding(10, 8), nn.Linear(8, 8)

    def forward(self, tokens):
        return nn.functional.linear(self.layer(self.table(tokens)), self.table.weight)


class TiedAutoencoder(nn.Module):
    """The decoder multiplies by the transposed weight of the encoder, which is another grid for each output channel."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, 4, bias=False)

    def forward(self, x):
        return nn.functional.linear(self.encoder(x), self.encoder.weight.t())


class Expanded(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 4))

    def forward(self, x):
        return torch.bmm(x, self.weight.expand(len(x), -1, -1))


class Vector(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x):
        return x @ self.weight


def at_three_bits(model):
    bc.quantize(model)
    bc.set_bits(model, weights=3, activations=None, backward=None)
    return model.eval()


@pytest.mark.parametrize(("kind", "shape"), [(Expanded, (3, 5, 8)), (Vector, (3, 8))])
def test_weights_in_the_code_of_a_module_need_a_run(kind, shape):
    torch.manual_seed(0)
    plain, x = kind(), torch.randn(shape)
    model = at_three_bits(copy.deepcopy(plain))
    with pytest.raises(ValueError, match="multiplies parameters, or may do so: pass example_inputs"):
        bc.export(model)
    plain.load_state_dict(bc.export(model, x))
    assert torch.equal(plain(x), model(x))


def test_a_weight_of_a_child_in_the_code_of_its_parent_needs_a_run():
    model, tokens = at_three_bits(TiedHead()), torch.tensor([[1, 2]])
    with pytest.raises(ValueError, match="multiplies parameters, or may do so: pass example_inputs"):
        bc.export(model)
    with pytest.warns(UserWarning, match="on the grid for all uses: table.weight and the table of an embedding"):
        exported = bc.export(model, tokens)
    assert all(len(row.unique()) <= 2**3 for row in exported["table.weight"])


def test_one_tensor_on_two_grids_is_refused():
    model = at_three_bits(TiedAutoencoder())
    with pytest.raises(ValueError, match="is also used on another grid, and one tensor cannot hold both"):
        bc.export(model, torch.randn(2, 8))
