"""How much of real models becomes sites: the share of multiply-accumulates after ``bc.quantize(model)`` and one run.

``pytest tests/ecosystem/test_coverage.py -s`` prints the table of docs/precision.md, which must have the same rows.
"""

import copy
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch_geometric.nn as pyg
    import transformers as tf

import bitcycle as bc
from bitcycle.arithmetic import AggregationProduct
from bitcycle.arithmetic.skip import SkipKind
from bitcycle.conversion.running import run_model
from bitcycle.lab.models.resnets import CifarResNet

# --- A language model of one's own.


class CausalAttention(nn.Module):
    def __init__(self, width, heads, flash):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.flash = heads, flash

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.c_attn(x).split(width, dim=2)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v))
        if self.flash:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (width // self.heads) ** -0.5
            allowed = torch.ones(length, length, dtype=torch.bool).tril()
            y = scores.masked_fill(~allowed, float("-inf")).softmax(-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(batch, length, width))


class GPTBlock(nn.Module):
    def __init__(self, width, heads, flash):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = CausalAttention(width, heads, flash)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class NanoGPT(nn.Module):
    def __init__(self, flash=True, tokens=64, width=32, heads=4, layers=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(tokens, width), nn.Embedding(64, width)
        self.blocks = nn.ModuleList(GPTBlock(width, heads, flash) for _ in range(layers))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.ln_f(x))


# --- Blocks of vision models, as timm writes them.


class ViTAttention(nn.Module):
    def __init__(self, fused, width=32, heads=4):
        super().__init__()
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fused, self.heads = fused, heads

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        if self.fused:
            x = F.scaled_dot_product_attention(q, k, v)
        else:
            x = (q * q.shape[-1] ** -0.5 @ k.transpose(-2, -1)).softmax(dim=-1) @ v
        return self.proj(x.transpose(1, 2).reshape(batch, length, width))


class ViT(nn.Module):
    def __init__(self, fused):
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 8, 8)
        self.norm, self.attn, self.head = nn.LayerNorm(32), ViTAttention(fused), nn.Linear(32, 10)
        self.mlp = nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32))

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = x + self.attn(self.norm(x))
        return self.head((x + self.mlp(x)).mean(1))


class WindowAttention(nn.Module):
    """Swin's attention inside windows, with a learned bias for each relative position."""

    def __init__(self, width=32, heads=4, window=4):
        super().__init__()
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.window = heads, window
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads))
        grid = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        offset = (grid[:, :, None] - grid[:, None, :]) + window - 1
        self.register_buffer("index", offset[0] * (2 * window - 1) + offset[1])

    def forward(self, x):
        batch, height, width, channels = x.shape
        w = self.window
        x = (
            x.view(batch, height // w, w, width // w, w, channels)
            .permute(0, 1, 3, 2, 4, 5)
            .reshape(-1, w * w, channels)
        )
        q, k, v = self.qkv(x).reshape(len(x), w * w, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        bias = self.table[self.index].permute(2, 0, 1).unsqueeze(0)
        scores = q * q.shape[-1] ** -0.5 @ k.transpose(-2, -1) + bias
        x = self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(len(x), w * w, channels))
        x = x.view(batch, height // w, width // w, w, w, channels).permute(0, 1, 3, 2, 4, 5)
        return x.reshape(batch, height, width, channels)


class SqueezeExcite(nn.Module):
    def __init__(self, width, reduced):
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(width, reduced, 1), nn.Conv2d(reduced, width, 1)

    def forward(self, x):
        return x * self.expand(F.relu(self.reduce(x.mean((2, 3), keepdim=True)))).sigmoid()


class InvertedResidual(nn.Module):
    """EfficientNet's MBConv."""

    def __init__(self, width=16):
        super().__init__()
        wide, activation = 4 * width, nn.SiLU()
        self.expand = nn.Sequential(nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide), activation)
        depthwise = nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False)
        self.depthwise = nn.Sequential(depthwise, nn.BatchNorm2d(wide), activation)
        self.se = SqueezeExcite(wide, 4)
        self.project = nn.Sequential(nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        return x + self.project(self.se(self.depthwise(self.expand(x))))


class ScaledStdConv2d(nn.Conv2d):
    """NFNet's convolution, which standardises its weight."""

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.gain = nn.Parameter(torch.ones(self.out_channels))

    def forward(self, x):
        flat = self.weight.reshape(1, self.out_channels, -1)
        weight = F.batch_norm(flat, None, None, weight=self.gain, training=True, momentum=0.0).reshape_as(self.weight)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class LoRALinear(nn.Linear):
    def __init__(self, inputs, outputs, rank=4):
        super().__init__(inputs, outputs)
        self.lora_a, self.lora_b = nn.Parameter(torch.randn(rank, inputs)), nn.Parameter(torch.zeros(outputs, rank))

    def forward(self, x):
        return super().forward(x) + x @ self.lora_a.t() @ self.lora_b.t()


DOCUMENTED = (Path(__file__).parents[2] / "docs" / "precision.md").read_text(encoding="utf-8").splitlines()
IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
TOKENS = torch.arange(2 * 12).view(2, 12) % 60


def weight_normed():
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 8, 3)), nn.ReLU(), nn.Conv2d(8, 8, 3))


