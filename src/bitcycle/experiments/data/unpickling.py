"""Safe reading of pickled arrays: nothing in the file is executed.

A pickle is a program that can call any function of any module through its globals. Here, a global is only ever resolved
to one of the stand-ins below, which record the call. When the pickle has been read, the records are checked and
converted to arrays. The file itself never calls numpy or scipy, and files of old versions (Python 2, numpy before 1.26,
scipy before 1.8) are read in the same way as new ones.
"""

from __future__ import annotations

import io
import math
import pickle
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from bitcycle._support.extras import need
from bitcycle.experiments.data.files import DataError, read_bytes

_NUMBER_TYPE = re.compile(r"[?biufc]\d{0,2}")
_ALLOWED = "numbers, text, lists, dictionaries, numpy arrays and scipy's csr matrices"


class _Record:
    """A recorded call: its arguments, and the state that the pickle set afterwards.

    Every stand-in has a ``__setstate__``. Without it, a pickle could set attributes of the stand-in class itself.
    """

    arguments: tuple[Any, ...] = ()
    state: Any = None

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Type(_Record):
    """``numpy.dtype("f4", False, True)``; the state has the byte order."""

    def value(self) -> np.dtype[Any]:
        name, order = self.arguments[0], "="
        if self.state is not None:
            _, order, subtype, names, fields, *_ = self.state
            if not (subtype is names is fields is None):
                raise ValueError("an array of records")
        if not (isinstance(name, str) and _NUMBER_TYPE.fullmatch(name) and order in ("<", ">", "=", "|")):
            raise ValueError(f"an array of {name!r}, which is not a number type")
        return np.dtype(order + name)


class _Array(_Record):
    """An array as numpy pickles it up to protocol 4: created empty, then given a state with type, shape and bytes."""

    def value(self) -> Any:
        _, shape, kind, fortran, content = self.state
        return _array(content, kind, shape, "F" if fortran else "C")


class _Buffer(_Record):
    """An array as numpy pickles it in protocol 5."""

    def value(self) -> Any:
        content, kind, shape, order = self.arguments
        return _array(content, kind, shape, "F" if order == "F" else "C")


class _Scalar(_Record):
    """A single number of a numpy type."""

    def value(self) -> Any:
        kind, content = self.arguments
        return _array(content, kind, (), "C").item()


class _Sparse(_Record):
    """A csr matrix: three arrays and a shape."""

    def value(self) -> Any:
        sparse = need("scipy.sparse", "study", "reading sparse matrices")
        data, indices, indptr = (self.state[key].value() for key in ("data", "indices", "indptr"))
        rows, columns = self.state["_shape" if "_shape" in self.state else "shape"]
        matrix = sparse.csr_matrix((data, indices, indptr), shape=(rows, columns))
        matrix.check_format(full_check=True)
        return matrix


class _Bytes(_Record):
    """Bytes, which Python 3 writes in old protocols as text to be encoded as latin-1."""

    def __new__(cls, text: str = "", encoding: str = "latin1") -> bytes:  # type: ignore[misc]
        if encoding != "latin1":
            raise ValueError(f"bytes in the encoding {encoding!r}")
        return text.encode("latin1")


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _Type,
    ("numpy", "ndarray"): "numpy.ndarray",  # only ever an argument of _reconstruct
    ("_codecs", "encode"): _Bytes,
    ("__builtin__", "bytes"): _Bytes,  # how protocol 2 writes empty bytes
    ("collections", "defaultdict"): defaultdict,
    ("builtins", "list"): list,
    ("__builtin__", "list"): list,
    ("scipy.sparse.csr", "csr_matrix"): _Sparse,
    ("scipy.sparse._csr", "csr_matrix"): _Sparse,
}
for _core in ("numpy.core", "numpy._core"):
    _STAND_INS[f"{_core}.multiarray", "_reconstruct"] = _Array
    _STAND_INS[f"{_core}.multiarray", "scalar"] = _Scalar
    _STAND_INS[f"{_core}.numeric", "_frombuffer"] = _Buffer


class _Unpickler(pickle.Unpickler):
    def __init__(self, content: bytes, path: Path) -> None:
        super().__init__(io.BytesIO(content), fix_imports=False, encoding="latin1")
        self.path = path

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise DataError(
                f"{self.path}: the pickle asks for {module}.{name}, which was refused and not executed; "
                f"it should hold nothing but {_ALLOWED}"
            )
        return _STAND_INS[module, name]


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
        return _plain(_Unpickler(content, path).load(), {})
    except (DataError, ImportError):
        raise
    except Exception as error:  # a damaged pickle can raise any exception
        raise DataError(
            f"{path}: is truncated or not a pickle of arrays ({type(error).__name__}: {error}); "
            f"it should hold nothing but {_ALLOWED}"
        ) from None


def _plain(value: Any, done: dict[int, Any]) -> Any:
    """Return the value with all records in it converted to arrays; ``done`` has the values converted so far."""
    if isinstance(value, (str, bytes, int, float, type(None))):
        return value
    if id(value) in done:
        return done[id(value)]
    if isinstance(value, list):
        items = done[id(value)] = []
        items.extend(_plain(item, done) for item in value)
    elif isinstance(value, dict):
        entries = done[id(value)] = {}
        entries.update((_plain(key, done), _plain(item, done)) for key, item in value.items())
    elif isinstance(value, tuple):
        done[id(value)] = tuple(_plain(item, done) for item in value)
    elif isinstance(value, (_Array, _Buffer, _Scalar, _Sparse)):
        done[id(value)] = value.value()
    else:
        raise ValueError(f"it holds a {type(value).__name__.strip('_').lower()}")
    return done[id(value)]


def _array(content: Any, kind: Any, shape: Any, order: Any) -> Any:
    """Create an array from its bytes, which Python 2 wrote as text."""
    if not isinstance(kind, _Type):
        raise ValueError("an array without a type")
    raw, dtype = content.encode("latin1") if isinstance(content, str) else content, kind.value()
    expected = math.prod(shape) * dtype.itemsize
    if not isinstance(raw, (bytes, bytearray)) or len(raw) != expected:
        raise ValueError(f"an array of shape {shape} should have {expected} bytes")
    return np.frombuffer(raw, dtype).reshape(shape, order=order).copy()  # a copy is writable
