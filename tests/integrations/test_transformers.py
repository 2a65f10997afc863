"""The PrecisionCallback of the transformers Trainer: bits, total steps, logs, exact resume, plain saved models."""

import copy
import json

import pytest
import torch

pytest.importorskip("accelerate", reason="the Trainer needs accelerate: pip install 'bitcycle[trainer]'")

from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    CLIPConfig,
    CLIPModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import bitcycle as bc
from bitcycle.integrations.transformers import PrecisionCallback

LENGTH, PAIRS = 6, 22
SCHEDULE = "CR:3-8:cycles=2"


def tiny_model(**changes):
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    return BertForSequenceClassification(BertConfig(vocab_size=40, max_position_embeddings=8, **sizes, **changes))


def data():
    random = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, 40, (PAIRS, LENGTH), generator=random)
    return [{"input_ids": row, "labels": int(row.sum() % 2)} for row in tokens]


def trainer_for(folder, model, *callbacks, **arguments):
    """Six optimiser steps: two epochs of 22 examples, in batches of 4, two batches a step."""
    settings = {
        "num_train_epochs": 2,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "logging_steps": 1,
        "save_strategy": "no",
        "learning_rate": 1e-2,
        "disable_tqdm": True,
        "use_cpu": True,
    }
    arguments = TrainingArguments(output_dir=str(folder), **{**settings, **arguments})
    return Trainer(model, arguments, train_dataset=data(), eval_dataset=data(), callbacks=list(callbacks))


class StopAfter(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **others):
        control.should_save = control.should_training_stop = state.global_step == self.step


def logged(trainer, name):
    return [entry[name] for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.slow
def test_bits_and_saving_follow_the_schedule_over_the_trainers_steps(tmp_path):
    model = bc.quantize(tiny_model(), keep="classifier")
    examples = data()
    batch = {"input_ids": torch.stack([each["input_ids"] for each in examples]), "labels": torch.zeros(PAIRS).long()}
    cost = bc.cost(model, batch)
    callback = PrecisionCallback(SCHEDULE, backward_bits=7)
    trainer = trainer_for(tmp_path, model, callback)
    result = trainer.train()
    assert logged(trainer, "bits") == list(bc.schedule(SCHEDULE).over(6))
    # Steps 2 and 5 have the rest of an epoch: 6 of 22 examples. The others have 8.
    spent = sum(n * cost.bitops(bits, 7) for n, bits in zip((8, 8, 6) * 2, bc.schedule(SCHEDULE).over(6), strict=True))
    assert result.metrics["bitops"] == spent / PAIRS
    assert result.metrics["saving"] == 1 - spent / (2 * PAIRS * cost.bitops(8, 7))
    assert not model._forward_pre_hooks, "the meter is still on the model"
    trainer.train()  # a second training begins at step 0, without a warning about two schedulers
    assert logged(trainer, "bits") == list(bc.schedule(SCHEDULE).over(6))


@pytest.mark.slow
def test_a_reporting_callback_that_comes_later_sees_bits_and_cost(tmp_path):
    pytest.importorskip("tensorboard", reason="pip install 'bitcycle[tensorboard]'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter
    from transformers.integrations import TensorBoardCallback

    callbacks = (PrecisionCallback(SCHEDULE), TensorBoardCallback(SummaryWriter(str(tmp_path / "events"))))
    trainer_for(tmp_path, bc.quantize(tiny_model()), *callbacks, report_to="none").train()
    events = EventAccumulator(str(tmp_path / "events")).Reload()
    assert {"train/bits", "train/saving", "train/bitops"} <= set(events.Tags()["scalars"])
    assert [event.value for event in events.Scalars("train/bits")][:6] == list(bc.schedule(SCHEDULE).over(6))


@pytest.mark.slow
@pytest.mark.parametrize("stop", [1, 4])
def test_a_resumed_training_equals_an_uninterrupted_one_bit_for_bit(stop, tmp_path):
    """In the middle of an epoch, with dropout, and with rounding to 2 bits, whose noise dominates the gradients."""

    def begin(name, *others):
        model = bc.quantize(tiny_model())
        return trainer_for(tmp_path / name, model, PrecisionCallback("CR:2-8:cycles=2", backward_bits=2), *others)

    whole = begin("whole")
    whole.train()
    begin("parts", StopAfter(stop)).train()
    resumed = begin("parts")
    resumed.train(resume_from_checkpoint=True)
    for (name, expected), parameter in zip(whole.model.named_parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(expected, parameter), name
    for name in ("bits", "saving", "bitops", "loss"):
        assert logged(resumed, name) == logged(whole, name), name


@pytest.mark.slow
def test_restoring_callbacks_from_the_checkpoint_changes_nothing(tmp_path):
    trainer_for(tmp_path, bc.quantize(tiny_model()), PrecisionCallback(SCHEDULE), StopAfter(4)).train()
    callback = PrecisionCallback(SCHEDULE)
    options = {"restore_callback_states_from_checkpoint": True}
    trainer = trainer_for(tmp_path, bc.quantize(tiny_model()), callback, **options)
    trainer.train(resume_from_checkpoint=True)
    assert callback in trainer.callback_handler.callbacks
    assert logged(trainer, "bits") == list(bc.schedule(SCHEDULE).over(6))


@pytest.mark.slow
def test_two_callbacks_control_two_parts(tmp_path):
    model = bc.quantize(tiny_model())
    parts = [PrecisionCallback("static:4", 6, where="bert.*"), PrecisionCallback("static:8", 8, where="classifier")]
    trainer = trainer_for(tmp_path, model, *parts, StopAfter(4))
    trainer.train()
    assert {row.name.partition(".")[0]: (row.forward, row.backward) for row in bc.summary(model).sites} == {
        "bert": (4, 6),
        "classifier": (8, 8),
    }
    state = json.loads((tmp_path / "checkpoint-4" / "trainer_state.json").read_text())["stateful_callbacks"]
    assert {name for name in state if name.startswith("bitcycle")} == {"bitcycle bert.*", "bitcycle classifier"}


@pytest.mark.slow
def test_evaluation_is_at_q_max_also_for_the_best_model(tmp_path):
    model = bc.quantize(tiny_model(hidden_dropout_prob=0.0))
    every = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}
    trainer = trainer_for(tmp_path, model, PrecisionCallback("RR:2-5"), load_best_model_at_end=True, **every)
    trainer.train()
    best = AutoModelForSequenceClassification.from_pretrained(trainer.state.best_model_checkpoint)
    bc.quantize(best)
    bc.set_bits(best, forward=5)
    # The batches of the Trainer: a matrix product of another size may differ in its last digits.
    batches = torch.stack([each["input_ids"] for each in data()]).split(trainer.args.eval_batch_size)
    with torch.no_grad():
        expected = torch.cat([best.eval()(input_ids=batch).logits for batch in batches])
    assert torch.equal(torch.from_numpy(trainer.predict(data()).predictions), expected)


def clip():
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    text = {**sizes, "vocab_size": 40, "bos_token_id": 1, "eos_token_id": 2}
    vision = {**sizes, "image_size": 16, "patch_size": 8}
    return CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=8))


