"""Python code of the user: read from files once, identified by a digest, and executed wherever it is needed.

A reference is ``my_task.py:MyTask``, a file and a name in it, or ``package.module:MyTask``, a module that Python finds.
With a file, the modules and packages beside it that it imports belong to the code; with a module, those of its package.
Installed packages do not. The imports are found by reading, including those inside functions, but not those by
``importlib``.

The digest depends on the text of these modules and on the name, but not on where the files lie. The text travels to the
workers of a study, on this machine and on others. A file that is edited in the meantime is therefore not a mixture of
two versions, and a node of a cluster needs no copy of it.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from bitcycle._support.names import nearest
from bitcycle._support.text import one_line
from bitcycle.experiments.run_config import RunConfig


class UserCodeError(ValueError):
    """Code of the user cannot be found or executed. The message is one line, with the user's own line if it has one."""


@dataclass(frozen=True)
class UserModule:
    """A module as text."""

    name: str
    """Its dotted name."""
    path: str
    """The file it was read from."""
    text: str
    is_package: bool = False


@dataclass(frozen=True)
class UserCode:
    """The modules of the user, and the name of an object in the last of them."""

    attribute: str
    modules: tuple[UserModule, ...]
    """The modules that the last one imports, in alphabetical order, and then the last one."""
    folder: str
    """The folder from which Python would import them."""

    @cached_property
    def digest(self) -> str:
        """16 hexadecimal digits that stand for the text of all modules and for the name."""
        *imported, main = self.modules
        digest = hashlib.sha256(f"{self.attribute}\0{main.text}".encode())
        for module in imported:
            digest.update(f"\0{module.name}\0{module.text}".encode())
        return digest.hexdigest()[:16]

    def execute(self) -> ModuleType:
        """Execute the modules, unless they are what this process executed last, and return the last of them.

        Raises:
            UserCodeError: If a module fails.
        """
        name = self.modules[-1].name
        if _FINDER.modules != self.modules or name not in sys.modules:
            _FINDER.serve(self.modules)
            if self.folder not in sys.path:  # for what is found at run time, and for processes of data loaders
                sys.path.insert(0, self.folder)
            try:
                _FINDER.executing = True
                importlib.import_module(name)
            except (Exception, SystemExit) as error:  # the user's code can raise anything
                raise UserCodeError(_with_own_line(error, [module.path for module in self.modules])) from error
            finally:
                _FINDER.executing = False
        return sys.modules[name]

    def load(self) -> Any:
        """Execute the modules and return the object.

        Raises:
            UserCodeError: If a module fails, or has no object of this name.
        """
        module = self.execute()
        if not hasattr(module, self.attribute):
            own = [name for name in vars(module) if not name.startswith("_")]
            raise UserCodeError(
                f"{shown_path(self.modules[-1].path)} has no {self.attribute}; {nearest(self.attribute, own)}"
            )
        return getattr(module, self.attribute)


def refuse_while_executing(called: str) -> None:
    """Raise an error if this is called by the top level of the user's own code, which would execute it without end."""
    if _FINDER.executing:
        raise UserCodeError(f"{called} runs whenever this file is imported: put it under if __name__ == '__main__':")


CODES: dict[str, UserCode] = {}
"""The code of the tasks that this process has loaded, by digest."""


def code_of(run: RunConfig) -> UserCode | None:
    """Return the code that a worker needs to train a run; ``None`` for a built-in task.

    Raises:
        ValueError: If this process has not loaded the task.
    """
    if not run.source:
        return None
    if run.source not in CODES:
        raise ValueError(f"the source of the task {run.task} is not loaded: name its file, as in my_task.py:MyTask")
    return CODES[run.source]


def is_reference(name: str) -> bool:
    """Whether a name refers to code of the user.

    >>> is_reference("my_task.py"), is_reference("package.module:MyTask"), is_reference("image")
    (True, True, False)
    """
    return ":" in name or name.endswith(".py")


def read_code(reference: str) -> UserCode:
    """Read the code that a reference names, without executing it.

    Args:
        reference: ``FILE.py:NAME`` or ``package.module:NAME``. Modules are looked for in the working directory too.

    Raises:
        UserCodeError: If there is no such file or module, or the text is not Python.
    """
    place, _, attribute = reference.rpartition(":")
    if not (place and attribute.isidentifier()):
        raise UserCodeError(f"{reference!r} must be FILE.py:NAME or package.module:NAME, as in my_task.py:MyTask")
    return code_at(place, attribute)


def code_at(place: str, attribute: str) -> UserCode:
    """Read the code of a file or a module; ``attribute`` is the name of the object that is meant."""
    if place.endswith(".py"):
        path = Path(place).expanduser().absolute()
        if not path.stem.isidentifier():
            raise UserCodeError(f"{place}: the name of the file must be one that Python can import, such as my_task.py")
        if not path.is_file():
            raise UserCodeError(f"there is no file {place}; 'bitcycle task new {path.name}' writes one to begin with")
        name, folder, within = path.stem, path.parent, ""
    else:
        name = place
        path = _file_of_module(place)
        is_package = path.name == "__init__.py"
        folder = path.parents[place.count(".") + is_package]
        within = place.partition(".")[0]
    main = UserModule(name, str(path), _text(path), path.name == "__init__.py")
    return UserCode(attribute, (*_imported(main, folder, within), main), str(folder))


