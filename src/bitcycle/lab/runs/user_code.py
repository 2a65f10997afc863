"""Python code of the user: read from files, identified by a digest, and imported wherever it is needed.

A reference is ``my_task.py:MyTask``, a file and a name in it, or ``package.module:MyTask``, a module that Python finds.
With a file, the modules and packages beside it that it imports belong to the code; with a module, those of its package.
Installed packages do not. The imports are found by reading, including those inside functions, but not those by
``importlib``.

The digest depends on the text of these files and on the name, but not on where the files are. The text is sent to the
workers of a study. A worker imports the files themselves if they have this text, and otherwise a copy that it writes: a
file that is edited in the meantime does not mix two versions, and a node of a cluster needs no copy of it.
"""

from __future__ import annotations

import ast
import atexit
import hashlib
import importlib
import importlib.util
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any

from bitcycle._support.names import nearest
from bitcycle.lab.format import format_error
from bitcycle.lab.runs.run_config import RunConfig


class UserCodeError(ValueError):
    """Code of the user cannot be found or imported. The message is one line that names the line of the code."""


@dataclass(frozen=True)
class UserCode:
    """A name in a module of the user, and the text of all files that belong to it."""

    attribute: str
    folder: str
    """The folder from which Python imports the module."""
    main: str
    """The file of the module, relative to the folder."""
    files: dict[str, str]
    """The text of the file and of those that it imports, directly or not, by their paths relative to the folder."""

    @cached_property
    def digest(self) -> str:
        """16 hexadecimal digits that stand for the text of all files and for the name."""
        digest = hashlib.sha256(f"{self.attribute}\0{self.files[self.main]}".encode())
        for path in sorted(self.files.keys() - {self.main}):
            digest.update(f"\0{path}\0{self.files[path]}".encode())
        return digest.hexdigest()[:16]

    @property
    def path(self) -> str:
        """The file of the module, as a message shows it."""
        return relative_path(os.path.join(self.folder, self.main))

    def load(self) -> Any:
        """Import the module and return the object.

        Raises:
            UserCodeError: If a module fails, or has no object of this name.
        """
        module = import_code(self)
        if not hasattr(module, self.attribute):
            public = [name for name in vars(module) if not name.startswith("_")]
            raise UserCodeError(f"{self.path} has no {self.attribute}; {nearest(self.attribute, public)}")
        return getattr(module, self.attribute)


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
    """Read the code that a reference names, without importing it.

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
    """Read the code of a file or a module; ``attribute`` is the name of the object in it."""
    if place.endswith(".py"):
        path = Path(place).expanduser().absolute()
        if not path.stem.isidentifier():
            raise UserCodeError(f"{place}: the name of the file must be one that Python can import, such as my_task.py")
        if not path.is_file():
            raise UserCodeError(f"there is no file {place}; 'bitcycle task new {path.name}' writes one to begin with")
        folder, package = path.parent, ""
    else:
        path = _file_of_module(place)
        folder = path.parents[place.count(".") + (path.name == "__init__.py")]
        package = place.partition(".")[0]
    return UserCode(attribute, str(folder), path.relative_to(folder).as_posix(), _files(folder, path, package))


def code_of_class(defined: type) -> UserCode:
    """Return the code that defines a class, so that another process can import it.

    Raises:
        UserCodeError: If it is defined inside a function, or not in a file.
    """
    name = defined.__name__
    if defined.__qualname__ != name:
        raise UserCodeError(f"{defined.__qualname__} must be defined at the top level of a file")
    path = getattr(sys.modules[defined.__module__], "__file__", None)
    if path is None:
        raise UserCodeError(
            f"{name} is in no file that worker processes could read: write it to one, in a notebook by a cell that "
            f"begins with %%writefile my_task.py, and name it as 'my_task.py:{name}'"
        )
    is_plain = defined.__module__ == "__main__" or "." not in defined.__module__
    return code_at(path if is_plain else defined.__module__, name)


def refuse_while_importing(called: str) -> None:
    """Raise an error if this is called by the top level of the user's code, which would import it without end."""
    if _IMPORTED.importing:
        raise UserCodeError(f"{called} runs whenever this file is imported: put it under if __name__ == '__main__':")


def _file_of_module(name: str) -> Path:
    sys.path.insert(0, os.getcwd())
    try:
        spec = importlib.util.find_spec(name)  # imports the packages that contain it
    except ModuleNotFoundError as error:
        raise UserCodeError(f"there is no module {name}: {error}") from None
    except Exception as error:  # the user's packages can raise anything
        raise UserCodeError(_with_source_line(error)) from error
    finally:
        sys.path.remove(os.getcwd())
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise UserCodeError(f"there is no module {name} with Python source, here or among the installed packages")
    return Path(spec.origin)


