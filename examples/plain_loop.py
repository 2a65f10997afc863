"""A plain training loop on scikit-learn's digits, with a checkpoint after each epoch.

    python examples/plain_loop.py --out out/plain

The same command resumes an interrupted training, bit for bit.
"""

import argparse
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

import bitcycle as bc

parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path, default=Path("out/plain"))
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--stop", type=int, help="stop after so many epochs of them")
options = parser.parse_args()
options.out.mkdir(parents=True, exist_ok=True)
file = options.out / "checkpoint.pt"

x, y = (torch.from_numpy(each) for each in load_digits(return_X_y=True))
x = x.float() / 16
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
bc.quantize(model, keep="4")
optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
precision = bc.PrecisionScheduler(model, "RTH:3-8", total_steps=options.epochs * 45, backward_bits=8)
parts = {"model": model, "optimizer": optimizer, "precision": precision}
if file.exists():
    for name, state in torch.load(file, weights_only=True).items():
        parts[name].load_state_dict(state)

for epoch in range(precision.current_step // 45, options.stop or options.epochs):
    order = torch.randperm(1437, generator=torch.Generator().manual_seed(epoch))
    for batch in order.split(32):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
        precision.step()
    torch.save({name: part.state_dict() for name, part in parts.items()}, file)
    print(f"epoch {epoch + 1}: loss {loss.item():.3f}, next {precision.bits} bits")

model.eval()  # evaluation is at 8 bits, the largest width of the schedule
print(f"accuracy {(model(x[1437:]).argmax(1) == y[1437:]).float().mean():.4f}")
