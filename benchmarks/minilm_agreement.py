"""How much of a difference between two evaluations of the same quantised MiniLM is the order of floating-point sums?

    python -m benchmarks.minilm_agreement --model MODEL --data FOLDER/snli_devtest --onnx out/minilm/exact.onnx

Compares bitcycle's simulated evaluation at 8 bits with evaluations that multiply the same values: in double precision,
one pair at a time, in integers, and by the ONNX file that examples/export_minilm.py wrote. Only the order and the
precision of sums differ.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import typer
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import bitcycle as bc
from bitcycle._export.agreement import feed, open_session


def converted(folder: Path, execute: str, dtype: torch.dtype = torch.float32) -> Any:
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=dtype)
    bc.quantize(model, keep="classifier", execute=execute)
    bc.set_bits(model, evaluate=8)
    return model.eval()


def main(
    model: Path = typer.Option(),
    data: Path = typer.Option(),
    onnx: Path = typer.Option(help="The exact file."),
    pairs: int = 256,
) -> None:
    """Compare evaluations of the same quantised MiniLM that differ in the order and the precision of sums."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    lines = (data / "test.txt").read_text(encoding="utf-8").splitlines()[:pairs]
    examples = [line.split("\t") for line in lines]

    def batches(size: int) -> Iterator[dict[str, Tensor]]:
        for start in range(0, len(examples), size):
            premises, hypotheses, _ = zip(*examples[start : start + size], strict=True)
            tokens = tokenizer(premises, hypotheses, truncation=True, max_length=64, padding=True, return_tensors="pt")
            yield dict(tokens)

    def logits(run: Callable[[dict[str, Tensor]], Tensor], size: int = 64) -> Tensor:
        with torch.no_grad():
            return torch.cat([run(batch).double() for batch in batches(size)])

    simulated = converted(model, "simulated")
    session, _ = open_session(onnx)
    reference = logits(lambda batch: simulated(**batch).logits)
    doubles, integers = converted(model, "simulated", torch.float64), converted(model, "integer")
    others = {
        "double precision": logits(lambda batch: doubles(**batch).logits),
        "integers": logits(lambda batch: integers(**batch).logits),
        "one pair at a time": logits(lambda batch: simulated(**batch).logits, 1),
        "ONNX file": logits(lambda batch: torch.from_numpy(session.run(None, feed(session, batch))[0])),
    }
    for name, found in others.items():
        difference = (found - reference).abs()
        equal = (found.argmax(1) == reference.argmax(1)).double().mean()
        print(
            f"{name}: {equal:.2%} of predictions equal, mean difference {difference.mean():.4f}, "
            f"largest {difference.max():.3f}, of logits up to {reference.abs().max():.2f}"
        )


if __name__ == "__main__":
    typer.run(main)
