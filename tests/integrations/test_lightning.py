"""Lightning's PrecisionCallback: bits, total steps, logs, exact resume inside an epoch, several optimisers."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

pytest.importorskip("lightning", reason="pip install 'bitcycle[lightning]'")

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, ModelCheckpoint

import bitcycle as bc
from bitcycle.integrations.lightning import PrecisionCallback

pytestmark = [  # Lightning's advice about loaders, and what torch says about Lightning
    pytest.mark.filterwarnings("ignore::lightning.fabric.utilities.warnings.PossibleUserWarning"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
]

SCHEDULE = "CR:3-8:cycles=2"
X = torch.randn(22, 6, generator=torch.Generator().manual_seed(1))
Y = (X[:, :1] * X[:, 1:2] > 0).float()


class Loader(DataLoader):
    """Batches in a random order that is a function of the epoch; it can begin in the middle of one."""

    def __init__(self):
        super().__init__(TensorDataset(X, Y), batch_size=4)
        self.position = 0

    def __iter__(self):
        epoch, done = divmod(self.position, len(self))
        order = torch.randperm(len(self.dataset), generator=torch.Generator().manual_seed(epoch))
        for batch in order.split(4)[done:]:
            self.position += 1
            yield self.dataset[batch]

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]


class Classifier(LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))

    def loss(self, batch):
        return nn.functional.binary_cross_entropy_with_logits(self.model(batch[0]), batch[1])

    def training_step(self, batch, index):
        return self.loss(batch)

    def validation_step(self, batch, index):
        self.log("validation_loss", self.loss(batch))

    def test_step(self, batch, index):
        self.log("test_loss", self.loss(batch))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.05)


class Adversaries(Classifier):
    """Two optimisers that step on every second batch only."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.critic = nn.Linear(6, 1)

    def training_step(self, batch, index):
        for model, optimizer in zip((self.model, self.critic), self.optimizers(), strict=True):
            self.manual_backward(nn.functional.binary_cross_entropy_with_logits(model(batch[0]), batch[1]))
            if index % 2:
                optimizer.step()
                optimizer.zero_grad()

    def configure_optimizers(self):
        return [torch.optim.Adam(model.parameters(), 0.05) for model in (self.model, self.critic)]


class KilledError(Exception):
    pass


class Recorder(Callback):
    """Keeps the bits of each batch and what was shown and logged before it; "kills" the training after a step."""

    def __init__(self, stop=None):
        self.bits, self.shown, self.logged, self.stop = [], [], [], stop

    def on_train_batch_start(self, trainer, module, *others):
        layer = module.model[0]
        self.bits.append(layer.bitcycle.sites[""].forward_bits if hasattr(layer, "bitcycle") else None)
        self.shown.append(trainer.progress_bar_metrics.get("bits"))
        self.logged.append({name: float(value) for name, value in trainer.logged_metrics.items()})

    def on_train_batch_end(self, trainer, *others):
        if trainer.global_step == self.stop:
            trainer.save_checkpoint(f"{trainer.default_root_dir}/stopped.ckpt")
            raise KilledError


def trainer_for(folder, *callbacks, **options):
    settings = {"max_epochs": 2, "accumulate_grad_batches": 2, "log_every_n_steps": 1, "logger": True}
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu", "devices": 1}
    options = {**settings, **quiet, "enable_checkpointing": False, **options}
    return Trainer(default_root_dir=folder, callbacks=list(callbacks), **options)


def twice(bits):
    """Two batches a step."""
    return [width for width in bits for _ in range(2)]


def test_bits_follow_the_schedule_over_lightnings_steps(tmp_path):
    """Six optimiser steps: two epochs of six batches, two batches a step."""
    module, recorder = bc.quantize(Classifier(), keep="model.3"), Recorder()
    cost = bc.cost(module.model, X)
    trainer = trainer_for(tmp_path, PrecisionCallback(SCHEDULE, backward_bits=7), recorder)
    expected = list(bc.schedule(SCHEDULE).over(6))
    trainer.fit(module, Loader())
    assert recorder.bits == twice(expected)
    assert [float(bits) for bits in recorder.shown[2::2]] == expected[:-1], "the progress bar"
    # Each epoch ends with a batch of 2 examples.
    spent = sum(n * cost.bitops(bits, 7) for n, bits in zip((8, 8, 6) * 2, expected, strict=True)) / 22
    assert float(trainer.logged_metrics["bitops"]) == pytest.approx(spent, rel=1e-6)  # float32 in Lightning
    assert float(trainer.logged_metrics["saving"]) == pytest.approx(1 - spent / (2 * cost.bitops(8, 7)), rel=1e-6)
    assert not module.model._forward_pre_hooks, "the meter is still on the model"


