"""ONNX files: what they compute, what they store, and with which kernels onnxruntime runs them."""

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto
from torch import nn

import bitcycle as bc
from bitcycle._export.agreement import feed, open_session
from bitcycle._export.integer_convolutions import quantize_convolutions
from bitcycle._support import extras
from tests.ecosystem.test_with_torch import IMAGES, SEQUENCES, VECTORS, cnn, mlp, transformer
from tests.nn.cases import CASES

# onnxscript and torch's exporter warn about their own internals
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

FAMILIES = [  # the other cases are variants of these
    *("linear", "bilinear", "embedding", "lstm, two layers, both directions", "gru", "lstm cell", "encoder", "einsum"),
    *("attention, other dimensions of key and value", "matmul with a matrix", "scaled dot product", "message passing"),
    *("Conv1D of transformers", "attention of transformers", "conv1d, circular", "conv2d, same", "conv3d"),
    *("transposed conv1d", "transposed conv2d, strided, grouped"),
]


def converted(model, bits, **options):
    bc.quantize(model, **options)
    bc.set_bits(model, evaluate=bits)
    return model


def initialisers(path, kind):
    return [tensor for tensor in onnx.load(path).graph.initializer if tensor.data_type == kind]


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_every_layer_family_is_exact(tmp_path, name):
    case = next(case for case in CASES if case.name == name)
    torch.manual_seed(0)
    inputs = tuple(x.float() if x.is_floating_point() else x for x in case.inputs())
    model = converted(case.build().float(), 4, recipe=case.recipe)
    found = bc.export_onnx(model, inputs, tmp_path / "model.onnx", compare_float=False)
    assert found.argmax == 1
    assert found.relative_difference < 1e-5
    assert not found.deviations


@pytest.mark.slow
@pytest.mark.parametrize(("bits", "kind"), [(3, "UINT4"), (4, "UINT4"), (8, "UINT8"), (11, "UINT16")])
def test_weights_are_integers_with_unchanged_values(tmp_path, bits, kind):
    model = converted(mlp(), bits)
    found = bc.export_onnx(model, VECTORS, tmp_path / "model.onnx")
    assert found.relative_difference < 1e-5
    stored = initialisers(tmp_path / "model.onnx", TensorProto.DataType.Value(kind))
    shapes = {tuple(tensor.dims) for tensor in stored}
    assert {(8, 16), (16, 4)} <= shapes
    state = bc.export(model)
    graph = onnx.load(tmp_path / "model.onnx").graph
    numbers = {tensor.name: onnx.numpy_helper.to_array(tensor).astype(np.float32) for tensor in graph.initializer}
    nodes = {output: node for node in graph.node for output in node.output}
    products = [node for node in graph.node if node.op_type in ("MatMul", "Gemm")]
    for product, key in zip(products, ("0.weight", "2.weight"), strict=True):
        add = nodes[product.input[1]]
        dequantize, zero = nodes[add.input[0]], numbers[add.input[1]]
        codes, scale = (numbers[name] for name in dequantize.input[:2])
        assert codes.min() >= 0
        assert codes.max() == 2**bits - 1
        assert np.array_equal((codes * scale + zero).T, state[key].numpy())


INTEGER_KERNELS = {
    mlp: {"MatMulIntegerToFloat": 2},
    cnn: {"QLinearConv": 2, "MatMulIntegerToFloat": 1},
    transformer: {"MatMulIntegerToFloat": 12},  # three projections, the output, two of the feed-forward block, twice
}


@pytest.mark.slow
@pytest.mark.parametrize("kernels", ["exact", "integer"])
@pytest.mark.parametrize(("make", "x"), [(mlp, VECTORS), (cnn, IMAGES), (transformer, SEQUENCES)])
def test_models(tmp_path, make, x, kernels):
    found = bc.export_onnx(converted(make(), 8), x, tmp_path / "model.onnx", kernels=kernels)
    assert found.argmax == 1
    same_values = kernels == "exact" or make is mlp  # integer convolutions have other grids, attention is not rounded
    assert found.relative_difference < (1e-5 if same_values else 0.01)
    assert found.milliseconds.keys() == {"file", "float file", "torch"}
    assert found.float_size > 0
    assert found.integer_kernels == (INTEGER_KERNELS[make] if kernels == "integer" else {})
    if kernels == "integer" and make is transformer:
        reasons = {deviation.site: deviation.reason for deviation in found.deviations}
        assert "both operands are activations" in reasons["layers.1.self_attn.context"]
        assert reasons.keys() == {f"layers.{i}.self_attn.{name}" for i in (0, 1) for name in ("scores", "context")}
        assert "4 sites such as 'layers.0.self_attn.scores': not rounded" in str(found)


