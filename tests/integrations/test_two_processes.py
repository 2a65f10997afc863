"""The callbacks in two processes on gloo (DistributedDataParallel): equal bits, equal weights, different noise."""

import pytest

from tests.ecosystem.test_distributed import run_two

pytestmark = pytest.mark.slow

SCRIPT = """
import os
import sys

rank, port, folder = sys.argv[1:]
os.environ.update(  # as torchrun does
    RANK=rank, LOCAL_RANK=rank, WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", GROUP_RANK="0", TORCHELASTIC_RUN_ID="test",
    MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
)

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import bitcycle as bc

SCHEDULE = "CR:3-8:cycles=2"


def from_both(tensor):
    gathered = [torch.empty_like(tensor) for _ in range(2)]
    dist.all_gather(gathered, tensor.contiguous())
    return gathered


def check(name, model, start, bits, inputs):
    own = list(bc.schedule(SCHEDULE).over(len(bits)))
    assert bits == own, (name, bits, own)
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert not torch.equal(weights, start), f"{name}: nothing was learnt"
    first, second = from_both(weights)
    assert torch.equal(first, second), f"{name}: the ranks have come apart"
    bc.set_bits(model, forward=8, backward=3)
    model.train().zero_grad()
    out = model(inputs)
    (out if torch.is_tensor(out) else out.logits).square().sum().backward()
    noise = from_both(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert not torch.equal(*noise), f"{name}: the ranks draw the same noise"
    print(name, "passed", flush=True)


def flat(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def hugging_face():
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    from bitcycle.integrations.transformers import PrecisionCallback

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = BertForSequenceClassification(BertConfig(vocab_size=40, max_position_embeddings=8, **sizes, **dropout))
    bc.quantize(model, keep="classifier")
    start = flat(model)
    tokens = torch.randint(0, 40, (32, 6), generator=torch.Generator().manual_seed(1))
    data = [{"input_ids": row, "labels": int(row.sum() % 2)} for row in tokens]
    arguments = TrainingArguments(
        folder, max_steps=6, per_device_train_batch_size=2, gradient_accumulation_steps=2, logging_steps=1,
        learning_rate=1e-2, save_strategy="no", disable_tqdm=True, use_cpu=True, ddp_backend="gloo", report_to="none",
    )
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[PrecisionCallback(SCHEDULE, backward_bits=3)])
    trainer.train()
    assert trainer.args.world_size == 2
    assert isinstance(trainer.model_wrapped, nn.parallel.DistributedDataParallel)
    history = [entry["bits"] for entry in trainer.state.log_history if "loss" in entry]
    check("Trainer", model, start, history, tokens[:2])


def lightning():
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.callbacks import Callback

    from bitcycle.integrations.lightning import PrecisionCallback

    class Classifier(LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))

        def training_step(self, batch, index):
            return nn.functional.binary_cross_entropy_with_logits(self.model(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 0.05)

    class Bits(Callback):
        seen = []

        def on_train_batch_end(self, trainer, *others):
            self.seen.append(int(trainer.callback_metrics["bits"]))

    module = bc.quantize(Classifier())
    start = flat(module.model)
    x = torch.randn(24, 6, generator=torch.Generator().manual_seed(1))
    loader = DataLoader(TensorDataset(x, (x[:, :1] > 0).float()), batch_size=2)
    bits = Bits()
    trainer = Trainer(
        max_epochs=1, accelerator="cpu", devices=2, strategy="ddp", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
        callbacks=[PrecisionCallback(SCHEDULE, backward_bits=3), bits],
    )
    trainer.fit(module, loader)
    assert trainer.world_size == 2
    check("Lightning", module.model, start, bits.seen, x)


hugging_face()
lightning()
dist.barrier()
os._exit(0)  # gloo's threads at times abort an interpreter that shuts down in its own order
"""


def test_trainer_and_lightning_in_two_processes(tmp_path):
    pytest.importorskip("accelerate", reason="pip install 'bitcycle[trainer]'")
    pytest.importorskip("lightning", reason="pip install 'bitcycle[lightning]'")
    for printed in run_two(tmp_path, SCRIPT, str(tmp_path)):
        assert "Trainer passed" in printed
        assert "Lightning passed" in printed
