"""One or more cases for every registered layer: how to build it, its inputs, and a plain reference computation."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import torch_geometric.nn as pyg
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertSelfAttention
    from transformers.pytorch_utils import Conv1D

import bitcycle as bc


@dataclass
class Case:
    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Any, ...]]
    reference: Callable[..., Any] | None
    recipe: bc.Recipe = field(default_factory=bc.Recipe.paper)
    batched: bool = True
    """Whether the first dimension of the first input is a batch that may be empty."""


class Calls(nn.Module):
    """Code of a user: a module whose forward is one function of its inputs."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *operands, **options):
        return self.function(*operands, **options)


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def linear(layer, plain, x):
    return plain.linear(x, layer.weight, layer.bias)


def linear_cross_entropy(layer, plain, x, target):
    return F.cross_entropy(plain.linear(x, layer.linear.weight, layer.linear.bias), target, reduction="none")


def bilinear(layer, plain, x1, x2):
    weight = plain.weight(layer.weight)
    return plain.site(F.bilinear(plain.operand(x1), plain.operand(x2), weight, layer.bias))


def embedding(layer, plain, x):
    return plain.site(plain.row(layer.weight[x], bits="weights"))


def convolution(layer, plain, x):
    d = len(layer.stride)
    function = [F.conv1d, F.conv2d, F.conv3d][d - 1]
    x, padding = plain.operand(x), layer.padding
    if layer.padding_mode != "zeros":
        x, padding = F.pad(x, layer._reversed_padding_repeated_twice, mode=layer.padding_mode), 0
    weight = plain.weight(layer.weight)
    return plain.site(function(x, weight, layer.bias, layer.stride, padding, layer.dilation, layer.groups))


def transposed(layer, plain, x):
    d = len(layer.stride)
    function = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d][d - 1]
    groups = layer.groups
    grouped = layer.weight.unflatten(0, (groups, -1))  # (group, in, out, ...): a channel is (group, out)
    weight = plain.operand(grouped, (1, *range(3, grouped.dim())), "weights").flatten(0, 1)
    out = function(
        plain.operand(x), weight, layer.bias, layer.stride, layer.padding, layer.output_padding, groups, layer.dilation
    )
    return plain.site(out)


def lstm_cell(x, h, c, w_h, b_h, plain):
    i, f, g, o = (x + plain.site(F.linear(plain.operand(h), w_h, b_h))).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def gru_cell(x, h, w_h, b_h, plain):
    xr, xz, xn = x.chunk(3, -1)
    hr, hz, hn = plain.site(F.linear(plain.operand(h), w_h, b_h)).chunk(3, -1)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    return (1 - z) * torch.tanh(xn + r * hn) + z * h


def rnn_cell(x, h, w_h, b_h, plain):
    return torch.tanh(x + plain.site(F.linear(plain.operand(h), w_h, b_h)))


