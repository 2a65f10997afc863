"""Pickles: arrays in, nothing else, and nothing executed."""

import collections
import contextlib
import os
import pickle
import struct

import numpy as np
import pytest
import scipy.sparse

from bitcycle.lab.data.files import DataError
from bitcycle.lab.data.graphs import read_planetoid
from bitcycle.lab.data.unpickling import load_arrays
from tests.lab.data.tiny_sets import unpack_tiny

ARRAYS = {
    "bytes": np.arange(6, dtype=np.uint8).reshape(2, 3),
    "floats": np.linspace(0, 1, 5, dtype=np.float32),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "big-endian": np.arange(4, dtype=">i4"),
    "bools": np.array([True, False]),
    "empty": np.zeros((0, 3)),
    "scalar-like": np.array(3),
}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "batch"


def stored(file, value, protocol=4):
    file.write_bytes(pickle.dumps(value, protocol))
    return load_arrays(file)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_arrays_come_back(file, protocol):
    loaded = stored(file, ARRAYS, protocol)
    for key, array in ARRAYS.items():
        assert loaded[key].dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(loaded[key], array)
        assert loaded[key].flags.writeable


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_and_matrices_come_back(file, protocol):
    plain = {b"k": [1, 2.5, "text", b"bytes", None, True, (1, 2)], "n": {"inner": []}, 3: np.float32(1.5)}
    assert stored(file, plain, protocol) == plain
    graph = collections.defaultdict(list, {0: [1], 1: [0]})
    assert stored(file, graph, protocol) == {0: [1], 1: [0]}
    matrix = scipy.sparse.csr_matrix(np.eye(3, 4, dtype=np.float32))
    assert (stored(file, matrix, protocol) != matrix).nnz == 0


def test_what_python_2_and_old_numpy_wrote(file):
    array = np.arange(200, 206, dtype=np.uint8)
    raw = pickle.dumps({"data": array}, protocol=2).replace(b"numpy._core", b"numpy.core")
    file.write_bytes(raw)
    np.testing.assert_array_equal(load_arrays(file)["data"], array)
    # Python 2 wrote texts and the bytes of arrays alike, as SHORT_BINSTRING.
    file.write_bytes(b"\x80\x02}U\x04dataU\x03\xe9\x00\xffs.")
    assert load_arrays(file) == {"data": "\xe9\x00\xff"}


class Evil:
    def __init__(self, call, *arguments):
        self.call = call, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("name", ["system", "mkdir"])
def test_code_is_refused_and_not_executed(file, tmp_path, name, protocol):
    mark = tmp_path / "executed"
    argument = f"mkdir {mark}" if name == "system" else str(mark)
    file.write_bytes(pickle.dumps({"data": Evil(getattr(os, name), argument)}, protocol))
    with pytest.raises(DataError, match=rf"batch: the pickle asks for (posix|nt|os)\.{name}, which was refused"):
        load_arrays(file)
    assert not mark.exists()
    pickle.loads(file.read_bytes())  # the pickle is a live one
    assert mark.exists()


@pytest.mark.parametrize("thing", [eval, getattr, print, np.load, np.memmap, scipy.sparse.load_npz, Evil])
def test_everything_else_is_refused(file, thing):
    with pytest.raises(DataError, match="nothing but numbers, text, lists"):
        stored(file, thing)


def test_a_pickle_cannot_change_the_reader(file):
    # BUILD on a class or a function: its state would become attributes, for all files to come.
    for module, name in (("scipy.sparse.csr", "csr_matrix"), ("numpy", "dtype"), ("collections", "defaultdict")):
        file.write_bytes(b"\x80\x02c" + f"{module}\n{name}\n".encode() + b"N}U\x05valueK\x01s\x86b.")
        with contextlib.suppress(DataError):
            load_arrays(file)
    test_plain_values_and_matrices_come_back(file, 2)


def test_arrays_and_matrices_that_hold_anything_else_are_refused(file):
    for array in (np.array([None, "x"], dtype=object), np.zeros(2, [("a", "i4")]), np.array(["text"])):
        with pytest.raises(DataError, match="an array of"):
            stored(file, array)
    matrix = scipy.sparse.csr_matrix(np.eye(3))
    matrix.indices[0] = 7
    with pytest.raises(DataError, match="not a pickle of arrays"):
        stored(file, matrix)
    file = unpack_tiny("cora", file.parent) / "ind.cora.x"
    file.write_bytes(b"\x80\x02cscipy.sparse.csr\ncsr_matrix\n)\x81.")  # a matrix without a state
    with pytest.raises(DataError, match="ind.cora.x: holds a Matrix; it should hold a sparse matrix of features"):
        read_planetoid(file.parent, "cora")


def test_damaged_files(file):
    content = pickle.dumps(ARRAYS, protocol=2)
    for length in range(0, len(content), 7):
        file.write_bytes(content[:length])
        with pytest.raises(DataError, match=r"batch: (is truncated or not a pickle|the file is empty)"):
            load_arrays(file)
    for wrong in (b"hello", b"\x89PNG\r\n", b"\x80\x05\x8e" + struct.pack("<Q", 2**62), b"\x80\x02." * 3):
        file.write_bytes(wrong)
        with pytest.raises(DataError, match="truncated or not a pickle"):
            load_arrays(file)
    with pytest.raises(DataError, match="cannot be read"):
        load_arrays(file.parent / "absent")


def test_a_changed_byte_gives_a_data_error_or_plain_data(file):
    content = pickle.dumps({"data": np.arange(3, dtype=np.uint8), "labels": [1, 2]}, protocol=2)
    for place in range(len(content)):
        for change in (0x01, 0x80):
            damaged = bytearray(content)
            damaged[place] ^= change
            file.write_bytes(damaged)
            with contextlib.suppress(DataError):  # and nothing but a DataError
                load_arrays(file)
