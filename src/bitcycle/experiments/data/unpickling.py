"""Safe reading of pickled arrays: nothing in the file is executed.

A pickle is a program that can call any function of any module through its globals. Here, a global is only ever resolved
to one of the stand-ins below, which record the call. When the pickle has been read, the records are checked and
converted to arrays. The file itself never calls numpy or scipy, and files of old versions (Python 2, numpy before 1.26,
scipy before 1.8) are read in the same way as new ones.

Python's own reader trusts a pickle with the memory and the time of the machine, even if it calls nothing. Here, the
instructions are counted, keys are texts or numbers (hashing a nested tuple can take forever), memos are sparse, and all
arrays together have no more bytes than the file: more can only come from using the same bytes again and again.
"""

from __future__ import annotations

import io
import math
import pickle
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bitcycle._support.extras import need
from bitcycle._support.text import shown
from bitcycle.experiments.data.budgets import MOST_PICKLE_DEPTH, MOST_PICKLE_STEPS
from bitcycle.experiments.data.files import DataError, exceeded, read_bytes

_NUMBER_TYPE = re.compile(r"[?biufc]\d{0,2}")
_ALLOWED = "numbers, text, lists, dictionaries, numpy arrays and scipy's csr matrices"


class _Record:
    """A recorded call: its arguments, and the state that the pickle set afterwards."""

    arguments: tuple[Any, ...] = ()
    state: Any = None

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments


class _Type(_Record):
    """``numpy.dtype("f4", False, True)``; the state has the byte order."""

    def dtype(self) -> np.dtype[Any]:
        """Return the number type."""
        name, order = self.arguments[0], "="
        if self.state is not None:
            _, order, subtype, names, fields, *_ = self.state
            if not (subtype is names is fields is None):
                raise ValueError("an array of records")
        if not (isinstance(name, str) and _NUMBER_TYPE.fullmatch(name) and order in ("<", ">", "=", "|")):
            raise ValueError(f"an array of {shown(name)}, which is not a number type")
        return np.dtype(order + name)


class _Array(_Record):
    """An array as numpy pickles it up to protocol 4: created empty, then given a state with type, shape and bytes."""

    def value(self, allowance: _Allowance) -> Any:
        _, shape, kind, fortran, content = self.state
        return _array(content, kind, shape, "F" if fortran else "C", allowance)


class _Buffer(_Record):
    """An array as numpy pickles it in protocol 5."""

    def value(self, allowance: _Allowance) -> Any:
        content, kind, shape, order = self.arguments
        return _array(content, kind, shape, "F" if isinstance(order, str) and order == "F" else "C", allowance)


class _Scalar(_Record):
    """A single number of a numpy type."""

    def value(self, allowance: _Allowance) -> Any:
        kind, content = self.arguments
        return _array(content, kind, (), "C", allowance).item()


class _Sparse(_Record):
    """A csr matrix: three arrays and a shape."""

    def value(self, allowance: _Allowance) -> Any:
        sparse = need("scipy.sparse", "study", "reading sparse matrices")
        data, indices, indptr = (self.state[key].value(allowance) for key in ("data", "indices", "indptr"))
        rows, columns = _shape(self.state["_shape" if "_shape" in self.state else "shape"])
        matrix = sparse.csr_matrix((data, indices, indptr), shape=(rows, columns))
        matrix.check_format(full_check=True)
        return matrix


class _Bytes(_Record):
    """Bytes, which Python 3 writes in old protocols as text to be encoded as latin-1."""

    def value(self, allowance: _Allowance) -> bytes:
        """Return the bytes, at once: they may be the key of a dictionary."""
        text, encoding = self.arguments or ("", "latin1")
        if not isinstance(text, str) or not isinstance(encoding, str) or encoding != "latin1":
            raise ValueError(f"bytes in the encoding {shown(encoding)}")
        allowance.use(len(text))
        return text.encode("latin1")


class _Allowance:
    """The bytes that arrays and texts may still take."""

    def __init__(self, path: Path, size: int) -> None:
        self.path, self.size = path, size
        self.used = 0

    def use(self, size: int) -> None:
        """Take bytes, or raise a DataError if there are not as many."""
        self.used += size
        if self.used > self.size:
            raise exceeded(self.path, "what its arrays would take together", f"the {self.size} bytes of the file")


def _new_dictionary(*factory: Any) -> dict[Any, Any]:
    """Return what takes the place of a defaultdict."""
    if factory not in ((), (_LIST,)):
        raise ValueError("a defaultdict of something else than lists")
    return {}


_LIST = "list"

