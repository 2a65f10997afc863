"""Reading of pickled arrays: nothing in the file is executed.

A pickle is a program that can call any function of any module. As Python's documentation recommends, the unpickler here
finds only the few names that arrays, csr matrices and plain containers need. Files of old versions (Python 2, numpy
before 2, scipy before 1.8) are read in the same way as new ones.
"""

from __future__ import annotations

import io
import pickle
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.extras import need
from bitcycle._support.text import short_repr
from bitcycle.lab.data.files import DataError, read_bytes

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


class _RefusedError(Exception):
    """The pickle asks for something that is not admitted."""


class _ArrayUnpickler(pickle.Unpickler):
    """Python's unpickler, which finds only what numpy and scipy write.

    A pickle can set attributes of the functions and classes it finds, so it gets new ones each time.
    """

    def find_class(self, module: str, name: str) -> Any:
        admitted: dict[str, Any] = {
            "numpy.dtype": lambda name, *_: _NumberType(name),
            "numpy.ndarray": None,  # only ever an argument of _reconstruct
            "numpy._core.multiarray._reconstruct": lambda *_: _Array(0),
            "numpy._core.multiarray.scalar": lambda kind, content: _array(content, kind, (), "C").item(),
            "numpy._core.numeric._frombuffer": lambda *arguments: _array(*arguments).copy(),
            "_codecs.encode": lambda text, _: text.encode("latin1"),  # how old protocols write bytes
            "builtins.bytes": lambda: b"",  # the same for no bytes
            "builtins.list": list,
            "collections.defaultdict": defaultdict,
        }
        wanted = f"{module}.{name}".replace("numpy.core.", "numpy._core.").replace("__builtin__", "builtins")
        if wanted in ("scipy.sparse.csr.csr_matrix", "scipy.sparse._csr.csr_matrix"):
            return _matrix_class()
        if wanted not in admitted:
            raise _RefusedError(short_repr(wanted)[1:-1])
        return admitted[wanted]


class _NumberType:
    """What ``numpy.dtype("f4", False, True)`` returns; the state that follows has the byte order.

    The state does not reach numpy, which trusts it.
    """

    def __init__(self, name: str) -> None:
        if not re.fullmatch(r"[?biufc]\d{0,2}", name):
            raise ValueError(f"an array of {short_repr(name)}, which is not a number type")
        self.dtype = np.dtype(name)

    def __setstate__(self, state: Any) -> None:
        self.dtype = self.dtype.newbyteorder(state[1])


class _Array(np.ndarray[Any, Any]):
    """An array that is created empty; the state that follows has type, shape and bytes."""

    def __setstate__(self, state: Any, /) -> None:
        _, shape, kind, fortran, content = state
        array = _array(content, kind, shape, "F" if fortran else "C")
        super().__setstate__(array.__reduce__()[2])  # type: ignore[arg-type]


def _array(content: Any, kind: _NumberType, shape: Any, order: Any) -> NDArray[Any]:
    """Return an array, if its bytes, which Python 2 wrote as text, fit its type and its shape."""
    raw = content.encode("latin1") if isinstance(content, str) else content
    return np.frombuffer(raw, kind.dtype).reshape(shape, order=order)


def _matrix_class() -> type:
    """Return a new class of csr matrices that check the state they are given. Loads scipy."""
    csr_matrix: Any = need("scipy.sparse", "study", "reading sparse matrices").csr_matrix

    class Matrix(csr_matrix):  # type: ignore[misc]
        def __setstate__(self, state: Any) -> None:
            shape = state["_shape" if "_shape" in state else "shape"]
            self.__init__((state["data"], state["indices"], state["indptr"]), shape=shape)  # type: ignore[misc]
            self.check_format(full_check=True)

    return Matrix
