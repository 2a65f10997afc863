"""The entailment task: it learns the embedded pairs, and fine-tunes a pretrained model from a folder."""

import json
import os
import string

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from bitcycle.lab.data.files import DataError
from bitcycle.lab.models.pretrained_encoder import pretrained_encoder
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train
from bitcycle.lab.tasks import task_named

DATA = os.environ.get("BITCYCLE_DATA")


@pytest.fixture
def folder(tmp_path):
    """A tiny BERT as transformers saves it: encoder without a classifier, and a tokenizer of letters."""
    path = tmp_path / "tiny-bert"
    path.mkdir()
    letters = string.ascii_lowercase
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    (path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    transformers.BertTokenizerFast(vocab=str(path / "vocab.txt")).save_pretrained(path)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(pieces),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=60,
    )
    transformers.BertModel(config).save_pretrained(path)
    return path


# From a configuration


@pytest.mark.slow
def test_the_embedded_pairs_are_learned():
    result, _ = train(RunConfig("entailment", "full", 200, backward_bits=None))
    assert result.test > 0.6  # chance is 1/3


# From a folder


@pytest.mark.skipif(not DATA, reason="BITCYCLE_DATA names no folder with official data")
def test_a_pretrained_model_is_trained_on_official_pairs(folder):
    result, model = train(
        RunConfig("entailment", "static:8", 4, model=str(folder), data=os.path.join(DATA, "rte"), batch_size=4)
    )
    assert model.num_labels == 2
    assert 0.3 < result.test < 0.7


@pytest.mark.slow
def test_a_pretrained_model_is_trained_on_embedded_pairs(folder):
    before = load_file(folder / "model.safetensors")
    training = task_named("entailment").prepare(RunConfig("entailment", "full", 1, model=str(folder)))
    assert torch.equal(
        training.model.bert.embeddings.word_embeddings.weight, before["embeddings.word_embeddings.weight"]
    )
    assert training.max_length == 60
    assert training.example()["input_ids"].shape[1] <= 60
    result, model = train(RunConfig("entailment", "CR:5-8:cycles=2", 4, model=str(folder), batch_size=8))
    assert model.num_labels == 3
    assert result.bitops > 0


def test_a_masked_language_model_gets_a_pooler(folder):
    config = transformers.BertConfig.from_pretrained(folder)
    transformers.BertForMaskedLM(config).save_pretrained(folder)
    assert pretrained_encoder(folder, 3).num_labels == 3


def test_a_new_classifier_is_not_reported(folder, capfd):
    verbosity = transformers.utils.logging.get_verbosity()
    pretrained_encoder(folder, 3)
    assert capfd.readouterr() == ("", "")
    assert transformers.utils.logging.get_verbosity() == verbosity
    assert transformers.utils.logging.is_progress_bar_enabled()


# What is refused


class Trap:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def refused(folder, message):
    with pytest.raises(DataError, match=message) as error:
        task_named("entailment").prepare(RunConfig("entailment", "full", 1, model=str(folder)))
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)


def test_weights_in_a_pickle_are_neither_read_nor_executed(folder, tmp_path):
    mark = tmp_path / "executed"
    (folder / "model.safetensors").unlink()
    torch.save({"weights": Trap(mark)}, folder / "pytorch_model.bin")
    refused(folder, "has no model.safetensors .* pytorch_model.bin are not read")
    assert not mark.exists()


def test_code_in_a_folder_is_not_executed(folder, tmp_path):
    mark = tmp_path / "executed"
    (folder / "modelling.py").write_text(f"import os\nos.mkdir({str(mark)!r})\n")
    config = json.loads((folder / "config.json").read_text())
    theirs = {"AutoConfig": "modelling.Config", "AutoModelForSequenceClassification": "modelling.Model"}
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "theirs", "auto_map": theirs}))
    refused(folder, "cannot be read as a pretrained model")
    assert not mark.exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_damaged_folders(folder):
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:100])
    refused(folder, "cannot be read as a pretrained model")
    save_file({"nonsense": torch.zeros(3)}, weights, metadata={"format": "pt"})
    refused(folder, "the weights lack bert.embeddings.LayerNorm.bias and .* more")
    weights.write_bytes(whole)
    for name in ("tokenizer.json", "vocab.txt"):
        (folder / name).unlink()
    refused(folder, "has no tokenizer.json or vocab.txt")
    (folder / "config.json").write_text("{")
    refused(folder, "cannot be read as a pretrained model")
    (folder / "config.json").unlink()
    refused(folder, "has no config.json")


@pytest.mark.slow
def test_fewer_pairs_on_request():
    options = {"validation": "30", "test": "20"}
    training = task_named("entailment").prepare(RunConfig("entailment", "full", 1, options=options))
    assert (len(training.data.validation), len(training.data.test)) == (30, 20)
    training.model.eval()
    assert len(training.test().losses) == 20
    with pytest.raises(ValueError, match="test must be an integer of 1 or more, got '0'"):
        task_named("entailment").prepare(RunConfig("entailment", "full", 1, options={"test": "0"}))
