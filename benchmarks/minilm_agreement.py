"""How much of a difference between two evaluations of the same quantised MiniLM is the order of floating-point sums?

    python benchmarks/minilm_agreement.py --model MODEL --data FOLDER/snli_devtest --onnx out/minilm/exact.onnx

Compares bitcycle's simulated evaluation at 8 bits with evaluations that multiply the same values: in double precision,
one pair at a time, in integers, and by the ONNX file that examples/export_minilm.py wrote. Only the order and the
precision of sums differ.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import bitcycle as bc
from bitcycle._export.agreement import feed, open_session


def converted(folder: Path, execute: str, dtype: torch.dtype = torch.float32) -> Any:
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=dtype)
    bc.quantize(model, keep="classifier", execute=execute)
    bc.set_bits(model, evaluate=8)
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--onnx", type=Path, required=True, help="the exact file")
    parser.add_argument("--pairs", type=int, default=256)
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    lines = (options.data / "test.txt").read_text(encoding="utf-8").splitlines()[: options.pairs]
    pairs = [line.split("\t") for line in lines]

    def batches(size: int) -> Iterator[dict[str, Tensor]]:
        for start in range(0, len(pairs), size):
            premises, hypotheses, _ = zip(*pairs[start : start + size], strict=True)
            tokens = tokenizer(premises, hypotheses, truncation=True, max_length=64, padding=True, return_tensors="pt")
            yield dict(tokens)

    def logits(run: Callable[[dict[str, Tensor]], Tensor], size: int = 64) -> Tensor:
        with torch.no_grad():
            return torch.cat([run(batch).double() for batch in batches(size)])

    simulated = converted(options.model, "simulated")
    session, _ = open_session(options.onnx)
    reference = logits(lambda batch: simulated(**batch).logits)
    others = {}
    for name, model in (
        ("double precision", converted(options.model, "simulated", torch.float64)),
        ("integers", converted(options.model, "integer")),
    ):
        others[name] = logits(lambda batch, model=model: model(**batch).logits)
    others["one pair at a time"] = logits(lambda batch: simulated(**batch).logits, 1)
    others["ONNX file"] = logits(lambda batch: torch.from_numpy(session.run(None, feed(session, batch))[0]))
    for name, found in others.items():
        difference = (found - reference).abs()
        equal = (found.argmax(1) == reference.argmax(1)).double().mean()
        print(
            f"{name}: {equal:.2%} of predictions equal, mean difference {difference.mean():.4f}, "
            f"largest {difference.max():.3f}, of logits up to {reference.abs().max():.2f}"
        )


if __name__ == "__main__":
    main()
