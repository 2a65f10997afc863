"""Every official data set in its published layout, with a handful of samples: {file: content} by name."""

import gzip
import io
import json
import pickle
import tarfile
import zipfile

import numpy as np
import scipy.sparse
from PIL import Image


def tar(files, mode="w"):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def zipped(files, compression=zipfile.ZIP_DEFLATED):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def cifar10():
    def batch():
        return pickle.dumps({"data": np.random.default_rng(0).integers(0, 256, (4, 3072), np.uint8), "labels": [0] * 4})

    folder = "cifar-10-batches-py/"
    files = {f"{folder}{name}": batch() for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")}
    files[f"{folder}batches.meta"] = pickle.dumps({"label_names": [str(number) for number in range(10)]})
    return {"cifar-10-python.tar.gz": tar(files, "w:gz")}


def cifar100():
    pixels = np.random.default_rng(0).integers(0, 256, (20, 3072), np.uint8)
    batch = pickle.dumps({"data": pixels, "fine_labels": list(range(80, 100))}, protocol=2)
    meta = pickle.dumps({"fine_label_names": [str(number) for number in range(100)]})
    files = {"train": batch, "test": batch, "meta": meta}
    return {"cifar-100-python.tar.gz": tar({f"cifar-100-python/{name}": file for name, file in files.items()}, "w:gz")}


def idx():
    def part(*shape):
        head = bytes((0, 0, 8, len(shape))) + b"".join(size.to_bytes(4, "big") for size in shape)
        return gzip.compress(head + bytes(number % 10 for number in range(int(np.prod(shape)))))

    return {
        f"{name}-{kind}-ubyte.gz": part(count, *sides)
        for name, count in (("train", 20), ("t10k", 5))
        for kind, sides in (("images-idx3", (28, 28)), ("labels-idx1", ()))
    }


def voc(year, names):
    picture = io.BytesIO()
    Image.new("RGB", (20, 10)).save(picture, "jpeg")
    box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>20</xmax><ymax>10</ymax></bndbox>"
    annotation = f"<annotation><object><name>dog</name>{box}</object></annotation>".encode()
    folder, files = f"VOCdevkit/VOC{year}/", {}
    for name in names:
        lines = [f"{name}_{image}" for image in range(2)]
        files[f"{folder}ImageSets/Main/{name}.txt"] = "\n".join(lines).encode()
        for line in lines:
            files[f"{folder}Annotations/{line}.xml"] = annotation
            files[f"{folder}JPEGImages/{line}.jpg"] = picture.getvalue()
    return tar(files)


PLANETOID_TEST = (519, 512, 511, 513, 516, 510, 514, 517, 518)
"""The test nodes of the tiny Planetoid sets, in the order of their files; 515 is a gap."""


def planetoid(name):
    known, tested = 510, len(PLANETOID_TEST)
    labels = np.eye(2, dtype=np.int64)
    parts = {
        "x": scipy.sparse.csr_matrix(np.eye(8, 6)),
        "y": labels[np.arange(8) % 2],
        "tx": scipy.sparse.csr_matrix(np.eye(tested, 6)),
        "ty": labels[np.arange(tested) % 2],
        "allx": scipy.sparse.csr_matrix(np.eye(known, 6)),
        "ally": labels[np.arange(known) % 2],
        "graph": {node: [node + 1, node, node + 1] for node in range(known)},
    }
    files = {f"ind.{name}.{part}": pickle.dumps(value) for part, value in parts.items()}
    files[f"ind.{name}.test.index"] = "\n".join(map(str, PLANETOID_TEST)).encode()
    return files


def ogb(name, split):
    tables = {
        "raw/edge": "0,1\n1,0\n2,3\n3,3\n",
        "raw/node-feat": "0.5,1\n1,2\n2,3\n3,4\n",
        "raw/node-label": "0\n1\n0\n1\n",
        "raw/num-node-list": "4\n",
        "raw/num-edge-list": "4\n",
        f"split/{split}/train": "1\n0\n",
        f"split/{split}/valid": "2\n",
        f"split/{split}/test": "3\n",
    }
    files = {f"{name}/{path}.csv.gz": gzip.compress(text.encode()) for path, text in tables.items()}
    return {f"{name}.zip": zipped({f"{name}/RELEASE_v1.txt": b"", f"__MACOSX/{name}/._raw": b"", **files})}


def wikitext():
    parts = {"train": "a b c", "valid": "a d", "test": "b"}
    return {"wikitext-2-v1.zip": zipped({f"wikitext-2/wiki.{part}.tokens": text for part, text in parts.items()})}


def xnli():
    header = "language\tgold_label\tsentence1\tsentence2\n"
    rows = "".join(f"{language}\tneutral\tA dog barks.\tIt is {language}.\n" for language in ("de", "en"))
    official = {f"XNLI-1.0/xnli.{part}.{kind}": header + rows for part in ("dev", "test") for kind in ("tsv", "jsonl")}
    train = "premise\thypo\tlabel\nA dog barks .\tA dog is silent .\tcontradictory\n"
    translated = {f"XNLI-MT-1.0/multinli/multinli.train.{language}.tsv": train for language in ("de", "en")}
    return {
        "XNLI-1.0.zip": zipped({"XNLI-1.0/": "", "__MACOSX/XNLI-1.0/._xnli.dev.tsv": "x", **official}),
        "XNLI-MT-1.0.zip": zipped({**translated, "XNLI-MT-1.0/xnli/xnli.dev.en.tsv": "x"}),
    }


def snli():
    pair = {"gold_label": "entailment", "sentence1": "A dog barks.", "sentence2": "A dog makes noise."}
    files = {f"snli_1.0/snli_1.0_{part}.jsonl": json.dumps(pair) + "\n" for part in ("train", "dev", "test")}
    return {"snli_1.0.zip": zipped({"snli_1.0/": "", "snli_1.0/Icon\r": "", "__MACOSX/._snli_1.0": "x", **files})}


TINY = {
    "cifar10": cifar10,
    "cifar100": cifar100,
    "mnist": idx,
    "fashion-mnist": idx,
    "voc2007": lambda: {
        "VOCtrainval_06-Nov-2007.tar": voc(2007, ("train", "val")),
        "VOCtest_06-Nov-2007.tar": voc(2007, ("test",)),
    },
    "voc2012": lambda: {"VOCtrainval_11-May-2012.tar": voc(2012, ("train", "val"))},
    "cora": lambda: planetoid("cora"),
    "citeseer": lambda: planetoid("citeseer"),
    "pubmed": lambda: planetoid("pubmed"),
    "ogbn-arxiv": lambda: ogb("arxiv", "time"),
    "ogbn-products": lambda: ogb("products", "sales_ranking"),
    "wikitext-2": wikitext,
    "xnli": xnli,
    "snli": snli,
}


def unpack_tiny(name, folder):
    """Write a tiny data set to a folder, with its archives unpacked, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in TINY[name]().items():
        if file.endswith(".zip"):
            zipfile.ZipFile(io.BytesIO(content)).extractall(folder)
        elif ".tar" in file:
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                archive.extractall(folder, filter="data")
        else:
            (folder / file).write_bytes(content)
    return folder