def _files(folder: Path, main: Path, package: str) -> dict[str, str]:
    """Return the text of a file and of those in a folder that it imports, directly or not, by their relative paths.

    Args:
        folder: The folder from which Python imports.
        main: The file.
        package: Only modules of this package are included; empty = all modules in the folder.
    """
    texts, waiting = {main: _read_text(main)}, [main]
    while waiting:
        path = waiting.pop()
        for name in _imported_names(path, texts[path], folder):
            parts = name.split(".")
            if package and parts[0] != package:
                continue
            for length in range(1, len(parts) + 1):
                found = _module_file(folder, ".".join(parts[:length]))
                if found is not None and found not in texts:
                    texts[found] = _read_text(found)
                    waiting.append(found)
    return {path.relative_to(folder).as_posix(): text for path, text in texts.items()}


def _imported_names(path: Path, text: str, folder: Path) -> Iterator[str]:
    """Yield the dotted names that a file imports; those of objects in a module are among them."""
    try:
        tree = ast.parse(text, str(path))
    except (SyntaxError, ValueError) as error:
        raise UserCodeError(_with_source_line(error)) from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = path.relative_to(folder).parts[: -node.level] if node.level else ()  # the package it is relative to
            start = [*above, *([node.module] if node.module else [])]
            yield from (".".join([*start, alias.name]) for alias in node.names)


def _module_file(folder: Path, name: str) -> Path | None:
    place = folder.joinpath(*name.split("."))
    return next((path for path in (place / "__init__.py", place.with_suffix(".py")) if path.is_file()), None)


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserCodeError(f"{relative_path(str(path))} cannot be read: {error}") from None


@dataclass
class _Imported:
    """The code of the user that this process imported last. Of each module, a process has one version."""

    content: tuple[str, str, dict[str, str]] | None = None
    folder: str = ""
    names: set[str] = field(default_factory=set)
    """The modules of the user that are in ``sys.modules``."""
    importing: bool = False


_IMPORTED = _Imported()


def import_code(code: UserCode) -> ModuleType:
    """Import the module of some code, unless this process imported the same text last.

    Raises:
        UserCodeError: If a module fails.
    """
    last, main, content = _IMPORTED, _module_name(code.main), (code.folder, code.main, code.files)
    if last.content == content and main in sys.modules:
        return sys.modules[main]
    for path in code.files:
        name = _module_name(path)
        present = getattr(sys.modules.get(name), "__file__", None)
        if name not in last.names and present is not None and not Path(present).is_relative_to(code.folder):
            place = relative_path(os.path.join(code.folder, path))
            raise UserCodeError(f"{place} has the name of the module {name}, which is in use: rename it")
    names = {part for path in code.files for part in accumulate(_module_name(path).split("."), "{}.{}".format)}
    for name in last.names | names:
        sys.modules.pop(name, None)
    if last.folder in sys.path:
        sys.path.remove(last.folder)
    last.content, last.names, last.folder = None, names, _import_folder(code)
    sys.path.insert(0, last.folder)  # it stays, for imports at run time and for processes of data loaders
    importlib.invalidate_caches()
    writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # it is stale after a quick edit
    last.importing = True
    try:
        module = importlib.import_module(main)
    except (Exception, SystemExit) as error:  # the user's code can raise anything
        raise UserCodeError(
            _with_source_line(error, [os.path.join(last.folder, path) for path in code.files])
        ) from error
    finally:
        last.importing, sys.dont_write_bytecode = False, writes_bytecode
    last.content = content
    return module


def _import_folder(code: UserCode) -> str:
    """Return the folder of the files if they have the text that was read, and otherwise the folder of a copy."""
    with suppress(OSError, UnicodeDecodeError):
        if all(Path(code.folder, path).read_text("utf-8") == text for path, text in code.files.items()):
            return code.folder
    folder = tempfile.mkdtemp(prefix="bitcycle-code-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for path, text in code.files.items():
        Path(folder, path).parent.mkdir(parents=True, exist_ok=True)
        Path(folder, path).write_text(text, "utf-8")
    return folder


def _module_name(path: str) -> str:
    """Return the name of the module in a file.

    >>> _module_name("package/module.py"), _module_name("package/__init__.py")
    ('package.module', 'package')
    """
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def _with_source_line(error: BaseException, files: Sequence[str] = ()) -> str:
    """Return an error as one line that names the line in which it arose: the last one in these files, if any."""
    if isinstance(error, SyntaxError) and error.filename:
        line = f", in '{error.text.strip()}'" if error.text else ""
        return f"{relative_path(error.filename)} line {error.lineno}: {type(error).__name__}: {error.msg}{line}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not files or frame.filename in files]
    if not frames:
        return format_error(error)
    return (
        f"{relative_path(frames[-1].filename)} line {frames[-1].lineno}: {format_error(error)}, in '{frames[-1].line}'"
    )


def relative_path(path: str) -> str:
    """Return a path as a message shows it: relative to the working directory if it is inside."""
    return os.path.relpath(path) if Path(path).is_relative_to(Path.cwd()) else path
