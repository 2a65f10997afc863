"""Counted multiply-accumulates against hand-computed and published ones."""

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn
from torch._higher_order_ops import while_loop
from torch.nn.attention.flex_attention import flex_attention
from torch.utils._python_dispatch import TorchDispatchMode

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import torch_geometric.nn as pyg

import bitcycle as bc
from bitcycle import Meter
from bitcycle.lab.models.catalogue import CATALOGUE, build
from tests.nn.cases import CASES

EDGES = torch.tensor([[0, 1, 2, 3, 4, 0, 2], [1, 2, 3, 4, 0, 3, 0]])

ENCODER_LAYER = 2 * 4 * 4 * 64 + 2 * 2 * 4 * 4 * 8 + 2 * 4 * 2 * 8 * 16
BY_HAND = {  # multiply-accumulates of a forward pass of each case, worked out by hand
    "linear": 3 * 5 * 7,
    "linear, three dimensions, no bias": 6 * 5 * 7,
    "linear with cross entropy": 3 * 5 * 7,
    "bilinear": 3 * 6 * (4 * 5 + 5),
    "embedding": 0,
    "lstm": 6 * 3 * 20 * (4 + 5),
    "lstm, two layers, both directions": 6 * 3 * 20 * 2 * ((4 + 5) + (10 + 5)),
    "gru": 6 * 3 * 15 * 2 * ((4 + 5) + (10 + 5)),
    "rnn": 6 * 3 * 5 * (4 + 5),
    "lstm cell": 3 * 20 * (4 + 5),
    "gru cell": 3 * 15 * (4 + 5),
    "rnn cell": 3 * 5 * (4 + 5),
    "attention": 2 * (4 * 64 + 2 * 5 * 64 + 4 * 64) + 2 * (4 * 5 * 8) * 2,
    "attention, other dimensions of key and value": 2 * (4 * 64 + 5 * 8 * (3 + 6) + 4 * 64) + 2 * (4 * 5 * 8) * 2,
    "encoder layer": ENCODER_LAYER,
    "encoder": 2 * ENCODER_LAYER,
    "matmul": 2 * 4 * 3 * 5,
    "matmul with a matrix": 2 * 4 * 3 * 5,
    "scaled dot product": 2 * 3 * 4 * 5 * (8 + 6),
    "einsum": 2 * 4 * 3 * 5,
    "graph linear": 6 * 5 * 7,
    "message passing": 2 * 6 * 5 * 7 + 8 * 5,
    "Conv1D of transformers": 6 * 5 * 7,
    "attention of transformers": 2 * 3 * 4 * 64 + 2 * 2 * 4 * 4 * 8,
}
for d in (1, 2, 3):  # images of 4 channels and 6 pixels a side
    BY_HAND |= {
        f"conv{d}d": 2 * 6 * 4**d * 4 * 3**d,
        f"conv{d}d, strided, dilated, grouped": 2 * 6 * 3**d * 2 * 2**d,
        f"conv{d}d, circular": 2 * 6 * 6**d * 4 * 3**d,
        f"conv{d}d, same": 2 * 6 * 6**d * 4 * 3**d,
        f"conv{d}d, depthwise": 2 * 4 * 4**d * 3**d,
        f"transposed conv{d}d": 2 * 4 * 6**d * 6 * 3**d,
        f"transposed conv{d}d, strided, grouped": 2 * 4 * 6**d * 3 * 3**d,
    }
FURTHER = {  # layer, inputs, multiply-accumulates
    "lstm, projected": (lambda: nn.LSTM(4, 5, proj_size=2), (torch.zeros(6, 3, 4),), 6 * 3 * (20 * (4 + 2) + 5 * 2)),
    "gcn, with self-loops": (lambda: pyg.GCNConv(5, 7), (torch.zeros(5, 5), EDGES), 5 * 5 * 7 + (7 + 5) * 7),
}
LAYERS = {case.name: (lambda case=case: case.build().double(), case.inputs(), BY_HAND[case.name]) for case in CASES}


@pytest.mark.parametrize(("make", "inputs", "macs"), [*LAYERS.values(), *FURTHER.values()], ids=[*LAYERS, *FURTHER])
@pytest.mark.filterwarnings("ignore:.*enable_nested_tensor.*:UserWarning")
def test_every_registered_layer_is_worked_out_by_hand(make, inputs, macs):
    """Every registered layer has a case: tests/nn/test_contract.py."""
    layer = make()
    assert bc.cost(layer, inputs).macs == macs
    bc.quantize(layer)
    assert bc.cost(layer, inputs).macs == macs
    layer.eval()
    assert bc.cost(layer, inputs).macs == macs