_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _Type,
    ("numpy", "ndarray"): "numpy.ndarray",  # only ever an argument of _reconstruct
    ("_codecs", "encode"): _Bytes,
    ("__builtin__", "bytes"): _Bytes,  # how protocol 2 writes empty bytes
    ("collections", "defaultdict"): _new_dictionary,
    ("builtins", "list"): _LIST,  # only ever an argument of defaultdict
    ("__builtin__", "list"): _LIST,
    ("scipy.sparse.csr", "csr_matrix"): _Sparse,
    ("scipy.sparse._csr", "csr_matrix"): _Sparse,
}
for _core in ("numpy.core", "numpy._core"):
    _STAND_INS[f"{_core}.multiarray", "_reconstruct"] = _Array
    _STAND_INS[f"{_core}.multiarray", "scalar"] = _Scalar
    _STAND_INS[f"{_core}.numeric", "_frombuffer"] = _Buffer


_Instruction = Callable[["_Unpickler"], None]
_CALLS = (
    *(
        pickle.OBJ,
        pickle.INST,
        pickle.NEWOBJ_EX,
        pickle.PERSID,
        pickle.BINPERSID,
        pickle.EXT1,
        pickle.EXT2,
        pickle.EXT4,
    ),
    *(pickle.EMPTY_SET, pickle.ADDITEMS, pickle.FROZENSET, pickle.NEXT_BUFFER, pickle.READONLY_BUFFER),
)
"""Instructions that no pickle of arrays has."""


class _Instructions(dict[int, _Instruction]):
    """The instructions by their code; it counts how many are looked up."""

    def __init__(self, known: dict[int, _Instruction], path: Path) -> None:
        super().__init__(known)
        self.path, self.steps = path, 0

    def __getitem__(self, code: int) -> _Instruction:
        self.steps += 1
        if self.steps > MOST_PICKLE_STEPS:
            raise exceeded(self.path, "the pickle", f"{MOST_PICKLE_STEPS:,} instructions")
        return super().__getitem__(code)


class _Unpickler(pickle._Unpickler):
    """Python's own reader of pickles that is written in Python: its memos are a dictionary, not an array as in C."""

    stack: list[Any]
    append: Callable[[Any], None]
    pop_mark: Callable[[], list[Any]]
    read: Callable[[int], bytes]
    readline: Callable[[], bytes]

    def __init__(self, content: bytes, path: Path) -> None:
        super().__init__(io.BytesIO(content), fix_imports=False, encoding="latin1")
        self.path, self.size = path, len(content)
        self.encoded = _Allowance(path, len(content))
        self.dispatch = _Instructions(_KNOWN, path)  # type: ignore[assignment, misc]

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise DataError(
                f"{self.path}: the pickle asks for {shown(f'{module}.{name}')[1:-1]}, which was refused and not "
                f"executed; it should hold nothing but {_ALLOWED}"
            )
        return _STAND_INS[module, name]

    def find_global(self) -> None:
        """GLOBAL, of which a truncated file has a part."""
        module, name = self.readline(), self.readline()
        if not name.endswith(b"\n"):
            raise EOFError("the pickle ends within a name")
        self.append(self.find_class(module[:-1].decode(), name[:-1].decode()))

    def call(self) -> None:
        """REDUCE and NEWOBJ: call a stand-in."""
        arguments = self.stack.pop()
        stand_in = self.stack.pop()
        if not isinstance(arguments, tuple) or len(arguments) > _MOST_ARGUMENTS or not callable(stand_in):
            raise ValueError("a call of something that cannot be called")
        made = stand_in(*arguments)
        self.append(made.value(self.encoded) if isinstance(made, _Bytes) else made)

    def build(self) -> None:
        """BUILD: record a state. Nothing but a record has one, least of all a stand-in itself."""
        state = self.stack.pop()
        if not isinstance(self.stack[-1], _Record):
            raise ValueError("a state of something that has none")
        self.stack[-1].state = state

    def set_item(self) -> None:
        """SETITEM."""
        value, key = self.stack.pop(), self.stack.pop()
        self.fill(self.stack[-1], [key, value])

    def set_items(self) -> None:
        """SETITEMS."""
        items = self.pop_mark()
        self.fill(self.stack[-1], items)

    def dictionary(self) -> None:
        """DICT."""
        items = self.pop_mark()
        self.append({})
        self.fill(self.stack[-1], items)

    def fill(self, dictionary: Any, items: list[Any]) -> None:
        """Put keys and values into a dictionary, unless hashing a key could take long."""
        if not isinstance(dictionary, dict):
            raise ValueError("keys of something that is not a dictionary")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, (str, bytes, int, float, type(None))):
                kind = type(key).__name__.strip("_").lower()
                raise ValueError(f"a dictionary whose keys are not text or numbers but a {kind}")
            dictionary[key] = value

    def byte_array(self) -> None:
        """BYTEARRAY8, without making room for bytes that do not follow."""
        size = int.from_bytes(self.read(8), "little")
        if size > self.size:
            raise ValueError("bytes that are not in the file")
        self.append(bytearray(self.read(size)))


