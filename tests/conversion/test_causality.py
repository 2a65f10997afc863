"""Models over sequences: the granularity that is chosen for them, and that they stay causal and batch-independent."""

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import transformers


import bitcycle as bc
from bitcycle.conversion.sites import named_sites
from bitcycle.lab.models.language_models import LSTMLanguageModel, TransformerLanguageModel
from tests.ecosystem.test_coverage import NanoGPT, quiet

__all__ = ["quiet"]

WORDS, WIDTH = 32, 16


class Convolutions(nn.Module):
    """Dilated convolutions over the past, without a mask or attention."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.convolutions = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 3, dilation=d, groups=g) for d, g in ((1, 1), (2, 4)))

    def forward(self, words):
        x = self.words(words).mT
        for layer in self.convolutions:
            x = x + F.gelu(layer(F.pad(x, (2 * layer.dilation[0], 0))))
        return self.head(x.mT)


class Mixer(nn.Module):
    """A language model that mixes tokens by a function of queries, keys and values, without a softmax."""

    def __init__(self, mix, *weight):
        super().__init__()
        self.words, self.qkv, self.head = (
            nn.Embedding(WORDS, WIDTH),
            nn.Linear(WIDTH, 3 * WIDTH),
            nn.Linear(WIDTH, WORDS),
        )
        self.weight, self.mix = nn.Parameter(torch.randn(*weight)) if weight else None, mix

    def forward(self, words):
        q, k, v = self.qkv(self.words(words)).chunk(3, -1)
        return self.head(self.mix(q, k, v) if self.weight is None else self.mix(q, k, v, self.weight))


def scan(q, k, v):
    """Linear attention as a recurrence: outer products of keys and values are added up."""
    state, outputs = torch.zeros(len(q), WIDTH, WIDTH, dtype=q.dtype), []
    for t in range(q.shape[1]):
        state = 0.9 * state + k[:, t, :, None] @ v[:, t, None, :]
        outputs.append(state @ q[:, t, :, None])
    return torch.cat(outputs, -1).mT


def delta(q, k, v):
    """The delta rule for one chunk. torch's solver returns its result in column-major memory."""
    new = torch.linalg.solve_triangular((k @ k.mT).tril(-1), v, upper=False, unitriangular=True)
    return (q @ k.mT).tril() @ new


MIXERS = {
    "linear attention": lambda: Mixer(lambda q, k, v: (q @ k.mT).tril() @ v),
    "linear attention, einsum": lambda: Mixer(
        lambda q, k, v: torch.einsum("bij,bjd->bid", torch.einsum("bid,bjd->bij", q, k).tril(), v)
    ),
    "linear attention, recurrent": lambda: Mixer(scan),
    "delta rule": lambda: Mixer(delta),
    "a masked matrix over tokens": lambda: Mixer(lambda q, k, v, w: w.tril() @ v, 12, 12),
    "a parameter before channels": lambda: Mixer(lambda q, k, v, w: (w @ v.mT.contiguous()).mT, WIDTH, WIDTH),
    "a parameter, einsum over channels": lambda: Mixer(
        lambda q, k, v, w: torch.einsum("bcl,co->blo", v.mT.contiguous(), w), WIDTH, WIDTH
    ),
    "a parameter, tensordot over channels": lambda: Mixer(
        lambda q, k, v, w: torch.tensordot(v.mT.contiguous(), w, dims=([1], [0])), WIDTH, WIDTH
    ),
}