class ThreeOperands(nn.Module):
    def __init__(self, function, *shape):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(shape))
        self.function = function

    def forward(self, x, y):
        return self.function(x, y, self.weight)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Bilinear(4, 4, 3, bias=False),
        lambda: ThreeOperands(lambda x, y, w: nn.functional.bilinear(x, y, w), 3, 4, 4),
        lambda: ThreeOperands(lambda x, y, w: torch.einsum("bi,bj,oij->bo", x, y, w), 3, 4, 4),
        lambda: ThreeOperands(lambda x, y, w: torch.linalg.multi_dot([x, w, y]), 4, 4),
    ],
)
@pytest.mark.parametrize("converted", [False, True])
def test_gradients_of_any_of_three_operands_are_counted(make, converted):
    for needed in range(8):
        model = make()
        x, y = (torch.zeros(4, 4, requires_grad=bool(needed & bit)) for bit in (1, 2))
        next(model.parameters()).requires_grad_(bool(needed & 4))
        if converted:
            bc.quantize(model)
        c = bc.cost(model, (x, y))
        gradients = sum(row.input_gradient + row.weight_gradient for row in c.rows)
        assert gradients == c.macs * min(2, needed.bit_count())


class BackwardProducts(TorchDispatchMode):
    """Adds up the multiply-accumulates of the operations that run inside of it."""

    def __init__(self):
        super().__init__()
        self.macs = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2]
        if name in ("mm", "bmm"):
            self.macs += out.numel() * args[0].shape[-1]
        elif name == "convolution_backward":
            grad_output, _, weight, *_, mask = args
            self.macs += sum(mask[:2]) * grad_output.numel() * weight.shape[1:].numel()
        return out


@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        (lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 6)), (torch.randn(3, 4),)),
        (
            lambda: nn.Sequential(nn.Conv2d(3, 4, 3, 2, groups=1), nn.ReLU(), nn.Conv2d(4, 6, 3, groups=2)),
            (torch.randn(2, 3, 9, 9),),
        ),
        (lambda: nn.LSTM(4, 5, 2, bidirectional=True), (torch.randn(6, 3, 4),)),
        (lambda: nn.GRU(4, 5), (torch.randn(6, 3, 4),)),
        (lambda: nn.MultiheadAttention(8, 2), (torch.randn(4, 2, 8), *[torch.randn(5, 2, 8, requires_grad=True)] * 2)),
        (lambda: nn.TransformerEncoderLayer(8, 2, 16), (torch.randn(4, 2, 8),)),
        (lambda: pyg.GCNConv(5, 7), (torch.randn(5, 5), EDGES)),
    ],
)
def test_gradient_products_are_those_that_a_backward_pass_runs(make, inputs):
    model = make()
    rows = [row for row in bc.cost(model, inputs).rows if row.product != "Aggregation"]
    bc.quantize(model, bc.Recipe.paper())
    bc.set_bits(model, forward=8, backward=8)
    out = model(*inputs)
    parts = out if isinstance(out, tuple) else (out,)
    with BackwardProducts() as ran:
        parts[0].sum().backward()
    computed_again = sum(row.macs for row in rows if row.name.endswith("scores"))  # the weights of attention
    assert ran.macs == sum(row.input_gradient + row.weight_gradient for row in rows) + computed_again


def test_the_first_layer_has_no_input_gradient_and_a_frozen_one_no_weight_gradient():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model[2].requires_grad_(False)
    rows = bc.cost(model, torch.zeros(2, 4)).rows
    assert [(row.input_gradient, row.weight_gradient) for row in rows] == [(0, 32), (32, 0), (32, 32)]


