"""Every mistake gets one line on stderr that says what is wrong, and exit code 2."""

import shlex

import pytest

from tests.support.command import bitcycle

OWN = """
import torch
from torch import nn

def wrong():
    return nn.Linear(2, 2)

class Net(nn.Module):
    def __init__(self, width):
        super().__init__()

def unfit():
    return nn.Linear(2, 2), torch.zeros(3, 4)

def fails():
    raise RuntimeError("no\\nluck")

number = 7
"""

MISTAKES = {
    "advise --save 95": "the most is 81.2 %, by static:2",
    "advise --save 0": "--save must be a percentage above 0 and below 100, got 0",
    "advise --bits 3 8 --q-max 8": "q_max is given twice",
    "advise --margin 1": "margin applies to records of your own runs only",
    "advise --study mine": "there is no store",
    "advise --model mine:nothing": "mine.py has no nothing",
    "cost resnet-20": "did you mean 'cifar-resnet-20'",
    "cost cifar-resnet-8 --schedules eleven": "--schedules must be 'ten', got 'eleven'",
    "cost mine:wrong": "mine:wrong must return a model and example inputs, got Linear",
    "cost mine:Net": "calling mine:Net without arguments raised TypeError",
    "cost mine:unfit": "the model of mine:unfit failed on its example inputs: RuntimeError: mat1 and mat2 shapes",
    "cost mine:fails": "mine:fails without arguments raised RuntimeError: no luck",
    "cost mine:number": "calling mine:number without arguments raised TypeError: 'int' object is not callable",
    "cost broken:make": "broken.py line 1: ZeroDivisionError: division by zero, in '1 / 0'",
    "deficit image --lengths 0,x": "--lengths must be a list of numbers such as 0,0.5,1, got '0,x'",
    "deploy-check .": "has no checkpoint: train with",
    "export .": "nothing to write: give --onnx FILE.onnx, --weights FILE.pt, or both",
    "nonsense": "no such command 'nonsense'; see 'bitcycle --help'",
    "range-test graph --batch-size 1000000000000": "batch_size must be from 0 to 100000000, got 1000000000000",
    "range-test graph --levels 8 2": "--levels must be the lowest and the highest in this order, got 8 2",
    "report --store nowhere.sqlite": "there is no store nowhere.sqlite",
    "schedules CX": "unknown schedule 'CX'",
    "schedules --plot ten.jpg": "a .png or .svg file",
    "schedules --plot /dev/null/ten.png": "File exists",
    "schedules --backward-bits 0": "backward_bits must be an integer of 1 or more, got 0",
    "schedules --strength 1.5": "strength must be a number from 0 (full precision) to 1 (on the grid), got 1.5",
    "study deficit.toml --cycles 2": "deficits have no cycles",
    "study flag.toml": "autocast must be true or false, got 'yes'",
    "study graph --data /no/where": "/no/where: there is no such file or folder",
    "study graph --device foo": "the device 'foo' cannot be used here: ",
    "study graph --workers -1": "workers must be 0 or more, got -1",
    "study pairs.toml": "bits must have one value in a deficit, got 2",
    "study imag": "unknown task 'imag'; did you mean 'image'",
    "study nowhere.toml": "there is no plan nowhere.toml",
    "study image --engine slurm": (
        "invalid value for '--engine': 'slurm' is not one of 'local', 'ray'; see 'bitcycle study --help'"
    ),
    "study image --gpus 1": "address and gpus need the engine 'ray'",
    "study image --option colour": "--option must be NAME=VALUE, got 'colour'",
    "train graph --data corra": "no official data set of that name; did you mean 'cora'?",
    "train graph --device foo": "the device 'foo' cannot be used here: ",
    "train graph --steps 4 --checkpoint-every 0": "steps between checkpoints",
    "train image --preset papr": "the task image has no preset 'papr'",
}


PLANS = {
    "deficit.toml": '[[deficit]]\ntask = "graph"\n',
    "flag.toml": 'task = "graph"\nautocast = "yes"\n',
    "pairs.toml": '[[deficit]]\ntask = "graph"\nbits = [[1, 8], [2, 8]]\n',
}


@pytest.mark.slow
@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_gets_one_line(line, tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    for name, text in PLANS.items():
        (tmp_path / name).write_text(text)
    done = bitcycle(*shlex.split(line), cwd=tmp_path)
    assert done.returncode == 2
    assert MISTAKES[line] in done.stderr
    assert done.stderr.startswith("bitcycle: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
