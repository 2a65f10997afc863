"""Code of the user: what belongs to it, how it is executed, and one line for everything that is wrong with it."""

import sys
import types

import pytest
import torch
from torch.utils.data import DataLoader

from bitcycle.lab.runs.training import train
from bitcycle.lab.runs.user_code import UserCodeError, code_of_class, read_code
from bitcycle.lab.tasks.user_tasks import load_code, run_identity, write_template
from bitcycle.tasks import LoaderTask, RunConfig, task_named


@pytest.fixture(autouse=True)
def modules(tmp_path, monkeypatch):
    """A working directory of its own, and none of its modules left behind."""
    monkeypatch.chdir(tmp_path)
    before, path = set(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    sys.path[:] = path


def write(tmp_path, **files):
    for name, text in files.items():
        path = tmp_path.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


HEADER = "from bitcycle.tasks import LoaderTask, Task\n"
COMPLETE = """
class Mine(LoaderTask):
    def model(self, run): ...
    def loaders(self, run): ...
    def loss(self, model, batch): ...
"""


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nowhere.py:Mine", "there is no file nowhere.py; 'bitcycle task new nowhere.py' writes one to begin with"),
        ("my-task.py:Mine", "my-task.py: the name of the file must be one that Python can import, such as my_task.py"),
        ("no.where:Mine", "there is no module no.where: No module named 'no'"),
        ("torch._C:Mine", "there is no module torch._C with Python source, here or among the installed packages"),
        ("complete.py:", "'complete.py:' must be FILE.py:NAME or package.module:NAME, as in my_task.py:MyTask"),
        ("complete.py:Mien", "complete.py has no Mien; did you mean 'Mine'?"),
        ("plain.py:Mine", "plain.py: Mine is not a task, a class derived from bitcycle.tasks.LoaderTask or Task"),
        ("plain.py", "plain.py has no task: name a class of it, as in plain.py:MyTask"),
        ("two.py", "two.py has the tasks Mine, Other: name one, as in two.py:Mine"),
        ("bare.py:Mine", "bare.py: Mine has no name, metric, bits, steps; set it as a class attribute"),
        ("methods.py", "methods.py: Mine has no method loss, model; 'bitcycle task new FILE.py' shows an example"),
        ("clash.py", "clash.py: Mine has the name of the built-in task 'image': set another name"),
        ("score.py", "score.py line 3: TypeError: Mine has a score: set metric, its name, and higher_is_better, in "
                     "'class Mine(LoaderTask):'"),
        ("fails.py", "fails.py line 2: ModuleNotFoundError: No module named 'nosuch', in 'import nosuch'"),
        ("deep.py", "helper.py line 2: ZeroDivisionError: division by zero, in '1 / 0'"),
        ("syntax.py", "syntax.py line 2: SyntaxError: '(' was never closed, in 'def f('"),
        ("deeper.py", "wrong.py line 1: SyntaxError: invalid syntax, in 'x = = 1'"),
        ("exits.py", "exits.py line 2: SystemExit: 3, in 'sys.exit(3)'"),
        ("binary.py", "binary.py cannot be read: 'utf-8' codec can't decode byte 0xff in position 0: invalid start "
                      "byte"),
        ("json.py", "json.py has the name of the module json, which is in use: rename it"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(tmp_path, reference, message):
    write(
        tmp_path,
        complete=HEADER + COMPLETE,
        plain="seven = 7\nclass Mine: ...\n",
        two=HEADER + COMPLETE + COMPLETE.replace("Mine", "Other"),
        bare=HEADER + "class Mine(Task):\n    def prepare(self, run): ...\n",
        methods=HEADER + "class Mine(LoaderTask):\n    def loaders(self, run): ...\n",
        clash=HEADER + COMPLETE + "    name = 'image'\n",
        score=HEADER + COMPLETE + "    def score(self, model, batch): ...\n",
        fails="import math\nimport nosuch\n",
        deep="import helper\n",
        helper="\n1 / 0\n",
        syntax="\ndef f(\n",
        deeper="from wrong import x\n",
        wrong="x = = 1\n",
        exits="import sys\nsys.exit(3)\n",
        json="import nothing_else\n",
    )
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole text is compared
        task_named(reference)
    assert str(error.value) == message


def test_a_package_and_what_it_imports(tmp_path):
    write(
        tmp_path,
        lab__tasks__digits=HEADER + "from ..layers import width\nfrom . import constants\n" + COMPLETE,
        lab__tasks__constants="import lab.data.files\n",  # lab/tasks and lab/data have no __init__.py
        lab__layers="width = 8\ndef later():\n    import lab.inner\n",
        lab__inner="",
        lab__data__files="",
        lab__unused="",
        other="",
    )
    (tmp_path / "lab" / "__init__.py").touch()
    code = read_code("lab.tasks.digits:Mine")
    imported = ["__init__", "data/files", "inner", "layers", "tasks/constants", "tasks/digits"]
    assert sorted(code.files) == [f"lab/{name}.py" for name in imported]
    task = load_code(code)
    assert (task.name, task.__module__, len(task.source)) == ("Mine", "lab.tasks.digits", 16)
    assert sys.modules["lab.layers"].width == 8
    write(tmp_path, lab__layers="width = 9\n")
    (tmp_path / "lab" / "inner.py").unlink()
    for name in [name for name in sys.modules if name.partition(".")[0] == "lab"]:
        del sys.modules[name]
    assert load_code(code).source == task.source  # the text that was read is imported, not what the files have become
    assert sys.modules["lab.layers"].width == 8
    sys.modules["lab.layers"].later()


def test_edited_code_is_imported_again_with_what_it_imports(tmp_path):
    write(
        tmp_path, mine=HEADER + "from helper import number\n" + COMPLETE + "    steps = number\n", helper="number = 5\n"
    )
    first = task_named("mine.py:Mine")
    write(tmp_path, helper="number = 6\n")
    second = task_named("mine.py")
    assert (first.steps, second.steps, first.source != second.source) == (5, 6, True)
    assert type(task_named("mine.py")) is type(second)  # nothing has changed


def test_data_beside_the_file_is_found_from_everywhere(tmp_path, monkeypatch):
    write(tmp_path, there__mine=HEADER + COMPLETE + "    data = 'points.csv'\n")
    (tmp_path / "there" / "points.csv").write_text("1,2\n")
    (tmp_path / "other.csv").write_text("1,2\n")
    task = task_named("there/mine.py")
    monkeypatch.chdir("/")
    own = run_identity(task, "")
    given = run_identity(task, str(tmp_path / "other.csv"))
    assert own["data"] == str(tmp_path / "there" / "points.csv")
    assert {key: own[key] for key in ("task", "source", "fingerprint")} == {
        key: given[key] for key in ("task", "source", "fingerprint")
    }


def test_the_template_is_a_task_that_learns(tmp_path):
    assert write_template(tmp_path / "my_digits.py") == "MyDigits"
    with pytest.raises(ValueError, match="my_digits.py exists already: choose another name"):
        write_template(tmp_path / "my_digits.py")
    task = task_named("my_digits.py:MyDigits")
    result, _ = train(RunConfig(schedule="CR:3-8", steps=60, **run_identity(task, "")))
    assert result.metric == "accuracy"
    assert result.test > 0.7


def test_a_class_of_a_notebook(monkeypatch):
    main = types.ModuleType("__main__")  # as in a notebook, without a file
    monkeypatch.setitem(sys.modules, "__main__", main)
    exec(HEADER + COMPLETE, vars(main))
    with pytest.raises(UserCodeError, match="Mine is in no file .* begins with %%writefile my_task.py, and name it as"):
        code_of_class(main.Mine)


def test_a_class_inside_a_function():
    class Hidden(LoaderTask):
        pass

    with pytest.raises(UserCodeError, match="Hidden must be defined at the top level of a file"):
        code_of_class(Hidden)


def loader_task(**methods):
    data = [(torch.zeros(2), torch.zeros(1))] * 4
    given = {
        "model": lambda self, run: torch.nn.Linear(2, 1),
        "loaders": lambda self, run: [DataLoader(data, batch_size=2)] * 3,
        "loss": lambda self, model, batch: model(batch[0]).mean(),
    }
    return type("Mine", (LoaderTask,), {**given, **methods})()


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"loaders": lambda self, run: [1, 2]}, "Mine.loaders must return a training DataLoader, and validation and "
                                                "test data, got int, int"),
        ({"model": lambda self, run: None}, "Mine.model must return a Module, got NoneType"),
        ({"optimizer": lambda self, model, run: 1}, "Mine.optimizer must return a Optimizer, got int"),
        ({"loss": lambda self, model, batch: model(batch[0])}, "Mine.loss must return a tensor with one value, got a "
                                                               r"tensor of shape \(2, 1\)"),
        ({"loss": lambda self, model, batch: 1.0}, "Mine.loss must return a tensor with one value, got float"),
        ({"loss": lambda self, model, batch: torch.zeros(())}, "Mine.loss does not call the model, so its cost cannot"),
    ],
)  # fmt: skip
def test_methods_that_return_the_wrong_thing(methods, message):
    with pytest.raises(ValueError, match=message):
        loader_task(**methods).prepare(RunConfig("Mine", "full", 4)).example()


def test_an_ignored_batch_size_is_refused():
    with pytest.raises(ValueError, match="Mine.loaders ignores run.batch_size: it is 7, but the training loader has 2"):
        loader_task().prepare(RunConfig("Mine", "full", 4, batch_size=7))


def test_the_example_is_what_the_loss_gives_to_the_model():
    class Net(torch.nn.Linear):
        def forward(self, x, *, scale):
            return super().forward(x) * scale

    task = loader_task(
        model=lambda self, run: Net(2, 1), loss=lambda self, model, batch: model(batch[0], scale=2).mean()
    )
    example = task.prepare(RunConfig("Mine", "full", 4)).example()
    assert (example.positional[0].shape, example.keywords) == ((2, 2), {"scale": 2})
