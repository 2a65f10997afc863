"""Pretrained encoders and tokenizers, read from a folder as ``save_pretrained`` of transformers writes it.

The folder has config.json, weights in safetensors, and a tokenizer. Nothing in it is executed: pickled weights
(pytorch_model.bin) and models with their own Python code are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from bitcycle._support.extras import need
from bitcycle.lab.data.files import DataError

_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model")


def pretrained_encoder(folder: str | Path, labels: int) -> nn.Module:
    """Return the encoder of a folder with a classifier, which is new if the folder has none.

    Args:
        folder: The pretrained model.
        labels: Number of labels of the classifier.

    Raises:
        DataError: If the folder is incomplete or cannot be read.
    """
    path = _checked_folder(
        folder, _WEIGHTS, "pickled weights such as pytorch_model.bin are not read: save as safetensors"
    )
    kind = need("transformers", "text", "a pretrained model").AutoModelForSequenceClassification
    with _quietly():
        model, info = _load(
            kind.from_pretrained, path, num_labels=labels, use_safetensors=True, output_loading_info=True
        )
    # A masked language model has no pooler. Other missing weights would silently be random.
    prefix = f"{model.base_model_prefix}."
    missing = sorted(key for key in info["missing_keys"] if key.startswith(prefix) and ".pooler." not in key)
    if missing:
        raise DataError(f"{path}: the weights lack {missing[0]} and {len(missing) - 1} more parameters of the encoder")
    return model


def pretrained_tokenizer(folder: str | Path) -> Callable[..., Any]:
    """Return the tokenizer of a folder.

    Raises:
        DataError: If the folder is incomplete or cannot be read.
    """
    path = _checked_folder(folder, _TOKENIZERS, "the tokenizer should be in the same folder as the model")
    tokenizer: Callable[..., Any] = _load(
        need("transformers", "text", "a pretrained model").AutoTokenizer.from_pretrained, path
    )
    return tokenizer


def _checked_folder(folder: str | Path, files: tuple[str, ...], hint: str) -> Path:
    """Return the folder if it has a configuration and one of the files."""
    path = Path(folder)
    if not (path / "config.json").is_file():
        raise DataError(f"{path}: has no config.json; it should be a folder that save_pretrained has written")
    if not any((path / name).is_file() for name in files):
        raise DataError(f"{path}: has no {' or '.join(files)}; {hint}")
    return path


@contextmanager
def _quietly() -> Iterator[None]:
    """Let transformers print no progress bar and no report of missing weights, which are checked here."""
    logging = need("transformers", "text", "a pretrained model").utils.logging
    verbosity, has_bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if has_bar:
            logging.enable_progress_bar()


def _load(load: Callable[..., Any], path: Path, **options: Any) -> Any:
    try:
        return load(str(path), local_files_only=True, trust_remote_code=False, **options)
    except ImportError:
        raise
    except Exception as error:  # transformers does not document what it raises for a damaged folder
        reason = (str(error) or type(error).__name__).strip().splitlines()[0]
        raise DataError(f"{path}: cannot be read as a pretrained model ({reason[:300]})") from None