PUBLISHED = {  # millions of multiply-accumulates for one image
    "cifar-resnet-20": 40.8,  # He et al. 2016; model zoos of CIFAR-10
    "imagenet-resnet-18": 1814,  # torchvision's table of models
    "imagenet-resnet-34": 3664,
    "imagenet-resnet-50": 4089,
    "mobilenet-v2-imagenet": 301,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_counts(name):
    model, inputs = build(name)
    assert bc.cost(model, inputs).macs / 1e6 == pytest.approx(PUBLISHED[name], rel=0.01)


def test_the_graph_network_of_the_paper():
    model, inputs = build("gcn-arxiv")
    c = bc.cost(model, inputs)
    assert c.layer_macs == 58_958_458_880
    assert c.authors_operations == 59_652_087_808
    giga = 32**2 * 10**9
    assert c.training("static:8", steps=500, backward_bits=8, convention="authors") / giga == pytest.approx(
        5592, abs=0.5
    )
    assert c.training("static:6", steps=500, backward_bits=6, convention="authors") / giga == pytest.approx(
        3146, abs=0.5
    )
    assert c.training("static:8", steps=500, backward_bits=8, convention="paper") / giga == pytest.approx(5527, abs=0.5)
    assert sum(row.macs for row in c.rows if row.product == "Aggregation") == (2 * 1_166_243 + 169_343) * (
        512 + 512 + 40
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", CATALOGUE)
def test_built_in_models_are_counted_whole(name):
    model, inputs = build(name)
    c = bc.cost(model, inputs)
    assert not c.uncounted
    assert all(parameter.is_meta for parameter in model.parameters())


# What stays in full precision, and what no rule knows


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 5))

    def forward(self, x):
        return x @ self.weight


class Hidden(nn.Module):
    def forward(self, x):
        return torch.cdist(x, x, p=1.0)


@pytest.mark.parametrize("kept", [False, True])
def test_functional_products_count_at_their_sites(kept):
    model = nn.Sequential(nn.Linear(4, 4), Own())
    c = bc.cost(bc.quantize(model, keep="1" if kept else None), torch.zeros(3, 4))
    assert [(row.name, row.macs, row.quantized) for row in c.rows] == [("0", 48, True), ("1:matmul", 60, not kept)]
    assert c.rows[1].input_gradient == c.rows[1].weight_gradient == 60
    own = 3 * 60 * 1024 if kept else 60 * (4 * 4 + 2 * 8 * 4)
    assert c.bitops(forward=4, backward=8) == 48 * 4 * 4 + 48 * 8 * 4 + own


def test_what_no_rule_knows_is_named():
    c = bc.cost(Hidden(), torch.zeros(2, 4))
    assert c.uncounted == ("_cdist_forward in the model (Hidden)",)
    assert "NOT counted: _cdist_forward" in str(c)
    gat = bc.cost(pyg.GATConv(5, 7), (torch.zeros(5, 5), EDGES))
    assert gat.uncounted == ("message weights att_src, att_dst of the model (GATConv)",)
    part = bc.cost(nn.Sequential(nn.Linear(4, 4), Hidden()), torch.zeros(40, 4)).where("0")
    assert len(part.uncounted) == 1  # torch computes distances of many rows by another operation


SPARSE = torch.eye(20, 30).to_sparse()  # stores 20 values
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
    ROWS = SPARSE.to_sparse_csr()
TWICE = torch.cat([torch.eye(30), torch.eye(30)], 1).to_sparse()  # two in each row


class Product(nn.Module):
    """A function of two operands, in code that conversion does not see."""

    def __init__(self, function, other):
        super().__init__()
        self.function, self.other = function, other

    def forward(self, x):
        return self.function(x, self.other)


IN_TORCH = {  # function, both operands, multiply-accumulates worked out by hand
    "sparse @ dense": (lambda x, s: s @ x, torch.zeros(30, 7), SPARSE, 20 * 7),
    "rows @ dense": (lambda x, s: s @ x, torch.zeros(30, 7), ROWS, 20 * 7),
    "dense @ sparse": (torch.mm, torch.zeros(7, 20), SPARSE, 7 * 20),
    "spmm": (lambda x, s: torch.spmm(s, x), torch.zeros(30, 7), SPARSE, 20 * 7),
    "torch.sparse.mm": (lambda x, s: torch.sparse.mm(s, x), torch.zeros(30, 7), SPARSE, 20 * 7),
    "sparse @ vector": (lambda x, s: s.mv(x), torch.zeros(30), SPARSE, 20),
    "sparse batches": (lambda x, s: s.bmm(x), torch.zeros(2, 30, 7), torch.stack([SPARSE, SPARSE]), 2 * 20 * 7),
    "sparse @ sparse": (lambda x, s: torch.sparse.mm(SPARSE, s).to_dense() * x, torch.zeros(()), TWICE, 20 * 2),
    "sampled": (
        lambda x, s: torch.sparse.sampled_addmm(s, x, torch.zeros(9, 30)).to_dense(),
        torch.zeros(20, 9),
        ROWS,
        20 * 9,
    ),
    "attention": (
        lambda x, none: F.scaled_dot_product_attention(x, x, x),
        torch.zeros(2, 3, 5, 8),
        None,
        2 * 2 * 3 * 5 * 5 * 8,
    ),
    "conv_tbc": (
        lambda x, w: torch.conv_tbc(x, w, torch.zeros(4)),
        torch.zeros(5, 2, 3),
        torch.zeros(3, 3, 4),
        3 * 2 * 4 * 9,
    ),
    "addmm and activation": (
        lambda x, w: torch._addmm_activation(torch.zeros(4), x, w),
        torch.zeros(2, 3),
        torch.zeros(3, 4),
        2 * 3 * 4,
    ),
}