_MOST_ARGUMENTS = 8

_ORIGINAL: dict[int, Any] = pickle._Unpickler.dispatch
_KNOWN: dict[int, _Instruction] = {
    **{code: step for code, step in _ORIGINAL.items() if bytes((code,)) not in _CALLS},
    pickle.GLOBAL[0]: _Unpickler.find_global,
    pickle.REDUCE[0]: _Unpickler.call,
    pickle.NEWOBJ[0]: _Unpickler.call,
    pickle.BUILD[0]: _Unpickler.build,
    pickle.SETITEM[0]: _Unpickler.set_item,
    pickle.SETITEMS[0]: _Unpickler.set_items,
    pickle.DICT[0]: _Unpickler.dictionary,
    pickle.BYTEARRAY8[0]: _Unpickler.byte_array,
}


def load_arrays(path: str | Path) -> Any:
    """Return the content of a pickle of arrays, csr matrices, and lists and dictionaries of them. Nothing is executed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "batch")
    ...     _ = file.write_bytes(pickle.dumps({"data": np.arange(3), "labels": [0, 1, 2]}))
    ...     load_arrays(file)
    {'data': array([0, 1, 2]), 'labels': [0, 1, 2]}
    """
    path = Path(path)
    content = read_bytes(path)
    try:
        return _plain(_Unpickler(content, path).load(), {}, _Allowance(path, len(content)))
    except (DataError, ImportError):
        raise
    except Exception as error:  # a damaged pickle can raise any exception
        reason = str(error)[:200] or "damaged"
        raise DataError(
            f"{path}: is truncated or not a pickle of arrays ({type(error).__name__}: {reason}); "
            f"it should hold nothing but {_ALLOWED}"
        ) from None


def _plain(value: Any, done: dict[int, Any], allowance: _Allowance, depth: int = 0) -> Any:
    """Return the value with all records in it converted to arrays; ``done`` has the values converted so far."""
    if isinstance(value, (str, bytes, int, float, type(None))):
        return value
    if id(value) in done:
        return done[id(value)]
    if depth > MOST_PICKLE_DEPTH:
        raise exceeded(allowance.path, "how deep its values are nested", f"{MOST_PICKLE_DEPTH} levels")
    if isinstance(value, list):
        items = done[id(value)] = []
        items.extend(_plain(item, done, allowance, depth + 1) for item in value)
    elif isinstance(value, dict):
        entries = done[id(value)] = {}
        entries.update((key, _plain(item, done, allowance, depth + 1)) for key, item in value.items())
    elif isinstance(value, tuple):
        done[id(value)] = tuple(_plain(item, done, allowance, depth + 1) for item in value)
    elif isinstance(value, (_Array, _Buffer, _Scalar, _Sparse)):
        done[id(value)] = value.value(allowance)
    else:
        raise ValueError(f"it holds a {type(value).__name__.strip('_').lower()}")
    return done[id(value)]


def _shape(shape: Any) -> Sequence[int]:
    """Return the shape of an array, checked before anything is computed from it."""
    if not (isinstance(shape, (tuple, list)) and len(shape) <= _MOST_DIMENSIONS):
        raise ValueError(f"an array of the shape {shown(shape)}")
    if not all(type(length) is int and 0 <= length <= _MOST_LENGTH for length in shape):
        raise ValueError(f"an array of the shape {shown(shape)}")
    return shape


_MOST_DIMENSIONS, _MOST_LENGTH = 32, 2**40


def _array(content: Any, kind: Any, shape: Any, order: Any, allowance: _Allowance) -> Any:
    """Create an array from its bytes, which Python 2 wrote as text."""
    if not isinstance(kind, _Type):
        raise ValueError("an array without a type")
    dtype = kind.dtype()
    expected = math.prod(_shape(shape)) * dtype.itemsize
    allowance.use(expected)
    raw = content.encode("latin1") if isinstance(content, str) else content
    if not isinstance(raw, (bytes, bytearray)) or len(raw) != expected:
        raise ValueError(f"an array of shape {shown(shape)} should have {expected} bytes")
    return np.frombuffer(raw, dtype).reshape(shape, order=order).copy()  # a copy is writable
