"""Two processes on gloo: DistributedDataParallel and FSDP2, and the rounding noise of the ranks."""

import os
import socket
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

BEGIN = """
import copy
import os
import sys
import torch
import torch.distributed as dist
from torch import nn
import bitcycle as bc

rank, port = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)

def from_both(tensor):
    gathered = [torch.empty_like(tensor) for _ in range(2)]
    dist.all_gather(gathered, tensor)
    return gathered

def quantized():
    torch.manual_seed(0)
    return bc.quantize(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)))
"""

END = """
dist.barrier()
os._exit(0)  # all is checked; gloo's threads at times abort an interpreter that shuts down in its own order
"""

STAY_TOGETHER = """
kind = sys.argv[3]
model = quantized()
precision = bc.PrecisionScheduler(model, "CR:3-8:cycles=2", total_steps=10, backward_bits=8)
if kind == "ddp":
    wrapped = nn.parallel.DistributedDataParallel(model)
else:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (2,))
    for layer in (model[0], model[2], model[4], model):
        fully_shard(layer, mesh=mesh)
    wrapped = model
try:
    bc.quantize(wrapped)
    raise SystemExit("a wrapped model was converted")
except ValueError as error:
    assert "convert it first, then wrap it" in str(error), error
optimizer = torch.optim.SGD(wrapped.parameters(), 0.05)
losses = []
for step in range(10):
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(2 * step + rank))
    optimizer.zero_grad()
    loss = (wrapped(x) - 1).square().mean()
    loss.backward()
    optimizer.step()
    precision.step()
    losses.append(loss.item())
assert losses[-1] < losses[0], losses
weights = torch.cat([(p.full_tensor() if kind == "fsdp" else p).detach().flatten() for p in wrapped.parameters()])
other = weights.clone()
dist.broadcast(other, 0)
assert torch.equal(weights, other), "the ranks have come apart"
if rank == 0:
    print(f"sum {weights.double().sum().item():.12f}", flush=True)
"""

NOISE = """
model = quantized()
precision = bc.PrecisionScheduler(model, "static:4", total_steps=400, backward_bits=2)
x = torch.randn(8, 8, generator=torch.Generator().manual_seed(7))

def gradient(step, run=model):
    precision.load_state_dict({"step": step})
    model.zero_grad()
    (run(x) - 1).square().mean().backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])

gradients = torch.stack([gradient(step) for step in range(400)])
assert torch.equal(gradients[:20], torch.stack([gradient(step) for step in range(20)])), "not reproducible"
compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
assert torch.equal(gradient(3, compiled), gradients[3]), "a compiled graph draws other noise"
noise = (gradients - gradients.mean(0)).double()
first, second = from_both(noise)
correlation = (first * second).sum() / (first.norm() * second.norm())
assert abs(correlation) < 0.02, correlation
ratio = ((first + second) / 2).square().mean() / first.square().mean()
assert 0.45 < ratio < 0.55, ratio
dist.barrier()
dist.destroy_process_group()
alone = gradient(5)
assert torch.equal(alone, gradients[5]) == (rank == 0), "rank 0 draws the noise of a training without ranks"
os._exit(0)
"""

RESUME = """
def begin():
    model = quantized()
    precision = bc.PrecisionScheduler(model, "CR:3-8:cycles=2", total_steps=10, backward_bits=3)
    wrapped = nn.parallel.DistributedDataParallel(model)
    return wrapped, precision, torch.optim.Adam(wrapped.parameters(), 0.01)

def train(parts, start, end):
    wrapped, precision, optimizer = parts
    for step in range(start, end):
        x = torch.randn(8, 8, generator=torch.Generator().manual_seed(2 * step + rank))
        optimizer.zero_grad()
        (wrapped(x) - 1).square().mean().backward()
        optimizer.step()
        precision.step()
    return torch.cat([p.detach().flatten() for p in wrapped.parameters()])

uninterrupted = train(begin(), 0, 10)
first, second = begin(), begin()
assert not torch.equal(train(first, 0, 4), uninterrupted)
for part, saved in zip(second, first):
    part.load_state_dict(copy.deepcopy(saved.state_dict()))
assert torch.equal(train(second, 4, 10), uninterrupted), "a resumed training differs"
"""


def run_two(tmp_path, program, *arguments):
    """Run a program as rank 0 and rank 1, and return what each printed."""
    path = tmp_path / "program.py"
    path.write_text(program)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(path), str(rank), port, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for rank in range(2)
    ]
    outputs = [rank.communicate(timeout=240)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(outputs)
    return outputs


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_two_processes_stay_together(kind, tmp_path):
    assert "sum" in run_two(tmp_path, BEGIN + STAY_TOGETHER + END, kind)[0]


def test_ranks_draw_independent_reproducible_noise(tmp_path):
    """The noise averages out: the mean gradient of two ranks has half the variance of one."""
    run_two(tmp_path, BEGIN + NOISE)


def test_a_distributed_training_resumes_bit_for_bit(tmp_path):
    run_two(tmp_path, BEGIN + RESUME + END)
