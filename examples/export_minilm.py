"""Export a fine-tuned MiniLM to ONNX, and compare its predictions on the test part of SNLI.

    python examples/export_minilm.py --model out/minilm/model --data FOLDER/snli_devtest --out out/minilm

The model is a folder that save_pretrained wrote, as examples/trainer_minilm.py does. The data folder has a test.txt
with lines "premise TAB hypothesis TAB label".
"""

import argparse
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import bitcycle as bc

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--model", type=Path, required=True)
parser.add_argument("--data", type=Path, required=True)
parser.add_argument("--out", type=Path, default=Path("out/minilm"))
parser.add_argument("--bits", type=int, default=8)
parser.add_argument("--pairs", type=int, help="compare only so many pairs")
options = parser.parse_args()

tokenizer = AutoTokenizer.from_pretrained(options.model)
model = bc.quantize(AutoModelForSequenceClassification.from_pretrained(options.model), keep="classifier")
bc.set_bits(model, evaluate=options.bits)
lines = (options.data / "test.txt").read_text(encoding="utf-8").splitlines()[: options.pairs]
pairs = [line.split("\t") for line in lines]
batches = []
for start in range(0, len(pairs), 64):
    premises, hypotheses, _ = zip(*pairs[start : start + 64], strict=True)
    tokens = tokenizer(premises, hypotheses, truncation=True, max_length=64, padding=True, return_tensors="pt")
    batches.append(dict(tokens))

dynamic = {name: {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC} for name in batches[0]}
options.out.mkdir(parents=True, exist_ok=True)
for kernels in ("exact", "integer"):
    path = options.out / f"{kernels}.onnx"
    print(bc.export_onnx(model, batches[0], path, kernels=kernels, dynamic_shapes=dynamic))
    print(f"on the test part:\n{bc.check_onnx(path, model, batches)}", flush=True)
