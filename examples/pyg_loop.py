"""A graph network of torch_geometric on the graph of the nearest neighbours of scikit-learn's digits.

python examples/pyg_loop.py
"""

import argparse

import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph
from torch import nn
from torch_geometric.nn import GCN

import bitcycle as bc

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
options = parser.parse_args()

images, labels = load_digits(return_X_y=True)
graph = kneighbors_graph(images, 6).tocoo()
edges = torch.stack([torch.from_numpy(each).long() for each in (graph.row, graph.col)])
x, y = torch.from_numpy(images).float() / 16, torch.from_numpy(labels)
torch.manual_seed(0)
order = torch.randperm(len(y))
train, test = order[:180], order[180:]  # one label in ten is known

model = GCN(64, 64, num_layers=2, out_channels=10, dropout=0.5)
bc.quantize(model, bc.Recipe(aggregation="quantized"))
optimizer = torch.optim.Adam(model.parameters(), 0.01, weight_decay=5e-4)
precision = bc.PrecisionScheduler(model, "CR:3-8", total_steps=options.steps, backward_bits=8)
for step in range(options.steps):
    model.train()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x, edges)[train], y[train])
    loss.backward()
    optimizer.step()
    precision.step()
    if step % 20 == 19:
        print(f"step {step + 1}: loss {loss.item():.3f}, next {precision.bits} bits")

model.eval()
print(f"accuracy {(model(x, edges)[test].argmax(1) == y[test]).float().mean():.4f}")