def recurrent(layer, plain, x):
    """All layers and directions of a recurrent network over x (steps, batch, features)."""
    h_n, c_n = [], []
    for k in range(layer.num_layers):
        outputs = []
        for suffix in ["", "_reverse"][: 1 + layer.bidirectional]:
            w_i, w_h, b_i, b_h = (
                getattr(layer, f"{p}_l{k}{suffix}") for p in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            gates = plain.linear(x, w_i, b_i)
            w_h = plain.weight(w_h)
            h = x.new_zeros(x.shape[1], layer.hidden_size)
            c = h
            steps = range(len(x)) if not suffix else reversed(range(len(x)))
            out = {}
            for t in steps:
                if layer.mode == "LSTM":
                    h, c = lstm_cell(gates[t], h, c, w_h, b_h, plain)
                elif layer.mode == "GRU":
                    h = gru_cell(gates[t], h, w_h, b_h, plain)
                else:
                    h = rnn_cell(gates[t], h, w_h, b_h, plain)
                out[t] = h
            outputs.append(torch.stack([out[t] for t in range(len(x))]))
            h_n.append(h)
            c_n.append(c)
        x = torch.cat(outputs, -1)
    return (x, (torch.stack(h_n), torch.stack(c_n))) if layer.mode == "LSTM" else (x, torch.stack(h_n))


def cell(layer, plain, x):
    gates = plain.linear(x, layer.weight_ih, layer.bias_ih)
    h = x.new_zeros(len(x), layer.hidden_size)
    w_h = plain.weight(layer.weight_hh)
    if isinstance(layer, nn.LSTMCell):
        return lstm_cell(gates, h, h, w_h, layer.bias_hh, plain)
    function = gru_cell if isinstance(layer, nn.GRUCell) else rnn_cell
    return function(gates, h, w_h, layer.bias_hh, plain)


def multihead(layer, plain, query, key, value):
    """Batch first, no masks."""
    weights = layer.in_proj_weight.chunk(3) if layer.in_proj_weight is not None else [
        layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight
    ]  # fmt: skip
    biases = layer.in_proj_bias.chunk(3)
    heads = lambda x: x.unflatten(-1, (layer.num_heads, -1)).transpose(1, 2)  # noqa: E731
    q, k, v = (heads(plain.linear(x, w, b)) for x, w, b in zip((query, key, value), weights, biases, strict=True))
    context, attention = plain.attention(q, k, v, layer.head_dim**-0.5)
    out = plain.linear(context.transpose(1, 2).flatten(2), layer.out_proj.weight, layer.out_proj.bias)
    return out, attention.mean(1)


def encoder_layer(layer, plain, x):
    attended, _ = multihead(layer.self_attn, plain, x, x, x)
    x = layer.norm1(x + attended)
    hidden = F.relu(plain.linear(x, layer.linear1.weight, layer.linear1.bias))
    return layer.norm2(x + plain.linear(hidden, layer.linear2.weight, layer.linear2.bias))


def encoder(stack, plain, x):
    for layer in stack.layers:
        x = encoder_layer(layer, plain, x)
    return x


def graph_linear(layer, plain, x):
    return plain.site(F.linear(plain.row(x), plain.weight(layer.weight), layer.bias))


def conv1d_of_transformers(layer, plain, x):
    return plain.linear(x, layer.weight.t(), layer.bias)


EDGES = torch.tensor([[0, 1, 2, 3, 4, 0, 2, 5], [1, 2, 3, 4, 0, 3, 0, 5]])


def sage(layer, plain, x, edges):
    """Mean aggregation of quantised features, then two linear layers."""
    features = plain.row(x)
    mean = torch.stack(
        [
            features[edges[0, edges[1] == node]].mean(0) if (edges[1] == node).any() else 0 * x[0]
            for node in range(len(x))
        ]
    )
    mean = plain.site(mean)
    return graph_linear(layer.lin_l, plain, mean) + graph_linear(layer.lin_r, plain, x)


def bert_attention(layer, plain, x):
    heads = lambda x: x.unflatten(-1, (layer.num_attention_heads, -1)).transpose(1, 2)  # noqa: E731
    q, k, v = (heads(plain.linear(x, p.weight, p.bias)) for p in (layer.query, layer.key, layer.value))
    context, _ = plain.attention(q, k, v, layer.scaling)
    return context.transpose(1, 2).flatten(2), None


def bert_self_attention():
    config = BertConfig(
        hidden_size=8,
        num_attention_heads=2,
        attention_probs_dropout_prob=0.0,
        attn_implementation="sdpa",
    )
    return BertSelfAttention(config)


def matmul(layer, plain, a, b):
    return plain.site(plain.row(a) @ plain.row(b))


def matmul_with_a_matrix(layer, plain, a, b):
    return plain.site(plain.operand(a) @ plain.weight(b, channel=1, bits="activations"))


def scaled_dot_product(layer, plain, q, k, v):
    return plain.attention(q, k, v, q.shape[-1] ** -0.5)[0]


def einsum(layer, plain, a, b):
    return plain.site(layer.function(plain.row(a), plain.row(b)))


CASES = [
    Case("linear", lambda: nn.Linear(5, 7), lambda: (randn(3, 5),), linear),
    Case("linear, three dimensions, no bias", lambda: nn.Linear(5, 7, bias=False), lambda: (randn(2, 3, 5),), linear),
    Case(
        "linear with cross entropy",
        lambda: nn.LinearCrossEntropyLoss(5, 7, bias=True, reduction="none"),
        lambda: (randn(3, 5), torch.tensor([6, 0, 2])),
        linear_cross_entropy,
        batched=False,
    ),
    Case("bilinear", lambda: nn.Bilinear(4, 5, 6), lambda: (randn(3, 4), randn(3, 5)), bilinear),
    Case("embedding", lambda: nn.Embedding(9, 4), lambda: (torch.tensor([[1, 2], [8, 1]]),), embedding, bc.Recipe.paper(embeddings=True)),
    Case("lstm", lambda: nn.LSTM(4, 5), lambda: (randn(6, 3, 4),), recurrent, batched=False),
    Case("lstm, two layers, both directions", lambda: nn.LSTM(4, 5, 2, bidirectional=True), lambda: (randn(6, 3, 4),), recurrent, batched=False),
    Case("gru", lambda: nn.GRU(4, 5, 2, bidirectional=True), lambda: (randn(6, 3, 4),), recurrent, batched=False),
    Case("rnn", lambda: nn.RNN(4, 5), lambda: (randn(6, 3, 4),), recurrent, batched=False),
    Case("lstm cell", lambda: nn.LSTMCell(4, 5), lambda: (randn(3, 4),), cell),
    Case("gru cell", lambda: nn.GRUCell(4, 5), lambda: (randn(3, 4),), cell),
    Case("rnn cell", lambda: nn.RNNCell(4, 5), lambda: (randn(3, 4),), cell),
    Case("attention", lambda: nn.MultiheadAttention(8, 2, batch_first=True), lambda: (randn(2, 4, 8), *[randn(2, 5, 8)] * 2), multihead),
    Case(
        "attention, other dimensions of key and value",
        lambda: nn.MultiheadAttention(8, 2, kdim=3, vdim=6, batch_first=True),
        lambda: (randn(2, 4, 8), randn(2, 5, 3), randn(2, 5, 6)),
        multihead,
    ),
    Case("encoder layer", lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), lambda: (randn(2, 4, 8),), encoder_layer),
    Case(
        "encoder",
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 2),
        lambda: (randn(2, 4, 8),),
        encoder,
    ),
    Case("matmul", lambda: Calls(torch.matmul), lambda: (randn(2, 4, 3), randn(2, 3, 5)), matmul),
    Case("matmul with a matrix", lambda: Calls(torch.matmul), lambda: (randn(2, 4, 3), randn(3, 5)), matmul_with_a_matrix, batched=False),
    Case(
        "scaled dot product",
        lambda: Calls(F.scaled_dot_product_attention),
        lambda: (randn(2, 3, 4, 8), randn(2, 3, 5, 8), randn(2, 3, 5, 6)),
        scaled_dot_product,
    ),
    Case("einsum", lambda: Calls(partial(torch.einsum, "bij,bjk->bik")), lambda: (randn(2, 4, 3), randn(2, 3, 5)), einsum),
    Case("graph linear", lambda: pyg.Linear(5, 7), lambda: (randn(6, 5),), graph_linear),
    Case("message passing", lambda: pyg.SAGEConv(5, 7), lambda: (randn(6, 5), EDGES), sage, bc.Recipe.paper(aggregation="quantized"), batched=False),
    Case("Conv1D of transformers", lambda: Conv1D(7, 5), lambda: (randn(2, 3, 5),), conv1d_of_transformers),
    Case("attention of transformers", bert_self_attention, lambda: (randn(2, 4, 8),), bert_attention, batched=False),
]  # fmt: skip

for d in (1, 2, 3):
    conv, conv_transpose = getattr(nn, f"Conv{d}d"), getattr(nn, f"ConvTranspose{d}d")

    def image(d=d):
        return (randn(2, 4, *[6] * d),)

    CASES += [
        Case(f"conv{d}d", lambda c=conv: c(4, 6, 3), image, convolution),
        Case(f"conv{d}d, strided, dilated, grouped", lambda c=conv: c(4, 6, 2, 2, 1, 2, 2), image, convolution),
        Case(f"conv{d}d, circular", lambda c=conv: c(4, 6, 3, padding=1, padding_mode="circular"), image, convolution),
        Case(f"conv{d}d, same", lambda c=conv: c(4, 6, 3, padding="same"), image, convolution),
        Case(f"conv{d}d, depthwise", lambda c=conv: c(4, 4, 3, groups=4, bias=False), image, convolution),
        Case(f"transposed conv{d}d", lambda c=conv_transpose: c(4, 6, 3), image, transposed),
        Case(
            f"transposed conv{d}d, strided, grouped", lambda c=conv_transpose: c(4, 6, 3, 2, 1, 1, 2), image, transposed
        ),
    ]