@pytest.mark.parametrize("kind", [Classifier, Adversaries])
def test_a_resumed_training_equals_an_uninterrupted_one_bit_for_bit(kind, tmp_path):
    """Stopped in the middle of the second epoch. Rounding to 2 bits makes the noise dominate the gradients."""
    manual = kind is Adversaries
    total = {"total_steps": 6} if manual else {}

    def fit(recorder, **resume):
        module = bc.quantize(kind())
        trainer = trainer_for(
            tmp_path,
            PrecisionCallback("CR:2-8:cycles=2", backward_bits=2, **total),
            recorder,
            accumulate_grad_batches=1 if manual else 2,
        )
        trainer.fit(module, Loader(), **resume)
        return module, trainer

    whole, _ = fit(whole_log := Recorder())
    with pytest.raises(KilledError):
        fit(Recorder(stop=8 if manual else 4))
    resumed, trainer = fit(resumed_log := Recorder(), ckpt_path=tmp_path / "stopped.ckpt", weights_only=True)
    for (name, expected), value in zip(whole.state_dict().items(), resumed.state_dict().values(), strict=True):
        assert torch.equal(expected, value), name
    assert resumed_log.logged[-1] == whole_log.logged[-1]
    assert trainer.global_step == (12 if manual else 6)


def test_several_optimisers_step_the_precision_once_per_batch(tmp_path):
    recorder = Recorder()
    trainer = trainer_for(tmp_path, PrecisionCallback(SCHEDULE, total_steps=6), recorder, accumulate_grad_batches=1)
    trainer.fit(bc.quantize(Adversaries()), Loader())
    assert recorder.bits == twice(bc.schedule(SCHEDULE).over(6))


def test_validation_and_test_of_a_checkpoint_are_at_q_max(tmp_path):
    """Also in a new process, which has not trained and takes the bits from the checkpoint."""
    data = DataLoader(TensorDataset(X, Y), batch_size=22)

    def parts():
        checkpoints = ModelCheckpoint(tmp_path / "best", monitor="validation_loss")
        trainer = trainer_for(tmp_path, PrecisionCallback("RR:2-5"), checkpoints, enable_checkpointing=True)
        return checkpoints, trainer, bc.quantize(Classifier())

    checkpoints, trainer, module = parts()
    trainer.fit(module, Loader(), data)
    best = checkpoints.best_model_path
    after_training = trainer.test(module, data, ckpt_path=best)
    _, new_trainer, new_module = parts()
    fresh = new_trainer.test(new_module, data, ckpt_path=best, weights_only=True)
    expected = bc.quantize(Classifier())
    expected.load_state_dict(torch.load(best, weights_only=True)["state_dict"])
    bc.set_bits(expected, forward=5)
    with torch.no_grad():
        loss = expected.eval().loss((X, Y)).item()
    assert after_training == fresh == [{"test_loss": loss}]
    assert loss == pytest.approx(float(checkpoints.best_model_score), rel=1e-6)


def test_a_checkpoint_without_precision_continues_at_its_step(tmp_path):
    with pytest.raises(KilledError):
        trainer_for(tmp_path, Recorder(stop=4)).fit(Classifier(), Loader())
    trainer = trainer_for(tmp_path, PrecisionCallback(SCHEDULE), recorder := Recorder())
    trainer.fit(bc.quantize(Classifier()), Loader(), ckpt_path=tmp_path / "stopped.ckpt", weights_only=True)
    assert recorder.bits == twice(bc.schedule(SCHEDULE).over(6)[4:])


def test_what_is_not_called_as_a_module_has_no_cost_and_a_warning(tmp_path):
    class Bypassing(Classifier):
        def loss(self, batch):
            return self.model[3](self.model[0](batch[0])).mean()

    trainer = trainer_for(tmp_path, PrecisionCallback(SCHEDULE))
    module = bc.quantize(Bypassing())
    with pytest.warns(UserWarning, match="the cost is not measured"):
        trainer.fit(module, Loader())
    assert set(trainer.logged_metrics) == {"bits"}
    assert not module.model._forward_pre_hooks, "a meter stays on the model"


def test_misuse_is_one_line(tmp_path):
    with pytest.raises(ValueError, match="the model has no quantised layer: convert it first with bc.quantize"):
        trainer_for(tmp_path, PrecisionCallback(SCHEDULE)).fit(Classifier(), Loader())
    unknown = pytest.raises(ValueError, match=r"number of training steps is unknown: pass .*total_steps=N")
    with unknown:
        trainer_for(tmp_path, PrecisionCallback(SCHEDULE), max_epochs=-1).fit(bc.quantize(Classifier()), Loader())
    limited = {"accumulate_grad_batches": 1, "max_steps": 4}
    with unknown:  # 4 steps of all optimisers together
        trainer_for(tmp_path, PrecisionCallback(SCHEDULE), **limited).fit(bc.quantize(Adversaries()), Loader())
    with pytest.raises(TypeError, match="backwards_bits"):
        PrecisionCallback(SCHEDULE, backwards_bits=8)
