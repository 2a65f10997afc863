"""Two processes on gloo: DistributedDataParallel and FSDP2."""

import os
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import os
import sys
import torch
import torch.distributed as dist
from torch import nn
import bitcycle as bc

rank, port, kind = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
bc.quantize(model)
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
dist.barrier()
os._exit(0)  # all is checked; gloo's threads at times abort an interpreter that shuts down in its own order
"""


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_two_processes_stay_together(kind, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    port = str(29500 + os.getpid() % 2000 + (kind == "fsdp"))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(program), str(rank), port, kind],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for rank in range(2)
    ]
    outputs = [rank.communicate(timeout=240)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(outputs)
    assert "sum" in outputs[0]