@pytest.mark.parametrize("name", IN_TORCH)
def test_products_of_torch_are_worked_out_by_hand(name):
    function, x, other, macs = IN_TORCH[name]
    c = bc.cost(Product(function, other), x)
    assert c.macs == macs
    assert not c.uncounted


class Teaching(nn.Module):
    """A teacher without gradients and a student."""

    def __init__(self, context):
        super().__init__()
        self.teacher, self.student, self.context = nn.Conv1d(4, 4, 1), nn.Conv1d(4, 4, 1), context
        self.weight = nn.Parameter(torch.zeros(4, 4))

    def forward(self, x):
        x = x * torch.ones(1, requires_grad=True)
        with self.context():
            target = torch.einsum("bit,io->bot", self.teacher(x), self.weight)
        return self.student(x) - target


@pytest.mark.parametrize("convert", [False, True])
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_products_without_gradients_have_no_gradient_products(context, convert):
    model = Teaching(context)
    c = bc.cost(bc.quantize(model) if convert else model, torch.zeros(2, 4, 3))
    counts = {row.name: (row.macs, row.input_gradient, row.weight_gradient) for row in c.rows}
    assert sorted(counts.values()) == [(96, 0, 0), (96, 0, 0), (96, 96, 96)]
    assert counts["student"] == (96, 96, 96)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_products_have_their_gradient_products(reentrant):
    layer = nn.Linear(4, 4)

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return torch.utils.checkpoint.checkpoint(self.layer, x, use_reentrant=reentrant)

    (row,) = bc.cost(Checkpointed(), torch.zeros(2, 4, requires_grad=True)).rows
    assert (row.macs, row.input_gradient, row.weight_gradient) == (32, 32, 32)


def test_kept_layers_are_full_precision():
    model = bc.quantize(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), keep="1")
    c = bc.cost(model, torch.zeros(1, 4))
    assert [row.quantized for row in c.rows] == [True, False]
    assert c.bitops(forward=2, backward=8) == 16 * 4 + 16 * 16 + 3 * 16 * 1024
    attention = bc.quantize(nn.MultiheadAttention(4, 1), keep="scores")
    rows = {row.name: row.quantized for row in bc.cost(attention, (torch.zeros(2, 1, 4),) * 3).rows}
    assert rows["scores"] is False
    assert rows["context"] is True


def test_aggregation_full_and_quantised():
    x = torch.zeros(5, 5)
    full, quantized = (
        bc.cost(bc.quantize(pyg.SAGEConv(5, 7), bc.Recipe(aggregation=kind)), (x, EDGES)).rows[0]
        for kind in ("full", "quantized")
    )
    assert full.product == quantized.product == "Aggregation"
    assert full.price((4, 4, 8)) == 35 * 1024
    assert quantized.price((4, 4, 8)) == 35 * 4 * 32  # edge weights stay in full precision


# Counting disturbs nothing


def test_counting_leaves_no_trace():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.Flatten(), nn.Linear(144, 2))
    for converted in (False, True):
        if converted:
            bc.quantize(model, keep="4")
            bc.set_bits(model, forward=3, backward=5)
        before, attributes = copy.deepcopy(model.state_dict()), [set(vars(m)) for m in model.modules()]
        hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]
        classes, random = [type(m) for m in model.modules()], torch.get_rng_state()
        bc.cost(model, torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1)))
        assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), before.values(), strict=True))
        assert torch.equal(torch.get_rng_state(), random)
        assert [type(m) for m in model.modules()] == classes
        assert [set(vars(m)) for m in model.modules()] == attributes
        assert [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()] == hooks
        assert all(p.grad is None for p in model.parameters())
    assert bc.summary(model).sites[0].forward == 3


