"""Reading of pickled arrays: nothing in the file is executed.

A pickle is a program that can call any function of any module. Here it finds only the functions in :data:`_ADMITTED`,
which check what they are given and return arrays. A state that the pickle sets (the instruction BUILD) goes through the
``__setstate__`` of the classes below, never to numpy's own, which trusts it. Files of old versions (Python 2, numpy
before 1.26, scipy before 1.8) are read in the same way as new ones.
"""

from __future__ import annotations

import io
import math
import pickle
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.extras import need
from bitcycle._support.text import short_repr
from bitcycle.lab.data.files import DataError, read_bytes

_NUMBER_TYPE = re.compile(r"[?biufc]\d{0,2}")
_EXPECTED = "it should hold nothing but numbers, text, lists, dictionaries, numpy arrays and scipy's csr matrices"


def load_arrays(path: str | Path) -> Any:
    """Return the content of a pickle of arrays, csr matrices, and lists and dictionaries of them. Nothing is executed.

    Raises:
        DataError: If the file is damaged, or asks for anything else.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "batch")
    ...     _ = file.write_bytes(pickle.dumps({"data": np.arange(3), "labels": [0, 1, 2]}))
    ...     content = load_arrays(file)
    >>> content["data"].tolist(), content["labels"]
    ([0, 1, 2], [0, 1, 2])
    """
    path = Path(path)
    try:
        return _ArrayUnpickler(io.BytesIO(read_bytes(path)), fix_imports=False, encoding="latin1").load()
    except (DataError, ImportError):
        raise
    except _RefusedError as refused:
        raise DataError(
            f"{path}: the pickle asks for {refused}, which was refused and not executed; {_EXPECTED}"
        ) from None
    except Exception as error:  # a damaged pickle can raise any exception
        reason = str(error)[:200] or "damaged"
        raise DataError(
            f"{path}: is truncated or not a pickle of arrays ({type(error).__name__}: {reason}); {_EXPECTED}"
        ) from None


class _ArrayUnpickler(pickle.Unpickler):
    """Python's unpickler, which finds nothing but :data:`_ADMITTED`."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "csr_matrix" and module in ("scipy.sparse.csr", "scipy.sparse._csr"):
            return _matrix_class()
        module = module.replace("numpy.core.", "numpy._core.").replace("__builtin__", "builtins")
        if (module, name) not in _ADMITTED:
            raise _RefusedError(short_repr(f"{module}.{name}")[1:-1])
        return _ADMITTED[module, name]


class _RefusedError(Exception):
    """The pickle asks for something that is not admitted."""


class _Function:
    """A function that the pickle may call but not change."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise ValueError("a state for something that has none")


class _NumberType:
    """What ``numpy.dtype("f4", False, True)`` returns; the state that follows has the byte order."""

    def __init__(self, name: Any) -> None:
        if not (isinstance(name, str) and _NUMBER_TYPE.fullmatch(name)):
            raise ValueError(f"an array of {short_repr(name)}, which is not a number type")
        self.dtype = np.dtype(name)

    def __setstate__(self, state: Any) -> None:
        _, order, subtype, names, fields, *_ = state
        if not (subtype is names is fields is None):
            raise ValueError("an array of records")
        if order not in ("<", ">", "=", "|"):
            raise ValueError(f"an array of the byte order {short_repr(order)}")
        self.dtype = self.dtype.newbyteorder(order)


class _Array(np.ndarray[Any, Any]):
    """An array that is created empty; the state that follows has type, shape and bytes."""

    def __setstate__(self, state: Any, /) -> None:
        _, shape, kind, fortran, content = state
        raw = _checked_bytes(content, kind, shape)
        super().__setstate__((1, shape, kind.dtype, fortran is True, raw))  # type: ignore[arg-type]


def _array(content: Any, kind: Any, shape: Any, order: Any) -> NDArray[Any]:
    """Return an array as numpy pickles it in protocol 5."""
    return np.frombuffer(_checked_bytes(content, kind, shape), kind.dtype).reshape(shape, order=order).copy()


def _scalar(kind: Any, content: Any) -> Any:
    """Return a single number of a numpy type."""
    return np.frombuffer(_checked_bytes(content, kind, ()), kind.dtype)[0].item()


def _checked_bytes(content: Any, kind: Any, shape: Any) -> bytes:
    """Return the bytes of an array, which Python 2 wrote as text, if they fit its type and its shape."""
    if not isinstance(kind, _NumberType):
        raise ValueError("an array without a type")
    if not (isinstance(shape, tuple) and all(type(length) is int and length >= 0 for length in shape)):
        raise ValueError(f"an array of the shape {short_repr(shape)}")
    raw = content.encode("latin1") if isinstance(content, str) else bytes(content)
    if len(raw) != math.prod(shape) * kind.dtype.itemsize:
        raise ValueError(f"an array of the shape {short_repr(shape)} has {len(raw)} bytes")
    return raw


def _encoded(text: str = "", encoding: str = "latin1") -> bytes:
    """Return bytes, which Python 3 writes in old protocols as text to be encoded as latin-1."""
    if encoding != "latin1":
        raise ValueError(f"bytes in the encoding {short_repr(encoding)}")
    return text.encode("latin1")


@cache
def _matrix_class() -> type:
    """Return a csr matrix that checks the state it is given. Loads scipy."""
    csr_matrix: Any = need("scipy.sparse", "study", "reading sparse matrices").csr_matrix

    class Matrix(csr_matrix):  # type: ignore[misc]
        def __setstate__(self, state: Any) -> None:
            arrays = tuple(np.asarray(state[key]) for key in ("data", "indices", "indptr"))
            rows, columns = state["_shape" if "_shape" in state else "shape"]
            self.__init__(arrays, shape=(rows, columns))  # type: ignore[misc]
            self.check_format(full_check=True)

    return Matrix


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _Function(lambda name, *_: _NumberType(name)),
    ("numpy", "ndarray"): None,  # only ever an argument of _reconstruct
    ("numpy._core.multiarray", "_reconstruct"): _Function(lambda *_: _Array(0)),
    ("numpy._core.multiarray", "scalar"): _Function(_scalar),
    ("numpy._core.numeric", "_frombuffer"): _Function(_array),
    ("_codecs", "encode"): _Function(_encoded),
    ("builtins", "bytes"): _Function(lambda: b""),  # how protocol 2 writes empty bytes
    ("collections", "defaultdict"): _Function(lambda *_: {}),
    ("builtins", "list"): None,  # only ever an argument of defaultdict
}
"""What a pickle may ask for, and what it is given instead."""