OWN = {
    "nanoGPT, fused attention": lambda: (NanoGPT(flash=True), TOKENS),
    "nanoGPT, attention by hand": lambda: (NanoGPT(flash=False), TOKENS),
    "timm-like ViT, fused attention": lambda: (ViT(fused=True), IMAGES),
    "timm-like ViT, attention by hand": lambda: (ViT(fused=False), IMAGES),
    "timm-like Swin window attention": lambda: (WindowAttention(), torch.randn(2, 8, 8, 32)),
    "timm-like EfficientNet": lambda: (InvertedResidual(), torch.randn(2, 16, 8, 8)),
    "timm-like NFNet": lambda: (nn.Sequential(ScaledStdConv2d(3, 8, 3), nn.SiLU(), ScaledStdConv2d(8, 8, 3)), IMAGES),
    "LoRA": lambda: (nn.Sequential(LoRALinear(16, 16), nn.ReLU(), LoRALinear(16, 4)), torch.randn(4, 16)),
    "weight-normed convolution": lambda: (weight_normed(), IMAGES),
}

SMALL = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
EXPERTS = {"num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2}
VISION = {name: size for name, size in SMALL.items() if name != "vocab_size"} | {"image_size": 32, "patch_size": 8}
DISENTANGLED = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "max_relative_positions": 16}
SPECIAL = {"bos_token_id": 1, "eos_token_id": 2}

TRANSFORMERS = {
    "BERT": lambda: tf.BertForSequenceClassification(tf.BertConfig(**SMALL)),
    "DeBERTa-v2": lambda: tf.DebertaV2ForSequenceClassification(tf.DebertaV2Config(**SMALL, **DISENTANGLED)),
    "XLNet": lambda: tf.XLNetForSequenceClassification(
        tf.XLNetConfig(vocab_size=100, d_model=32, n_layer=2, n_head=4, d_inner=64)
    ),
    "MPNet": lambda: tf.MPNetForSequenceClassification(tf.MPNetConfig(**SMALL)),
    "GPT-2": lambda: tf.GPT2LMHeadModel(
        tf.GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=32, **SPECIAL)
    ),
    "Bloom": lambda: tf.BloomForCausalLM(tf.BloomConfig(vocab_size=100, hidden_size=32, n_layer=2, n_head=4)),
    "Llama": lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**SMALL, num_key_value_heads=2)),
    "Mixtral": lambda: tf.MixtralForCausalLM(tf.MixtralConfig(**SMALL, **EXPERTS)),
    "gpt-oss": lambda: tf.GptOssForCausalLM(tf.GptOssConfig(**SMALL, **EXPERTS, head_dim=8)),
    "T5": lambda: tf.T5ForConditionalGeneration(
        tf.T5Config(vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    ),
    "ViT": lambda: tf.ViTForImageClassification(tf.ViTConfig(**VISION)),
    "Mamba": lambda: tf.MambaForCausalLM(
        tf.MambaConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, state_size=8)
    ),
}
INPUTS = {"ViT": {"pixel_values": IMAGES}, "T5": {"input_ids": TOKENS, "decoder_input_ids": TOKENS}}

NODES = torch.randn(12, 16, generator=torch.Generator().manual_seed(0))
EDGES = torch.stack([torch.arange(48) % 12, torch.arange(48) * 5 % 12])
KINDS = torch.arange(48) % 3


def perceptron():
    return nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 8))


GRAPHS = {
    "GCN": lambda: (pyg.GCNConv(16, 8), (NODES, EDGES)),
    "SAGE": lambda: (pyg.SAGEConv(16, 8), (NODES, EDGES)),
    "GAT": lambda: (pyg.GATConv(16, 8, heads=2), (NODES, EDGES)),
    "GIN": lambda: (pyg.GINConv(perceptron()), (NODES, EDGES)),
    "TransformerConv": lambda: (pyg.TransformerConv(16, 8, heads=2), (NODES, EDGES)),
    "RGCN": lambda: (pyg.RGCNConv(16, 8, 3), (NODES, EDGES, KINDS)),
}


def build_transformer(name):
    return TRANSFORMERS[name]().eval(), INPUTS.get(name, {"input_ids": TOKENS, "attention_mask": torch.ones(2, 12)})


MODELS = {
    **OWN,
    **{f"transformers {name}": lambda name=name: build_transformer(name) for name in TRANSFORMERS},
    **{f"torch_geometric {name}": build for name, build in GRAPHS.items()},
}


@pytest.fixture(autouse=True)
def quiet():
    level = tf.logging.get_verbosity()
    tf.logging.set_verbosity_error()
    yield
    tf.logging.set_verbosity(level)


def measure(name, recipe=None):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of transformers and torch_geometric, about what is not installed
        model, inputs = MODELS[name]()
    bc.quantize(model, recipe)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bc.cost(model, inputs)