@pytest.mark.parametrize("make", [tiny_model, clip])
def test_a_saved_model_is_a_plain_model(make, tmp_path):
    """CLIP multiplies in the ``forward`` of the model itself, so that its own class is a converted one."""
    model = make()
    plain = copy.deepcopy(model)
    bc.quantize(model)
    bc.set_bits(model, forward=4, backward=8)
    converted = type(model)
    model.save_pretrained(tmp_path / "converted")
    plain.save_pretrained(tmp_path / "plain")
    assert type(model) is converted
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "converted" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()
    assert json.loads((tmp_path / "converted" / "config.json").read_text())["architectures"] == [type(plain).__name__]


class Tied(torch.nn.Module):
    """A model whose own forward multiplies, so that its own class is converted."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.linear = torch.nn.Embedding(40, 8), torch.nn.Linear(8, 8)

    def forward(self, input_ids, labels=None):
        logits = self.linear(self.embedding(input_ids)).mean(1) @ self.embedding.weight.T
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


@pytest.mark.slow
def test_a_model_that_multiplies_itself_gets_its_columns_and_labels(tmp_path):
    """The Trainer reads from the signature of forward which columns of the data the model takes."""
    trainer = trainer_for(tmp_path, bc.quantize(Tied()), PrecisionCallback("static:8"), max_steps=1)
    trainer.train()
    assert trainer.label_names == ["labels"]
    assert "eval_loss" in trainer.evaluate()


def test_a_model_that_accelerate_has_wrapped_can_be_restored():
    """Accelerate stores a wrapped forward on the model, which stays there when the model is unwrapped."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)  # that of the Trainers of other tests
    accelerator = Accelerator(mixed_precision="bf16", cpu=True)
    model = bc.quantize(Tied())
    bc.set_bits(model, forward=3, backward=8)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    prepared, _ = accelerator.prepare(model, optimizer)
    batch = {"input_ids": torch.randint(0, 40, (4, LENGTH)), "labels": torch.tensor([0, 1, 2, 3])}
    prepared(**batch)
    quantised = prepared(**batch)["logits"]
    restored = bc.restore(accelerator.unwrap_model(prepared))
    assert type(restored) is Tied
    assert not torch.equal(restored(**batch)["logits"], quantised)
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.slow
def test_misuse_is_one_line(tmp_path):
    with pytest.raises(ValueError, match="the model has no quantised layer: convert it first with bc.quantize"):
        trainer_for(tmp_path, tiny_model(), PrecisionCallback(SCHEDULE)).train()
    with pytest.raises(TypeError, match="backwards_bits"):
        PrecisionCallback(SCHEDULE, backwards_bits=8)
    with pytest.raises(ValueError, match="RTX"):
        PrecisionCallback("RTX:3-8")
