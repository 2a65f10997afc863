"""A model converter as torchtitan calls it: convert on the meta device, then a hook after each step of the optimiser.

    python examples/converter_loop.py

In torchtitan, register the converter with the trainer and add it to the states of its checkpoints. With pipeline
parallelism, also call converter.attach(model_parts) before training starts.
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn

from bitcycle.integrations.torchtitan import PrecisionConverter

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
options = parser.parse_args()

with torch.device("meta"):
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
converter = PrecisionConverter("RTH:3-8", total_steps=options.steps, backward_bits=8, conversion={"keep": "4"})
converter.convert(model)
torch.manual_seed(0)
model.to_empty(device="cpu")
for layer in model[::2]:
    layer.reset_parameters()

optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
optimizer.register_step_post_hook(lambda *_: converter.post_optimizer_hook([model]))
x, y = (torch.from_numpy(each) for each in load_digits(return_X_y=True))
x = x.float() / 16
for step in range(options.steps):
    batch = torch.randint(0, 1437, (32,))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
    loss.backward()
    optimizer.step()
    if step % 50 == 49:
        print(f"step {step + 1}: loss {loss.item():.3f}, state {converter.state_dict()}")

model.eval()
print(f"accuracy {(model(x[1437:]).argmax(1) == y[1437:]).float().mean():.4f}")