class Recurrent(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.words, self.layer, self.head = nn.Embedding(WORDS, WIDTH), layer, nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        return self.head(self.layer(self.words(words))[0])


SIZES = {
    "hidden_size": WIDTH,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 32,
}
GROUPED = {**SIZES, "num_key_value_heads": 1, "head_dim": 8}
EXPERTS = {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2}
GPT = {"n_positions": 32, "n_embd": WIDTH, "n_layer": 2, "n_head": 2}
STATES = {"hidden_size": WIDTH, "num_hidden_layers": 2, "state_size": 8}
DELTA = {
    **EXPERTS, "num_experts": 4, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16,
    "linear_num_value_heads": 2, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention"],
}  # fmt: skip
NATIVE = {
    "chunkwise_kernel": "chunkwise--native_autograd", "sequence_kernel": "native_sequence__native",
    "step_kernel": "native", "autocast_kernel_dtype": "float32",
}  # fmt: skip

TRANSFORMERS = {
    "GPT-2": ("GPT2LMHeadModel", GPT),
    "GPT-J": ("GPTJForCausalLM", {**GPT, "rotary_dim": 4}),
    "GPT-NeoX": ("GPTNeoXForCausalLM", SIZES),
    "OPT": ("OPTForCausalLM", {**SIZES, "ffn_dim": 32, "word_embed_proj_dim": WIDTH}),
    "Bloom": ("BloomForCausalLM", {"hidden_size": WIDTH, "n_layer": 2, "n_head": 2}),
    "Llama": ("LlamaForCausalLM", GROUPED),
    "Mistral": ("MistralForCausalLM", {**GROUPED, "sliding_window": 4}),
    "Qwen2": ("Qwen2ForCausalLM", GROUPED),
    "Gemma2": ("Gemma2ForCausalLM", {**GROUPED, "sliding_window": 4}),
    "Phi": ("PhiForCausalLM", SIZES),
    "Falcon": ("FalconForCausalLM", SIZES),
    "Mixtral": ("MixtralForCausalLM", EXPERTS),
    "gpt-oss": ("GptOssForCausalLM", EXPERTS),
    "Mamba": ("MambaForCausalLM", STATES),
    "Mamba2": ("Mamba2ForCausalLM", {**STATES, "num_heads": 4, "head_dim": 8, "n_groups": 2, "chunk_size": 4}),
    "RecurrentGemma": (
        "RecurrentGemmaForCausalLM", {**SIZES, "num_hidden_layers": 3, "attention_window_size": 8, "lru_width": WIDTH},
    ),
    "RWKV": ("RwkvForCausalLM", {"hidden_size": WIDTH, "num_hidden_layers": 2, "context_length": 32}),
    "Qwen3-Next": ("Qwen3NextForCausalLM", DELTA),
    "MiniMax": (
        "MiniMaxForCausalLM", {**EXPERTS, "block_size": 4, "layer_types": ["linear_attention", "full_attention"]},
    ),
    "xLSTM": (
        "xLSTMForCausalLM",
        {"hidden_size": WIDTH, "num_blocks": 2, "num_heads": 2, "chunk_size": 4, "use_cache": False, **NATIVE},
    ),
}  # fmt: skip


def from_transformers(name):
    architecture, settings = TRANSFORMERS[name]
    kind = getattr(transformers, architecture)
    config = kind.config_class(vocab_size=WORDS, bos_token_id=0, eos_token_id=0, pad_token_id=0, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about kernels that are not installed
        model = kind(config)
    if hasattr(config, "num_experts_per_tok"):
        model.set_experts_implementation("eager")  # torch has no grouped product in double precision
    return enlarge_weights(model)


def enlarge_weights(model):
    """With the small weights that transformers begins with, no token has much of an effect on another one."""
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding, transformers.pytorch_utils.Conv1D)):
            nn.init.normal_(module.weight, std=0.3)
    return model