@pytest.mark.slow
def test_a_normalisation_becomes_part_of_the_scales(tmp_path):
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(6)
    norm.running_mean, norm.running_var = torch.randn(6), torch.rand(6) + 0.5
    nn.init.normal_(norm.weight)  # some are negative
    nn.init.normal_(norm.bias)
    plain = nn.Sequential(nn.Conv2d(3, 6, 3), norm, nn.ReLU(), nn.Conv2d(6, 4, 1), nn.Flatten())
    found = bc.export_onnx(converted(plain, 8), IMAGES, tmp_path / "model.onnx", kernels="integer", compare_float=False)
    assert found.relative_difference < 0.03
    assert found.integer_kernels == {"QLinearConv": 2}
    graph = onnx.load(tmp_path / "model.onnx").graph
    assert "BatchNormalization" not in [node.op_type for node in graph.node]
    used = {name for node in graph.node for name in node.input}
    assert {constant.name for constant in graph.initializer} <= used, "onnxruntime warns of constants that nothing uses"


@pytest.mark.slow
def test_a_convolution_whose_result_is_an_output_stays_in_floating_point(tmp_path):
    model = converted(nn.Conv2d(3, 4, 3), 8, recipe=bc.Recipe.paper())
    found = bc.export_onnx(model, IMAGES, tmp_path / "m.onnx", kernels="integer")
    assert [deviation.reason for deviation in found.deviations] == [
        "float kernel: the result is an output of the model"
    ]
    assert quantize_convolutions(tmp_path / "m.onnx", [IMAGES])[0].reason == found.deviations[0].reason


@pytest.mark.slow
@pytest.mark.parametrize("granularity", ["tensor", "row"])
@pytest.mark.parametrize("grid", ["integer", "symmetric"])
def test_calibration_fixes_the_range_of_convolutions(tmp_path, grid, granularity):
    recipe = bc.Recipe(grid=grid, activations=granularity)
    model = converted(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten()), 4, recipe=recipe)
    batches, path = [IMAGES, 2 * IMAGES], tmp_path / "m.onnx"
    found = bc.export_onnx(model, IMAGES, path, calibration=batches, kernels="integer", compare_float=False)
    assert found.integer_kernels == {"QLinearConv": 1}
    reasons = [deviation.reason for deviation in found.deviations]
    assert ("the input has one grid for all samples, for the integer kernel" in reasons) == (granularity == "row")
    session, _ = open_session(path)
    low, high = 2 * float(IMAGES.min()), 2 * float(IMAGES.max())
    ends = (low, high) if grid == "integer" else (-max(-low, high), max(-low, high))
    beyond, clipped = (session.run(None, feed(session, x))[0] for x in (3 * IMAGES, (3 * IMAGES).clamp(*ends)))
    assert np.array_equal(beyond, clipped)


