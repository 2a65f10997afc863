"""A pretrained encoder from a folder, as transformers saves it; reading it executes nothing.

The folder holds config.json, weights in safetensors and a tokenizer. Weights in a pickle (pytorch_model.bin) and models
that bring their own Python code are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from bitcycle._support.extras import need
from bitcycle.experiments.data.errors import DataError

_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model")


def pretrained_encoder(folder: str | Path, labels: int) -> nn.Module:
    """The encoder in a folder with a classifier for so many labels, a new one if the folder has none."""
    path = _checked(folder, _WEIGHTS, "weights in a pickle such as pytorch_model.bin are not read: save as safetensors")
    kind = need("transformers", "text", "a pretrained model").AutoModelForSequenceClassification
    model, report = _loaded(
        kind.from_pretrained, path, num_labels=labels, use_safetensors=True, output_loading_info=True
    )
    # A masked language model has no pooler; without anything else it would start from random weights in silence.
    own = f"{model.base_model_prefix}."
    lacking = sorted(key for key in report["missing_keys"] if key.startswith(own) and ".pooler." not in key)
    if lacking:
        raise DataError(f"{path}: its weights lack {lacking[0]} and {len(lacking) - 1} more of the encoder's")
    return model


def pretrained_tokenizer(folder: str | Path) -> Callable[..., Any]:
    """The tokenizer in a folder."""
    path = _checked(folder, _TOKENIZERS, "the tokenizer belongs into the same folder as the model")
    tokenizer: Callable[..., Any] = _loaded(
        need("transformers", "text", "a pretrained model").AutoTokenizer.from_pretrained, path
    )
    return tokenizer


def _checked(folder: str | Path, files: tuple[str, ...], hint: str) -> Path:
    """The folder, if it has a configuration and one of the files."""
    path = Path(folder)
    if not (path / "config.json").is_file():
        raise DataError(f"{path}: has no config.json; a pretrained model is a folder as save_pretrained writes it")
    if not any((path / name).is_file() for name in files):
        raise DataError(f"{path}: has no {' or '.join(files)}; {hint}")
    return path


def _loaded(load: Callable[..., Any], path: Path, **options: Any) -> Any:
    try:
        return load(str(path), local_files_only=True, trust_remote_code=False, **options)
    except ImportError:
        raise
    except Exception as error:  # what transformers raises for a damaged folder is not documented
        reason = (str(error) or type(error).__name__).strip().splitlines()[0]
        raise DataError(f"{path}: cannot be read as a pretrained model ({reason[:300]})") from None
