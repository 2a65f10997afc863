"""The layers of the code: imports point from higher to lower layers, and there are no cycles."""

import ast
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