@pytest.mark.slow
def test_dynamic_shapes_and_keyword_arguments(tmp_path):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 4)

        def forward(self, x, factor=None):
            return self.layer(x) if factor is None else self.layer(x) * factor

    model = converted(Scaled(), 8, recipe=bc.Recipe(activations="row"))
    batch = torch.export.Dim.DYNAMIC
    inputs = {"x": VECTORS, "factor": torch.tensor(2.0)}
    path = tmp_path / "model.onnx"
    bc.export_onnx(model, inputs, path, dynamic_shapes={"x": {0: batch}, "factor": None}, compare_float=False)
    found = bc.check_onnx(path, model, [{"x": torch.randn(n, 8), "factor": torch.tensor(0.5)} for n in (2, 7, 30)])
    assert (found.predictions, found.argmax) == (39, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("kernels", ["exact", "integer"])
def test_sites_in_full_precision_and_values_without_a_grid(tmp_path, kernels):
    """Where one output channel has no grid, the others are still on theirs."""
    model = converted(mlp(), 8)
    bc.set_bits(model, evaluate=None, where="0")
    with torch.no_grad():
        model[2].weight[0] = 1e-44  # a range too small to divide
        model[2].weight[0, 0] = 0
    found = bc.export_onnx(model, VECTORS, tmp_path / "model.onnx", kernels=kernels, compare_float=False)
    assert found.relative_difference < 1e-5
    assert found.deviations[-1].site == "2"
    assert "stored in floating point" in found.deviations[-1].reason
    assert not any(len(x.dims) == 2 for x in initialisers(tmp_path / "model.onnx", TensorProto.UINT8))


@pytest.mark.slow
@pytest.mark.parametrize("grid", ["integer", "symmetric"])
@pytest.mark.parametrize("granularity", ["row", "tensor"])
@pytest.mark.parametrize("bits", [2, 3, 5, 8])
def test_integer_products_have_the_values_of_bitcycle(tmp_path, grid, granularity, bits):
    """Constant rows, rows of zeros and rows of very different sizes, with and without a bias."""
    torch.manual_seed(bits)
    model = nn.Sequential(nn.Linear(8, 6, bias=False), nn.Tanh(), nn.Linear(6, 5))
    with torch.no_grad():
        model[2].weight[1] = 0.25
    converted(model, bits, recipe=bc.Recipe(grid=grid, activations=granularity))
    x = torch.randn(4, 7, 8)
    x[0, 0], x[0, 1] = 3.0, 0.0
    x[1] *= 1000
    found = bc.export_onnx(model, x, tmp_path / "model.onnx", kernels="integer", compare_float=False)
    assert found.integer_kernels == {"MatMulIntegerToFloat": 2}
    assert found.relative_difference < 1e-5
    assert not found.deviations


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (nn.Linear(64, 8), torch.randint(0, 2, (16, 64))),
        (nn.Sequential(nn.Conv2d(4, 8, 3), nn.Flatten()), torch.randint(0, 2, (4, 4, 8, 8))),
    ],
)
def test_sums_of_the_largest_codes_do_not_saturate(tmp_path, layer, x):
    """Processors without VNNI add two products of an unsigned and a signed byte in 16 bits: no byte may be signed."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(parameter.sign())
    found = bc.export_onnx(
        converted(layer, 8), x.float(), tmp_path / "model.onnx", kernels="integer", compare_float=False
    )
    assert sum(found.integer_kernels.values()) == 1
    assert found.relative_difference < 0.01
    assert not initialisers(tmp_path / "model.onnx", TensorProto.INT8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "x", "bits"),
    [*((mlp, VECTORS, bits) for bits in (2, 4, 7, 12)), (cnn, IMAGES, 8), (transformer, SEQUENCES, 4)],
)
def test_symmetric_grids_are_exact(tmp_path, make, x, bits):
    """Also where onnxruntime would fuse a weight of signed integers with its product, and round the activations."""
    model = converted(make(), bits, recipe=bc.Recipe(grid="symmetric"))
    found = bc.export_onnx(model, x, tmp_path / "model.onnx", compare_float=False)
    assert found.relative_difference < 1e-5
    kind = TensorProto.INT4 if bits <= 4 else TensorProto.INT8 if bits <= 8 else TensorProto.INT16
    assert initialisers(tmp_path / "model.onnx", kind)
    assert not found.deviations


@pytest.mark.slow
def test_symmetric_convolutions_keep_the_values_of_their_weights(tmp_path):
    model = converted(cnn(), 8, recipe=bc.Recipe(grid="symmetric"))
    found = bc.export_onnx(model, IMAGES, tmp_path / "model.onnx", kernels="integer", compare_float=False)
    assert found.integer_kernels == {"QLinearConv": 2, "MatMulIntegerToFloat": 1}
    assert found.argmax == 1
    assert found.relative_difference < 0.01
    codes = [onnx.numpy_helper.to_array(each) for each in initialisers(tmp_path / "model.onnx", TensorProto.UINT8)]
    weight = next(each for each in codes if each.shape == (8, 3, 3, 3))
    scale = model[0].weight.abs().amax((1, 2, 3), keepdim=True) / 127
    assert np.array_equal(weight, (model[0].weight / scale).round().detach().numpy() + 128)


@pytest.mark.slow
@pytest.mark.parametrize("kernels", ["exact", "integer"])
def test_values_that_are_not_finite_stay_so(tmp_path, kernels):
    model = converted(nn.Linear(8, 4), 8, recipe=bc.Recipe(activations="row"))
    bc.export_onnx(model, VECTORS, tmp_path / "model.onnx", kernels=kernels, compare_float=False)
    session, _ = open_session(tmp_path / "model.onnx")
    x = VECTORS.clone()
    x[0, 3], x[1, 2] = torch.nan, torch.inf
    (found,) = session.run(None, feed(session, x))
    assert not np.isfinite(found[:2]).any()
    assert np.isfinite(found[2:]).all()


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1])
def test_a_convolution_without_a_finite_range_stays_in_floating_point(tmp_path, place):
    model = converted(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sigmoid()), 8)
    batches = [IMAGES, IMAGES]
    batches[place] = torch.full_like(IMAGES, torch.nan)
    found = bc.export_onnx(
        model, IMAGES, tmp_path / "m.onnx", calibration=batches, compare_float=False, kernels="integer"
    )
    assert "float kernel: the range of the result is not finite" in [each.reason for each in found.deviations]


@pytest.mark.slow
def test_the_check_sees_another_model(tmp_path):
    model = converted(mlp(), 8)
    bc.export_onnx(model, VECTORS, tmp_path / "model.onnx", compare_float=False)
    with torch.no_grad():
        model[2].weight.neg_()
    assert bc.check_onnx(tmp_path / "model.onnx", model, [VECTORS]).argmax < 1


@pytest.mark.slow
def test_the_model_is_left_as_it_was(tmp_path):
    model = converted(cnn(), 8).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    bc.export_onnx(model, IMAGES, tmp_path / "model.onnx", kernels="integer")
    assert model.training
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("kernels", ["exact", "integer"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_a_dtype_that_cannot_be_exported_is_refused(tmp_path, dtype, kernels):
    model = converted(nn.Sequential(nn.Linear(8, 4)), 6).to(dtype)
    with pytest.raises(ValueError, match=f"^0 computes in {dtype}, .* with .float"):
        bc.export_onnx(model, torch.randn(2, 8, dtype=dtype), tmp_path / "model.onnx", kernels=kernels)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_file_that_fails_its_check_replaces_no_other(tmp_path, monkeypatch):
    model, path = converted(mlp(), 8), tmp_path / "model.onnx"
    path.write_bytes(b"an earlier file")

    def fail(*_):
        raise RuntimeError("onnxruntime cannot run it")

    monkeypatch.setattr("bitcycle._export.onnx_file.check_onnx", fail)
    with pytest.raises(RuntimeError, match="cannot run it"):
        bc.export_onnx(model, VECTORS, path)
    assert path.read_bytes() == b"an earlier file"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_the_weights_of_a_large_model_come_along(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.onnx._internal.exporter._onnx_program._LARGE_MODEL_THRESHOLD", 0)
    model, path, x = converted(nn.Linear(64, 128), 8), tmp_path / "model.onnx", torch.randn(4, 64)
    found = bc.export_onnx(model, x, path, compare_float=False)
    assert (tmp_path / "model.onnx.data").stat().st_size >= 64 * 128
    assert bc.check_onnx(path, model, [x]).argmax == 1
    assert found.size == sum(part.stat().st_size for part in tmp_path.iterdir())


@pytest.mark.slow
def test_misuse(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    with pytest.raises(ValueError, match="convert it first with bc.quantize"):
        bc.export_onnx(mlp(), VECTORS, path)
    with pytest.raises(ValueError, match="evaluation bits of the model were never set"):
        bc.export_onnx(bc.quantize(mlp()), VECTORS, path)
    model = converted(mlp(), 8)
    with pytest.raises(ValueError, match="kernels must be 'exact' or 'integer', got 'fast'"):
        bc.export_onnx(model, VECTORS, path, kernels="fast")
    with pytest.raises(ValueError, match="calibration has no batch"):
        bc.export_onnx(model, VECTORS, path, calibration=[], kernels="integer")
    with pytest.raises(ValueError, match="exact kernels have no fixed ranges"):
        bc.export_onnx(model, VECTORS, path, calibration=[VECTORS])
    bc.export_onnx(model, VECTORS, path, compare_float=False)
    with pytest.raises(ValueError, match="nothing to compare"):
        bc.check_onnx(path, model, [])
    export_onnx = bc.export_onnx  # looked up by an import
    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(extras.MissingExtraError, match=r"ONNX needs onnx: pip install 'bitcycle\[export\]'"):
        export_onnx(model, VECTORS, path)


def missing(name):
    raise ModuleNotFoundError(name=name)