def share_of_sites(rows):
    return sum(row.macs for row in rows if row.quantized) / sum(row.macs for row in rows)


def show(name, cost):
    left = [f"{row.name} ({row.product})" for row in cost.rows if not row.quantized] + list(cost.uncounted)
    row = f"| {name} | {cost.macs:,} | {100 * share_of_sites(cost.rows):.1f} % | {', '.join(left) or 'nothing'} |"
    print(f"\n{row}")
    assert row in DOCUMENTED


@pytest.mark.parametrize("name", MODELS)
def test_products_are_sites(name):
    cost = measure(name)
    show(name, cost)
    # The sums along the edges of a graph are in full precision unless the recipe asks for them.
    assert share_of_sites([row for row in cost.rows if row.product != AggregationProduct.kind]) >= 0.99
    if not name.startswith("torch_geometric"):
        assert share_of_sites(cost.rows) >= 0.99
        assert not cost.uncounted


@pytest.mark.parametrize("name", GRAPHS)
def test_sums_along_edges_are_sites_if_the_recipe_says_so(name):
    cost = measure(f"torch_geometric {name}", bc.Recipe(aggregation="quantized"))
    show(f"torch_geometric {name}, aggregation quantised", cost)
    assert share_of_sites(cost.rows) >= 0.99


NAMED = {
    "GCN": (),
    "GAT": ("message weights att_src, att_dst of the model (GATConv)",),
    "TransformerConv": ("elementwise products in the model (TransformerConv)",),
    "RGCN": (),
}


@pytest.mark.parametrize("name", NAMED)
def test_what_is_left_is_named(name):
    cost = measure(f"torch_geometric {name}")
    aggregation = [row for row in cost.rows if row.product == AggregationProduct.kind]
    assert [(row.name, row.quantized) for row in aggregation] == [("aggregate", False)]
    assert aggregation[0].macs > 0
    assert cost.uncounted == NAMED[name]


# --- Models are converted, trained a few steps on a schedule, summarised and restored.


def with_attention(name, attention):
    model, inputs = build_transformer(name)
    model.set_attn_implementation(attention)
    if "attention_mask" in inputs:
        inputs = {**inputs, "attention_mask": torch.tensor([[1] * 12, [1] * 9 + [0] * 3])}
    return model, inputs


TRAINED = {
    "resnet": (lambda: (CifarResNet(8), IMAGES), {}),
    "depthwise": (OWN["timm-like EfficientNet"], {}),
    "nn.Transformer": (
        lambda: (
            nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True),
            {"src": torch.randn(2, 5, 16), "tgt": torch.randn(2, 4, 16)},
        ),
        {},
    ),
    "lstm": (lambda: (nn.LSTM(6, 8, num_layers=2, bidirectional=True), torch.randn(5, 3, 6)), {}),
    **{
        f"{name} {attention}": (lambda n=name, a=attention: with_attention(n, a), {})
        for name in ("BERT", "GPT-2", "T5", "ViT", "Llama")
        for attention in ("sdpa", "eager")
    },
    **{
        f"{name} {aggregation}": (GRAPHS[name], {"aggregation": aggregation})
        for name in ("GCN", "SAGE", "GAT", "GIN")
        for aggregation in ("full", "quantized")
    },
}


def loss_of(model, inputs):
    outputs = [x for x in tree_leaves(run_model(model, inputs)) if isinstance(x, Tensor)]
    return (outputs[0] - 1).square().mean()


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.filterwarnings("ignore:.*batch_first was not True.*:UserWarning")
def test_convert_train_restore(name):
    torch.manual_seed(0)
    make, recipe = TRAINED[name]
    model, inputs = make()
    float_model = copy.deepcopy(model)
    keys, parameters = list(model.state_dict()), list(model.parameters())

    bc.quantize(model, bc.Recipe(**recipe))
    assert list(model.state_dict()) == keys
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    bc.set_bits(model, forward=None)
    model.eval()
    float_model.eval()
    with torch.no_grad():
        assert torch.equal(loss_of(model, inputs), loss_of(float_model, inputs))

    model.train()
    precision = bc.PrecisionScheduler(model, "CR:3-8:cycles=2", total_steps=4, backward_bits=8)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(4):
        optimizer.zero_grad()
        loss_of(model, inputs).backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)
        optimizer.step()
        precision.step()

    summary = bc.summary(model, inputs)
    assert all(row.ran for row in summary.sites), "a site that never runs"
    assert not [row for row in summary.skipped if any(s.kind is SkipKind.RAN_OUTSIDE_SITES for s in row.skips)]

    trained = copy.deepcopy(model.state_dict())
    bc.restore(model)
    float_model.load_state_dict(trained)
    assert [type(m) for m in model.modules()] == [type(m) for m in float_model.modules()]
    assert [set(vars(m)) for m in model.modules()] == [set(vars(m)) for m in float_model.modules()]
    model.eval()
    with torch.no_grad():
        assert torch.equal(loss_of(model, inputs), loss_of(float_model, inputs))
