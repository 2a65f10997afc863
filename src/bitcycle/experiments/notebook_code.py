"""The code of a class that was defined in Python: in an imported module, in a script, or in the cells of a notebook.

A notebook is no file that workers could read. Its code is put together from the cells: the class, the functions and
classes that it uses, their imports, and constants. A global variable with any other value, such as a tensor, cannot
travel as text; the class has to create it itself.
"""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

from bitcycle.experiments.user_code import UserCode, UserCodeError, code_at, code_of_text

NOTEBOOK = "notebook_code"
"""The name of the module that is made of cells."""


def code_of_class(defined: type) -> UserCode:
    """Return the code that defines a class, so that another process can define it too.

    Raises:
        UserCodeError: If it is defined inside a function, or uses values of a notebook that cannot travel.
    """
    if defined.__qualname__ != defined.__name__:
        raise UserCodeError(f"{defined.__qualname__} must be defined at the top level of a file or notebook")
    module = sys.modules[defined.__module__]
    path = getattr(module, "__file__", None)
    is_script = defined.__module__ == "__main__"
    if path is None and is_script:
        return code_of_text(_text_of(defined, vars(module)), NOTEBOOK, defined.__name__)
    if path is None:
        raise UserCodeError(f"{defined.__name__} is in no file that workers could read: write it to one")
    return code_at(path if is_script or "." not in defined.__module__ else defined.__module__, defined.__name__)


def _text_of(defined: type, namespace: Mapping[str, Any]) -> str:
    """Return the definition of a class in a notebook, after everything that it uses."""
    written: dict[str, str] = {}
    _write(defined.__name__, defined, namespace, written)
    return "\n\n".join(written.values()) + "\n"


def _write(name: str, value: Any, namespace: Mapping[str, Any], written: dict[str, str]) -> None:
    """Add the text that defines a name, and before it those of the names that it uses."""
    if isinstance(value, ModuleType):
        written[name] = f"import {value.__name__} as {name}"
    elif isinstance(value, (type, FunctionType)) and value.__module__ == "__main__":
        text = _definition(value)
        written[name] = ""  # so that it can refer to itself
        for used in _globals_of(compile(text, name, "exec")):
            if used in namespace and used not in written:
                _write(used, namespace[used], namespace, written)
        del written[name]
        written[name] = text
    elif (module := _importable(value)) is not None:
        written[name] = f"from {module} import {value.__qualname__} as {name}"
    elif _is_constant(value):
        written[name] = f"{name} = {value!r}"
    else:
        raise UserCodeError(
            f"the task uses {name}, a {type(value).__name__} of the notebook, which cannot travel to the workers: "
            f"create it inside the class, or write the task to a file"
        )


def _definition(value: type | FunctionType) -> str:
    """Return the text of a class or function, from the cell that defined it last."""
    for cell in dict.fromkeys(_cells(value)):
        text = "".join(linecache.getlines(cell))
        for node in reversed(ast.parse(text).body):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == value.__name__:
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                return "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    raise UserCodeError(f"the source of {value.__name__} is not known: write the task to a file")


def _cells(value: type | FunctionType) -> Iterator[str]:
    """Yield the names under which Python knows the cells of a function, or of the methods of a class."""
    for each in [value] if isinstance(value, FunctionType) else vars(value).values():
        function = inspect.unwrap(getattr(each, "__func__", getattr(each, "fget", each)))
        if isinstance(function, FunctionType):
            yield function.__code__.co_filename


def _globals_of(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_of(constant)


def _importable(value: Any) -> str | None:
    """Return the module from which a value can be imported under its own name, or None."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    found = getattr(sys.modules.get(module or ""), name or "", None)
    return module if value is not None and found is value and module != "__main__" else None


def _is_constant(value: Any) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
