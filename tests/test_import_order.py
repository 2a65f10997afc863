"""The layers of the code: imports point from higher to lower layers, and there are no cycles."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import bitcycle

SOURCE = Path(bitcycle.__file__).parent

LAYERS = (
    {"_support"},
    {"schedules"},
    {"kernels"},
    {"grids"},
    {"arithmetic"},
    {"nn"},
    {"conversion"},
    {"scheduler", "decay", "_cost"},
    {"_range_test"},
    {"integrations", "_export"},
    {"lab"},
    {"tasks"},
    {"cli"},
)
"""From low to high. Packages of one layer do not import each other."""

LEVEL = {package: level for level, layer in enumerate(LAYERS) for package in layer}


@cache
def modules():
    """Every module below the top-level package, by its dotted name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ("bitcycle", *path.relative_to(SOURCE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(module, statements):
    """The modules of bitcycle that import statements name, with the line of each."""
    for node in statements:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} line {node.lineno}: write imports out from 'bitcycle'"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            while parts and ".".join(parts) not in modules():
                parts.pop()  # the last part may be a name inside the module
            if parts and parts != ["bitcycle"]:
                yield ".".join(parts), node.lineno


def at_module_level(tree):
    """The statements that run when a module is imported: not those in functions or under TYPE_CHECKING."""
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop()
        yield node
        is_typing = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        if not is_typing and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)


def test_every_package_has_a_layer():
    packages = {module.split(".")[1] for module in modules() if module.count(".")} - {"__main__"}
    assert packages == set(LEVEL)


@pytest.mark.slow
def test_imports_point_from_higher_to_lower_layers():
    """All imports count: those in functions and those for type checkers too."""
    wrong = []
    for module, path in modules().items():
        if module in ("bitcycle", "bitcycle.__main__"):
            continue
        own = module.split(".")[1]
        for imported, line in imports_of(module, ast.walk(ast.parse(path.read_text()))):
            other = imported.split(".")[1]
            if other != own and LEVEL[other] >= LEVEL[own]:
                wrong.append(f"{path.relative_to(SOURCE)} line {line}: {own} imports {imported}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_modules_have_no_import_cycle():
    graph = {}
    for module, path in modules().items():
        imported = {name for name, _ in imports_of(module, at_module_level(ast.parse(path.read_text())))}
        graph[module] = imported - {module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("import cycle: " + " -> ".join(error.args[1]))


def test_schedules_need_numpy_alone():
    """Whatever an import of the schedules imports in turn, found without running it."""
    waiting, seen, others = ["bitcycle.schedules"], set(), set()
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        statements = list(at_module_level(ast.parse(modules()[module].read_text())))
        waiting += [name for name, _ in imports_of(module, statements)]
        waiting += [module.rpartition(".")[0]] if "." in module else []
        for node in statements:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            others |= {name.partition(".")[0] for name in names}
    assert {"bitcycle.schedules.cyclic", "bitcycle._support.text", "bitcycle"} <= seen
    assert others - set(sys.stdlib_module_names) == {"bitcycle", "numpy"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        "import bitcycle",
        "import bitcycle.schedules",
        "from bitcycle.cli import main; run(main, ['--help'])",
        "from bitcycle.cli import main; run(main, ['schedules'])",
    ],
)
def test_torch_is_not_imported(program):
    run = """
import sys
def run(main, arguments):
    sys.argv = ["bitcycle", *arguments]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, stop.code
"""
    check = "assert not [name for name in ('torch', 'scipy', 'matplotlib') if name in sys.modules]"
    done = subprocess.run([sys.executable, "-c", f"{run}\n{program}\n{check}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