class Decoder(nn.Module):
    """The decoder of an encoder-decoder model, for one and the same text of the encoder."""

    def __init__(self):
        super().__init__()
        sizes = {"d_model": WIDTH, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
        config = transformers.T5Config(vocab_size=WORDS, **sizes)
        self.t5 = enlarge_weights(transformers.T5ForConditionalGeneration(config))

    def forward(self, words):
        return self.t5(input_ids=torch.arange(5).expand(len(words), 5), decoder_input_ids=words).logits


CAUSAL = {
    "nanoGPT": (lambda: NanoGPT(tokens=WORDS), True),
    "nanoGPT, products by hand": (lambda: NanoGPT(flash=False, tokens=WORDS), True),
    "TransformerEncoder with a causal mask": (lambda: TransformerLanguageModel(WORDS, WIDTH, heads=2), False),
    "LSTM": (lambda: LSTMLanguageModel(WORDS, WIDTH, layers=2), False),
    "GRU": (lambda: Recurrent(nn.GRU(WIDTH, WIDTH, 2, batch_first=True)), True),
    "RNN": (lambda: Recurrent(nn.RNN(WIDTH, WIDTH, batch_first=True)), True),
    "causal convolutions": (Convolutions, True),
    **{name: (make, True) for name, make in MIXERS.items()},
    **{name: (lambda name=name: from_transformers(name), True) for name in TRANSFORMERS},
    "T5, decoder": (Decoder, True),
}
every_model = pytest.mark.parametrize("name", CAUSAL)


def converted(name, bits, **recipe):
    torch.manual_seed(0)
    make, batch_first = CAUSAL[name]
    model, words = make(), torch.randint(0, WORDS, (3, 12))
    words = words if batch_first else words.t().contiguous()
    bc.quantize(model, bc.Recipe(**recipe), example_inputs=words)
    bc.set_bits(model, forward=bits, backward=8)
    return model, words, batch_first


@pytest.mark.slow
@every_model
@pytest.mark.parametrize("bits", [2, 8])
def test_stays_causal_and_batch_independent(name, bits):
    model, words, batch_first = converted(name, bits)
    report = bc.check_causality(model, words, batch_first=batch_first)
    assert report.later_tokens is not None
    assert report.other_samples is not None
    assert report.is_causal, report
    assert report.is_batch_independent, report


WITH_CACHE = list(TRANSFORMERS)[: list(TRANSFORMERS).index("Mamba")]  # of keys and values; not of states


@pytest.mark.parametrize("name", WITH_CACHE)
@pytest.mark.parametrize("bits", [4, 8])
def test_generation_with_a_cache_gives_the_same_logits(name, bits):
    """The last token sees no masked position. In double precision no sum is rounded to another code."""
    model, words, _ = converted(name, bits)
    model.double().eval()
    with torch.no_grad():
        whole = model(words, use_cache=False).logits
        cache, by_token = None, []
        for token in words.split(1, 1):
            out = model(token, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            by_token.append(out.logits)
    torch.testing.assert_close(torch.cat(by_token, 1), whole, rtol=0, atol=1e-5)


@every_model
def test_one_grid_for_the_tensor_is_reported(name):
    model, words, batch_first = converted(name, 4, activations="tensor")
    report = bc.check_causality(model, words, batch_first=batch_first)
    assert not report.is_causal
    assert not report.is_batch_independent
    assert str(report).count(": yes, by up to") == 2


def test_the_check_leaves_the_model_as_it_was():
    model, words, _ = converted("nanoGPT", 4)
    before, mode = copy.deepcopy(model.state_dict()), model.training
    sites = {name: site.control.clone() for name, site in named_sites(model).items()}
    random = torch.get_rng_state()
    bc.check_causality(model, words)
    assert model.training is mode
    assert torch.equal(torch.get_rng_state(), random)
    assert all(
        torch.equal(value, before[key]) and value.dtype is before[key].dtype
        for key, value in model.state_dict().items()
    )
    assert {name: site.control.tolist() for name, site in named_sites(model).items()} == {
        name: control.tolist() for name, control in sites.items()
    }


def test_the_check_measures_what_the_inputs_allow():
    model = nn.Linear(4, 4)
    assert bc.check_causality(model, torch.randn(1, 5, 4)).other_samples is None
    assert bc.check_causality(model, torch.randn(3, 1, 4)).later_tokens is None
    assert "not measured" in str(bc.check_causality(model, {"input": torch.randn(1, 5, 4)}))
    with pytest.raises(ValueError, match="must be a tensor of shape"):
        bc.check_causality(model, torch.randn(4))
    with pytest.raises(ValueError, match="no argument 'words'"):
        bc.check_causality(model, torch.randn(2, 4), tokens="words")


class NanIf(nn.Module):
    def __init__(self, is_nan):
        super().__init__()
        self.is_nan = is_nan

    def forward(self, x):
        return torch.where(self.is_nan(x), torch.nan, x)


def test_the_check_sees_outputs_that_become_nan():
    x = torch.ones(2, 8, 4)
    changed = bc.check_causality(NanIf(lambda x: x[:, 2:3] != x[:, 7:8]), x)  # not in every comparison
    assert not changed.is_causal
    assert str(changed).startswith("later tokens change earlier outputs: yes")
    assert bc.check_causality(NanIf(lambda x: torch.arange(8)[:, None] == 3), x).is_causal
