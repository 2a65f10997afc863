"""Products in methods besides ``forward``, and names of user code that bitcycle uses, too."""

import copy
import pickle
import warnings

import pytest
import torch
from torch import nn

import bitcycle as bc
from bitcycle.nn.attention import QuantizedMultiheadAttention
from bitcycle.nn.functional_ops import FunctionalOps, public_methods
from bitcycle.nn.functions.sites import DiscoveredSites
from bitcycle.nn.linear import QuantizedLinear
from tests.nn.reference import Plain


class Encoder(nn.Module):
    """A model that is trained by its methods; its forward multiplies nothing itself."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.projection = nn.Parameter(torch.randn(4, 3))

    def encode(self, x):
        """Project the features."""
        return self.layer(x) @ self.projection

    def score(self, x, y):
        return self.encode(x) @ self.encode(y).mT

    def forward(self, x):
        return self.layer(x)


class Table(nn.Embedding):
    """Embeddings that are the weights of the last layer, too."""

    def attend(self, x):
        return x @ self.weight.T


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = Table(10, 4)

    def forward(self, tokens):
        return self.table.attend(self.table(tokens))


class Transposed(nn.Linear):
    """A layer that is used in both directions."""

    def back(self, x):
        return nn.functional.linear(x, self.weight.t())


def converted(module, **bits):
    bc.set_bits(bc.quantize(module, bc.Recipe.paper(gradients="nearest")), **(bits or {"forward": 3, "backward": 6}))
    return module


def product(a, b):
    """The product of two matrices at 3 bits."""
    plain = Plain(3, None)
    return plain.operand(a) @ plain.operand(b, 0)


def names(model):
    return [row.name for row in bc.summary(model).sites]


def test_a_method_that_is_called_from_outside_computes_at_sites():
    model, x = Encoder(), torch.randn(5, 4)
    expected = product(Plain(3, None).linear(x, model.layer.weight, model.layer.bias), model.projection)
    converted(model)
    torch.testing.assert_close(model.encode(x), expected)
    assert names(model) == [":encode.matmul", "layer"]


def test_a_method_that_forward_calls_is_part_of_forward():
    class Pair(Encoder):
        def forward(self, x):
            return self.encode(x) @ self.encode(x).mT

    model, x = converted(Pair()), torch.randn(5, 4)
    model(x)
    assert names(model) == [":matmul", ":matmul#2", ":matmul#3", "layer"]
    model.score(x, x)
    assert names(model)[3:-1] == [":score.matmul", ":score.matmul#2", ":score.matmul#3"]


def test_a_method_that_calls_the_model_leaves_its_products_to_forward():
    class Loss(nn.Module):
        def forward(self, x):
            return x @ x.mT

        def loss(self, x):
            return self(x) @ x

    model, x = converted(Loss()), torch.randn(4, 4)
    model.loss(x)
    assert sorted(names(model)) == [":loss.matmul", ":matmul"]


@pytest.mark.parametrize("model", [LanguageModel(), nn.Sequential(LanguageModel())])
def test_tied_embeddings(model):
    converted(model)
    model(torch.tensor([[1, 2, 3]]))
    (name,) = names(model)
    assert name.endswith("table:attend.matmul")
    assert [row.reason for row in bc.summary(model).skipped] == [
        "embeddings stay in full precision unless Recipe(embeddings=True)"
    ]


def test_a_layer_with_a_method_of_its_own():
    layer, x = Transposed(4, 3), torch.randn(5, 3)
    plain = Plain(3, None)
    expected = plain.linear(plain.linear(x, layer.weight.t(), None), layer.weight, layer.bias)
    converted(layer)
    torch.testing.assert_close(layer(layer.back(x)), expected)
    assert sorted(names(layer)) == ["", ":back.linear"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_method_as_one_compiled_graph():
    model, x = converted(Encoder()), torch.randn(5, 4)
    expected = model.encode(x)
    torch.testing.assert_close(torch.compile(model.encode, fullgraph=True, backend="aot_eager")(x), expected)


def test_full_precision_copies_pickles_and_restore():
    model, x = Encoder(), torch.randn(5, 4)
    expected = model.encode(x)
    bc.quantize(model, bc.Recipe.paper())
    assert torch.equal(model.encode(x), expected)
    bc.set_bits(model, forward=3, backward=6)
    low = model.encode(x)
    assert torch.equal(copy.deepcopy(model).encode(x), low)
    assert torch.equal(pickle.loads(pickle.dumps(model)).encode(x), low)
    assert model.encode.__doc__ == "Project the features."
    bc.restore(model)
    assert type(model).encode is Encoder.encode
    assert torch.equal(model.encode(x), expected)


def test_a_method_can_be_kept():
    model, x = bc.quantize(Encoder(), bc.Recipe.paper(), keep=["*:encode", "layer"]), torch.randn(5, 4)
    expected = model.encode(x)
    bc.set_bits(model, forward=2, backward=4)
    assert torch.equal(model.encode(x), expected)


def test_a_method_of_a_kept_module_stays_float():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = Encoder()

        def forward(self, x):
            y = self.encoder.encode(x)
            return y @ y.mT

    model, x = Outer(), torch.randn(5, 4)
    y = model.encoder.encode(x)
    bc.set_bits(bc.quantize(model, bc.Recipe.paper(), keep="encoder"), forward=3, backward=6)
    torch.testing.assert_close(model(x), product(y, y.mT))
    assert names(model) == [":matmul"]


@pytest.fixture
def lightning():
    """Loading it takes seconds, which is not the time of a test."""
    return pytest.importorskip("lightning")


def test_methods_that_a_framework_calls_are_not_wrapped(lightning):
    class Lit(lightning.LightningModule):
        def training_step(self, batch):
            return (batch @ batch.mT).sum()

        def similarity(self, x):
            return x @ x.mT

        def _private(self, x):
            return x @ x.mT

        @staticmethod
        def static(x):
            return x @ x.mT

    assert public_methods(Lit) == ("similarity",)


def test_an_enclosing_module_does_not_see_products_in_full_precision():
    """Else its own products would be taken for others, because sites are numbered in the order of calls."""

    class Inner(nn.Module):
        def forward(self, x):
            return x @ x.mT

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner(x) @ x

    x = torch.randn(4, 4)
    model = bc.quantize(Outer(), bc.Recipe.paper(), example_inputs=x)
    bc.set_bits(model, forward=3, backward=6, where=":matmul")
    torch.testing.assert_close(model(x), product(x @ x.mT, x))
    assert names(model) == [":matmul", "inner:matmul"]


OURS = sorted(
    name
    for name in {
        *(name for mixin in (FunctionalOps, QuantizedLinear, QuantizedMultiheadAttention) for name in dir(mixin)),
        *dir(DiscoveredSites),
    }
    - {*dir(nn.Module())}
    if not name.startswith("__")
)


@pytest.mark.parametrize("name", OURS)
def test_names_of_user_code_are_not_hidden(name):
    """Neither a method nor a child module of a name that bitcycle's own classes use, in a kept module too."""

    def method(self, x):
        return 2 * x

    class WithMethod(nn.Module):
        def forward(self, x):
            return getattr(self, name)(x @ x.mT)

    class WithChild(nn.Module):
        def __init__(self):
            super().__init__()
            setattr(self, name, nn.Tanh())

        def forward(self, x):
            return getattr(self, name)(x @ x.mT)

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.kept = WithChild()

        def forward(self, x):
            return self.kept(x) @ x

    setattr(WithMethod, name, method)
    x = torch.randn(4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        models = [converted(nn.Sequential(kind())) for kind in (WithMethod, WithChild)]
        torch.testing.assert_close(models[0](x), 2 * product(x, x.mT))
        torch.testing.assert_close(models[1](x), product(x, x.mT).tanh())
        for model in models:
            model.load_state_dict(copy.deepcopy(model).state_dict())
            assert "Quantized" in repr(model)
            bc.restore(model)
        outer = Outer()
        bc.set_bits(bc.quantize(outer, bc.Recipe.paper(), keep="kept"), forward=3, backward=6)
        torch.testing.assert_close(outer(x), product((x @ x.mT).tanh(), x))


@pytest.mark.parametrize("build", [lambda: nn.Linear(4, 3), lambda: Sub(4, 3)])
def test_names_of_a_layer_that_its_mixin_has(build):
    """Such a layer is converted by its own code."""
    layer, x = build(), torch.randn(5, 4)
    layer.multiply = nn.Tanh()
    expected = Plain(3, None).linear(x, layer.weight, layer.bias)
    converted(layer)
    torch.testing.assert_close(layer(x), expected)
    assert names(layer) == [":linear"]
    assert torch.equal(layer.multiply(x), x.tanh())


class Sub(nn.Linear):
    def round_bias(self):
        return self.bias.round()