def code_of_text(text: str, name: str, attribute: str) -> UserCode:
    """Return text that is in no file as code: one module, from which Python imports those in the working directory."""
    folder = Path.cwd()
    main = UserModule(name, str(folder / f"{name}.py"), text)
    return UserCode(attribute, (*_imported(main, folder, ""), main), str(folder))


def _file_of_module(name: str) -> Path:
    with _importing_from(os.getcwd()):
        try:
            spec = importlib.util.find_spec(name)  # imports the packages that contain it
        except ModuleNotFoundError as error:
            raise UserCodeError(f"there is no module {name}: {error}") from None
        except Exception as error:  # the user's packages can raise anything
            raise UserCodeError(_with_own_line(error, ())) from error
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise UserCodeError(f"there is no module {name} with Python source, here or among the installed packages")
    return Path(spec.origin)


def _imported(main: UserModule, folder: Path, within: str) -> list[UserModule]:
    """Return the modules in a folder that a module imports, directly or not, with the packages that contain them."""
    found: dict[str, UserModule] = {main.name: main}
    waiting = [main]
    while waiting:
        module = waiting.pop()
        for name in _names_imported_by(module):
            parts = name.split(".")
            if within and parts[0] != within:
                continue
            for length in range(1, len(parts) + 1):
                dotted = ".".join(parts[:length])
                if dotted not in found and (read := _module_in(folder, dotted)) is not None:
                    found[dotted] = read
                    waiting.append(read)
    del found[main.name]
    for name in [*found, main.name]:  # packages without an __init__.py
        parts = name.split(".")
        for length in range(1, len(parts)):
            parent = ".".join(parts[:length])
            if parent not in found:
                found[parent] = UserModule(parent, str(folder.joinpath(*parts[:length], "__init__.py")), "", True)
    return [found[name] for name in sorted(found)]


def _module_in(folder: Path, name: str) -> UserModule | None:
    place = folder.joinpath(*name.split("."))
    for path, is_package in ((place / "__init__.py", True), (place.with_suffix(".py"), False)):
        if path.is_file():
            return UserModule(name, str(path), _text(path), is_package)
    return None


def _names_imported_by(module: UserModule) -> Iterator[str]:
    for node in ast.walk(_tree(module.text, module.path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = node.module or ""
            if node.level:
                parts = module.name.split(".")
                package = parts[: len(parts) - node.level + module.is_package]
                start = ".".join([*package, *([start] if start else [])])
            yield from (f"{start}.{alias.name}".strip(".") for alias in node.names)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserCodeError(f"{shown_path(str(path))} cannot be read: {error}") from None


def _tree(text: str, path: str) -> ast.Module:
    try:
        return ast.parse(text, path)
    except (SyntaxError, ValueError) as error:
        raise UserCodeError(_with_own_line(error, (path,))) from None


class _Loader(importlib.abc.ExecutionLoader):
    """Gives Python the text of a module that was read before."""

    def __init__(self, module: UserModule) -> None:
        self.module = module

    def get_source(self, fullname: str) -> str:
        return self.module.text

    def get_filename(self, fullname: str) -> str:
        return self.module.path

    def is_package(self, fullname: str) -> bool:
        return self.module.is_package


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of the code that this process executed last."""

    def __init__(self) -> None:
        self.modules: tuple[UserModule, ...] = ()
        self.loaders: dict[str, _Loader] = {}
        self.executing = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        loader = self.loaders.get(fullname)
        return None if loader is None else importlib.util.spec_from_loader(fullname, loader)

    def serve(self, modules: tuple[UserModule, ...]) -> None:
        """Find these modules from now on, instead of those before."""
        for module in modules:
            present = sys.modules.get(module.name)
            is_other = getattr(present, "__file__", None) not in (module.path, None)
            if is_other and not isinstance(getattr(present, "__loader__", None), _Loader):
                raise UserCodeError(
                    f"{shown_path(module.path)} has the name of the module {module.name}, which is in use: rename it"
                )
        for name in {*self.loaders, *(module.name for module in modules)}:
            sys.modules.pop(name, None)
        self.modules, self.loaders = modules, {module.name: _Loader(module) for module in modules}
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)


_FINDER = _Finder()


@contextmanager
def _importing_from(folder: str) -> Iterator[None]:
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _with_own_line(error: BaseException, own: Sequence[str]) -> str:
    """Return an error as one line that names the user's own line in which it arose."""
    if isinstance(error, SyntaxError) and error.filename:
        line = f", in '{error.text.strip()}'" if error.text else ""
        return f"{shown_path(error.filename)} line {error.lineno}: {type(error).__name__}: {error.msg}{line}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not own or frame.filename in own]
    if not frames:
        return one_line(error)
    return f"{shown_path(frames[-1].filename)} line {frames[-1].lineno}: {one_line(error)}, in '{frames[-1].line}'"


def shown_path(path: str) -> str:
    """Return a path as a message shows it: relative to the working directory if it is inside."""
    return os.path.relpath(path) if Path(path).is_relative_to(Path.cwd()) else path
