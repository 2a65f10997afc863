"""A loop with Accelerate: gradient accumulation, and checkpoints that carry the precision.

python examples/accelerate_loop.py --out out/accelerate
torchrun --nproc-per-node 2 examples/accelerate_loop.py  # two processes
"""

import argparse

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import bitcycle as bc

parser = argparse.ArgumentParser()
parser.add_argument("--out", default="out/accelerate")
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--stop", type=int, help="stop after so many epochs of them")
parser.add_argument("--resume", action="store_true", help="continue after the last epoch that was saved")
options = parser.parse_args()

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
x, y = (torch.from_numpy(each) for each in load_digits(return_X_y=True))
x = x.float() / 16
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
bc.quantize(model, keep="4")  # before prepare, which may wrap the model
loader = DataLoader(TensorDataset(x[:1437], y[:1437]), batch_size=16, shuffle=True, drop_last=True)
model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), 2e-3), loader)
steps = -(-len(loader) // 2)  # in an epoch
precision = bc.PrecisionScheduler(model, "RTH:3-8", total_steps=options.epochs * steps, backward_bits=8)
accelerator.register_for_checkpointing(precision)
if options.resume:
    accelerator.load_state(options.out)

for epoch in range(precision.current_step // steps, options.stop or options.epochs):
    loader.set_epoch(epoch)
    for images, labels in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(images), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:  # the optimiser has made a step
            precision.step()
    accelerator.save_state(options.out)
    accelerator.print(f"epoch {epoch + 1}: loss {loss.item():.3f}, next {precision.bits} bits")

model.eval()
accelerator.print(f"accuracy {(model(x[1437:]).argmax(1) == y[1437:]).float().mean():.4f}")