class Flex(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        h = self.layer(x).unsqueeze(1)
        return flex_attention(h, h, h)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8, 8))

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda a: a @ self.w, lambda a: (a @ self.w) @ self.w, (x,))


class Loop(Branches):
    def forward(self, x):
        w = self.w.detach()
        return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a @ w), (torch.tensor(0), x))[1]


@torch.compile(backend="eager", fullgraph=True)
def compiled_scores(x):
    return x @ x.mT


class CompiledPart(nn.Module):
    def forward(self, x):
        return compiled_scores(x)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_higher_order_operators_are_counted_in_full_precision():
    x = torch.ones(2, 5, 8)
    model = Flex().requires_grad_(False)  # torch cannot differentiate it on a CPU
    with pytest.warns(UserWarning, match=r"Flex: runs flex_attention outside any site"):
        bc.quantize(model, example_inputs=x)
    bc.set_bits(model, forward=3)
    rows = {row.product: row for row in bc.cost(model, x).rows}
    assert (rows["flex_attention"].macs, rows["flex_attention"].quantized) == (2 * 2 * 5 * 5 * 8, False)
    assert "runs flex_attention outside any site" in str(bc.summary(model, x))
    model = Branches()
    with pytest.warns(UserWarning, match="Branches: runs mm outside any site"):
        bc.quantize(model, example_inputs=x)
    for inputs, products in ((x, 1), (-x, 2)):
        c = bc.cost(model, inputs)
        macs = products * 2 * 5 * 8 * 8
        assert (c.macs, c.rows[0].weight_gradient, c.rows[0].quantized) == (macs, macs, False)
        assert "runs mm outside any site" in str(bc.summary(model, inputs))
    c = bc.cost(Loop(), x)
    assert (c.macs, c.uncounted) == (0, ("while_loop in the model (Loop)",))


def test_what_is_compiled_as_a_whole_is_counted():
    """Under a tracer, torch does not compile it, and raises an error because of that."""
    model, x = CompiledPart(), torch.ones(2, 5, 8)
    assert bc.cost(model, x).macs == 2 * 5 * 5 * 8
    bc.quantize(model, example_inputs=x)
    assert [row.name for row in bc.summary(model, x).sites] == [":matmul"]


