"""Small files that ask for much, and a way to measure what reading one takes.

    python -m tests.experiments.data.attacks FOLDER [NAME ...]

prints for each attack the size of its file, the outcome, the peak of additional memory and the processor time. Each is
read by a process of its own, which may take four gigabytes of additional memory and 40 seconds.
"""

import gzip
import io
import json
import os
import pickle
import resource
import struct
import sys
import tarfile
import time
import zlib
from pathlib import Path

import numpy as np
import scipy.sparse
from PIL import Image

MEMORY, SECONDS = 4_000_000_000, 40
ZEROS = 1 << 26


def gzip_of_zeros(head, size):
    """A gzip file of several parts, so that it is made quickly."""
    return gzip.compress(head) + gzip.compress(bytes(ZEROS)) * (size // ZEROS)


def shared_tuple(depth):
    """A pickle of a tuple of two tuples of two tuples, ..., without the final instruction."""
    return b"\x80\x02)" + b"2\x86" * depth


def read_pickle(file):
    from bitcycle.experiments.data.unpickling import load_arrays

    return load_arrays(file)


def write_pickle(content):
    def write(folder):
        (folder / "batch").write_bytes(content())
        return folder / "batch"

    return write, read_pickle


def many_arrays():
    """Ten thousand arrays of the same megabyte."""
    shared = b"\x80\x03B" + struct.pack("<I", 1_000_000) + bytes(1_000_000) + b"q\x00"
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87Rq\x01"
    new = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    state = b"(K\x01J" + struct.pack("<i", 1_000_000) + b"\x85h\x01\x89h\x00tb"
    return shared + dtype + b"(" + (new + state) * 10_000 + b"l."


def many_lists():
    """A thousand lists of the letters of the same text."""
    text = b"\x80\x02X" + struct.pack("<I", 1_000_000) + b"x" * 1_000_000 + b"q\x00"
    return text + b"(" + b"c__builtin__\nlist\nh\x00\x85R" * 1_000 + b"l."


def read_folder(name):
    def read(folder):
        if name == "images":
            from bitcycle.experiments.data.image_files import read_images

            return read_images(folder).train.images(np_rows())
        if name == "detection":
            from bitcycle.experiments.data.voc import read_voc

            return read_voc(folder).train.sample(0)
        if name == "graph":
            from bitcycle.experiments.data.graph_files import read_graph

            return read_graph(folder)
        if name == "pairs":
            from bitcycle.experiments.data.sentence_pairs import read_pairs

            return read_pairs(folder)
        from bitcycle.experiments.data.text import read_words

        return read_words(folder)

    return read


def np_rows():
    import torch

    return torch.tensor([0])


def cifar(names, label):
    """CIFAR-10 in which the names or the labels are nested lists, each shared twice by the next."""

    def write(folder):
        deep = ["x"]
        for _ in range(40):
            deep = [deep, deep]
        batch = {"data": np.zeros((2, 3072), np.uint8), "labels": [deep if label else 0] * 2}
        for file in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
            (folder / file).write_bytes(pickle.dumps(batch))
        (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": [deep if names else "x"] * 10}))
        return folder

    return write, read_folder("images")


def planetoid(columns=3, neighbours=None):
    def write(folder):
        known, tested = 600, 10
        rows = {"x": 20, "tx": tested, "allx": known}
        for part, label, number in (("x", "y", 20), ("tx", "ty", tested), ("allx", "ally", known)):
            matrix = scipy.sparse.csr_matrix((rows[part], columns), dtype=np.float32)
            (folder / f"ind.cora.{part}").write_bytes(pickle.dumps(matrix))
            (folder / f"ind.cora.{label}").write_bytes(pickle.dumps(np.eye(2, dtype=np.int64)[np.zeros(number, int)]))
        (folder / "ind.cora.graph").write_bytes(
            pickle.dumps(dict.fromkeys(range(known), neighbours if neighbours is not None else [0, 1]))
        )
        (folder / "ind.cora.test.index").write_text("".join(f"{known + i}\n" for i in range(tested)))
        return folder

    return write, read_folder("graph")


def idx(folder):
    """6 GB of pixels in 6 MB."""
    head = bytes((0, 0, 8, 3)) + b"".join(size.to_bytes(4, "big") for size in (96, ZEROS // 8, 8))
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip_of_zeros(head, 96 * ZEROS))
    for name in ("train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
        (folder / name).write_bytes(bytes((0, 0, 8, 1)) + (0).to_bytes(4, "big"))
    return folder


def ogb(content):
    def write(folder):
        for part in ("raw", "split/time"):
            (folder / part).mkdir(parents=True)
        (folder / "raw/num-node-list.csv.gz").write_bytes(gzip.compress(b"3\n"))
        (folder / "raw/node-feat.csv.gz").write_bytes(content())
        for name in ("node-label", "edge", "num-edge-list"):
            (folder / f"raw/{name}.csv.gz").write_bytes(gzip.compress(b"0\n"))
        return folder

    return write, read_folder("graph")


def zeros_table():
    return gzip.compress((b"0" * 15 + b"\n") * (ZEROS // 16)) * 48


def long_row():
    return gzip.compress(b"0," * (ZEROS // 2)) * 4


def png(side):
    """90 kB of PNG, without the time that Pillow takes to compress it."""
    row = b"\0" * (1 + side // 8 + 1)
    pixels = zlib.compressobj(9)
    data = b"".join(pixels.compress(row * 100) for _ in range(side // 100)) + pixels.flush()

    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def class_folder(folder):
    small = io.BytesIO()
    Image.new("RGB", (8, 8)).save(small, "png")
    for name in ("train/a", "val/a"):
        (folder / name).mkdir(parents=True)
        for image in "0123":
            (folder / name / f"{image}.png").write_bytes(png(13_000) if name == "train/a" else small.getvalue())
    return folder


def voc(annotation="", names="a\n", image=None):
    def write(folder):
        for part in ("Annotations", "JPEGImages", "ImageSets/Main"):
            (folder / part).mkdir(parents=True)
        box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>8</xmax><ymax>8</ymax></bndbox>"
        thing = f"<object><name>dog</name>{box}</object>"
        (folder / "Annotations/a.xml").write_text(f"<annotation>{thing}{annotation}</annotation>")
        small = io.BytesIO()
        Image.new("RGB", (8, 8)).save(small, "png")
        (folder / "JPEGImages/a.png").write_bytes(small.getvalue() if image is None else image())
        (folder / "ImageSets/Main/train.txt").write_text(names)
        (folder / "ImageSets/Main/val.txt").write_text("a\na\n")
        return folder

    return write, read_folder("detection")


def long_line(name, rest):
    def write(folder):
        (folder / name).write_bytes(b"a " * 100_000_000)
        for other in rest:
            (folder / other).write_bytes(b"a b c\n")
        return folder

    return write, read_folder("words" if "ptb" in name else "pairs")


def tar_header(kind):
    """A header of 6 GB in 6 MB: the name of a member, or its extended attributes."""

    def write(folder):
        info = tarfile.TarInfo("folder/file")
        info.type, info.size = kind, 96 * ZEROS
        (folder / "small.tar.gz").write_bytes(gzip_of_zeros(info.tobuf(tarfile.GNU_FORMAT), 96 * ZEROS))
        return folder / "small.tar.gz"

    return write, unpack


def unpack(file):
    from bitcycle.experiments.data.official.catalogue import RemoteFile
    from bitcycle.experiments.data.official.unpacking import unpack

    target = file.parent / "unpacked"
    target.mkdir()
    unpack(file, RemoteFile(f"https://nowhere.invalid/{file.name}", file.stat().st_size), target)


ATTACKS = {
    "nested tuples as a key": write_pickle(lambda: shared_tuple(60) + b"q\x000}h\x00K\x01s."),
    "deep tuple as a key": write_pickle(lambda: b"\x80\x02)" + b"\x85" * 1_500_000 + b"q\x000}h\x00K\x01s."),
    "a memo far away": write_pickle(lambda: b"\x80\x02K\x01r" + struct.pack("<I", 220_000_000) + b"."),
    "room for bytes that do not follow": write_pickle(
        lambda: b"\x80\x05\x96" + struct.pack("<Q", 3_500_000_000) + b"x."
    ),
    "many empty lists": write_pickle(lambda: b"\x80\x02(" + b"]" * 30_000_000 + b"l."),
    "arrays of the same bytes": write_pickle(many_arrays),
    "lists of the same text": write_pickle(many_lists),
    "nested labels": cifar(names=False, label=True),
    "nested names": cifar(names=True, label=False),
    "shared neighbours": planetoid(neighbours=[0] * 400_000),
    "many features": planetoid(columns=1_500_000_000),
    "idx": (idx, read_folder("images")),
    "table of zeros": ogb(zeros_table),
    "one long row": ogb(long_row),
    "png in a class folder": (class_folder, read_folder("images")),
    "png with boxes": voc(image=lambda: png(13_000)),
    "long annotation": voc(annotation="<a/>" * 10_000_000),
    "annotation in a list many times": voc(
        annotation="<object><name>x</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>8</xmax><ymax>8</ymax></bndbox></object>"
        * 2000,
        names="a\n" * 20_000,
    ),
    "long line of words": long_line("ptb.train.txt", ("ptb.valid.txt", "ptb.test.txt")),
    "long name in a tar": tar_header(tarfile.GNUTYPE_LONGNAME),
    "long attributes in a tar": tar_header(tarfile.XHDTYPE),
}
"""Attacks by name: a function that writes it into a folder and returns a path, and one that reads that path."""


def measure(name, folder):
    """Read an attack in a process of its own. Return its size, the outcome, the peak in bytes and the seconds."""
    write, read = ATTACKS[name]
    path = write(folder)
    files = [file for file in folder.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        _read_in_child(read, path, sending)
    os.close(sending)
    with os.fdopen(receiving) as answer:
        told = answer.read()
    _, status = os.waitpid(child, 0)
    if not told:
        told = json.dumps({"outcome": f"killed by signal {status & 127}", "message": "", "peak": 0, "seconds": SECONDS})
    return {"size": size, **json.loads(told)}


def _read_in_child(read, path, sending):
    usage = resource.getrusage(resource.RUSAGE_SELF)
    before = usage.ru_maxrss
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    seconds = int(usage.ru_utime + usage.ru_stime) + SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    start = time.process_time()
    outcome, message = "read", ""
    try:
        read(path)
    except BaseException as error:
        outcome, message = type(error).__name__, str(error)[:1000]
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    result = {"outcome": outcome, "message": message, "peak": peak, "seconds": time.process_time() - start}
    os.write(sending, json.dumps(result).encode())
    os._exit(0)


def main(folder, names):
    # Loaded once, so that every child has them.
    import bitcycle.experiments.data.graph_files
    import bitcycle.experiments.data.image_files
    import bitcycle.experiments.data.official
    import bitcycle.experiments.data.sentence_pairs
    import bitcycle.experiments.data.voc  # noqa: F401

    for number, name in enumerate(names or ATTACKS):
        place = folder / str(number)
        place.mkdir(parents=True)
        print(json.dumps({"name": name, **measure(name, place)}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
