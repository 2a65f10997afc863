"""A loop in the style of timm's train.py: an average of the weights, a learning-rate schedule per update, clipping.

python examples/timm_style_loop.py
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import bitcycle as bc

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
options = parser.parse_args()
updates = options.epochs * 45

x, y = (torch.from_numpy(each) for each in load_digits(return_X_y=True))
x = x.float().view(-1, 1, 8, 8) / 16
torch.manual_seed(0)
layers = [nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32), nn.ReLU()]
model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))
bc.quantize(model, keep="7")
optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9, nesterov=True)
rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=updates)
precision = bc.PrecisionScheduler(model, "CR:3-8", total_steps=updates, backward_bits=8)
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.98), use_buffers=True)  # after the scheduler

with bc.Meter(model) as meter:
    for epoch in range(options.epochs):
        model.train()
        for batch in torch.randperm(1437).split(32):
            loss = nn.functional.cross_entropy(model(x[batch]), y[batch], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            rate.step()
            precision.step()
            average.update_parameters(model)
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}, saving {meter.saving:.1%} of the cost of 8 bits")

average.eval()  # the average evaluates at 8 bits too
print(f"accuracy {(average(x[1437:]).argmax(1) == y[1437:]).float().mean():.4f}")