class Stateful(nn.Module):
    """Keeps state in attributes of every kind."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.h, self.calls, self.log, self.by_name = None, 0, [], {"seen": []}
        self.memory = torch.zeros(4)
        self.register_buffer("n", torch.zeros(()))
        self.register_buffer("late_buffer", None)

    def forward(self, x):
        y = self.layer(x if self.h is None else x + self.h)
        self.h = y.mean(0).detach()
        self.calls += 1
        self.log.append(float(y.detach().sum()))
        self.by_name["seen"].append(len(x))
        self.memory += 1
        self.late, self.late_buffer = True, x.detach()
        self.n = self.n + 1  # another tensor; it must go on agreeing with the calls
        return y


@pytest.mark.parametrize(
    "extra_run",
    [
        lambda model, x: bc.cost(model, x),
        lambda model, x: bc.summary(model, x),
        lambda model, x: bc.restore(bc.quantize(model, example_inputs=x)),
    ],
    ids=["cost", "summary", "example_inputs"],
)
def test_attributes_and_buffers_are_restored(extra_run):
    model, x = Stateful(), torch.randn(2, 4)
    memory, log, n = model.memory, model.log, model.n
    extra_run(model, x)
    assert model.n is n
    assert (model.late_buffer, float(n)) == (None, 0)
    assert (model.h, model.calls, model.by_name) == (None, 0, {"seen": []})
    assert model.log is log
    assert log == []
    assert model.memory is memory
    assert not memory.any()
    assert not hasattr(model, "late")


def test_a_graph_survives_an_extra_run():
    """An attribute of the model may belong to a graph whose backward pass is still to come."""
    model, x = Stateful(), torch.randn(2, 4)
    model.kept = model.layer(x).exp()
    loss = model.kept.square().sum()
    bc.cost(model, x)
    loss.backward()


class Cache:
    """A cache that the model extends."""

    def __init__(self):
        self.keys = []


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, cache):
        x.mul_(2)
        cache.keys.append(self.layer(x))
        return torch.stack(cache.keys).sum(0)


def test_inputs_that_the_model_changes_are_copied():
    model = bc.quantize(Cached())
    bc.set_bits(model, forward=4, backward=8)
    x, cache = torch.ones(2, 4), Cache()
    cache.keys.append(model.layer(x))  # a tensor with a gradient function, which torch does not copy deeply
    bc.cost(model, (x, cache))
    bc.summary(model, (x, cache))
    assert (len(cache.keys), float(x.max())) == (1, 1.0)
    with Meter(model) as meter:
        model(x, cache).sum().backward()
    assert (len(cache.keys), float(x.max())) == (2, 2.0)
    assert meter.passes == 1


def test_inputs_that_cannot_be_copied_are_passed_on():
    class Uncopyable(Cache):
        def __deepcopy__(self, memo):
            raise TypeError("not this one")

    cache = Uncopyable()
    assert bc.cost(Cached(), (torch.ones(2, 4), cache)).macs == 2 * 4 * 4
    assert len(cache.keys) == 1


class BuiltLate(nn.Module):
    """Creates its layers when it first runs."""

    def __init__(self, size=4):
        super().__init__()
        self.size, self.head, self.layers, self.built = size, None, nn.ModuleList(), False

    def forward(self, x):
        if not self.built:
            self.head = nn.Linear(self.size, 2)
            self.layers.append(nn.Linear(self.size, self.size))
            self.built = True
        return self.head(self.layers[0](x))


def test_parameters_that_the_extra_run_creates_are_kept():
    model, x = BuiltLate(), torch.zeros(2, 4)
    bc.summary(model, x)
    built = list(model.parameters())
    model(x)
    assert len(built) == 4
    assert all(a is b for a, b in zip(built, model.parameters(), strict=True))
    lazy = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d(affine=False))
    bc.cost(lazy[:1], torch.randn(2, 4))
    bc.cost(lazy, torch.randn(2, 4))
    assert [type(layer) for layer in lazy] == [nn.Linear, nn.BatchNorm1d]
    assert lazy[1].num_features == 3
    assert lazy(torch.randn(2, 4)).shape == (2, 3)


def test_a_model_that_fails_is_restored():
    model = nn.Sequential(nn.Linear(4, 4))
    with pytest.raises(RuntimeError):
        bc.cost(model, torch.zeros(2, 5))
    assert type(model[0]) is nn.Linear
    assert "bitcycle" not in vars(model[0])


def test_misuse():
    c = bc.cost(nn.Linear(4, 4), torch.zeros(2, 4))
    with pytest.raises(ValueError, match="did you mean 'paper'"):
        c.training("CR:3-8", steps=10, convention="papers")
    with pytest.raises(ValueError, match="steps must be 1 or more"):
        c.training("CR:3-8", steps=0)
    with pytest.raises(ValueError, match="unknown device"):
        c.time_ratio("CR:3-8", steps=10, device="abacus")
    with pytest.raises(ValueError, match="no product matches"):
        c.where("layer9.*")


class Tied(nn.Module):
    """Multiplies by the weight of an embedding."""

    def __init__(self):
        super().__init__()
        self.embedding, self.layer = nn.Embedding(10, 8), nn.Linear(8, 8)

    def forward(self, ids):
        return self.layer(self.embedding(ids)) @ self.embedding.weight.mT


@pytest.mark.parametrize("rules", [{"keep": "embedding"}, {"keep": "layer"}, {"keep": ":matmul"}, {"where": "layer"}])
def test_counting_leaves_kept_layers_as_they_were(rules):
    def state():
        return repr(model), {name: type(module) for name, module in model.named_modules()}

    model, ids = Tied(), torch.tensor([[1, 2]])
    original = state()
    bc.quantize(model, **rules)
    bc.set_bits(model, forward=4, backward=8)
    model(ids)  # now its sites are known
    before = state()
    bc.cost(model, ids)
    bc.cost(model, ids)
    with Meter(model):
        model(ids)
    assert state() == before
    bc.restore(model)
    assert state() == original


class OwnMessages(pyg.MessagePassing):
    """Message passing that multiplies in its own code."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 7))

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x @ self.weight)


def test_a_float_model_costs_what_it_costs_once_converted():
    model, inputs = OwnMessages(), (torch.zeros(5, 5), EDGES)
    rows = bc.cost(model, inputs).rows
    assert [(row.product, row.quantized) for row in rows] == [("Matmul", True), ("Aggregation", False)]
    assert rows == bc.cost(bc.quantize(model), inputs).rows
