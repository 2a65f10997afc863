"""The catalogue of official data sets: where they are published, their terms, and their published checksums.

A checksum is listed only if the publisher or a data set library publishes it; none is computed by us. For files without
one, the checksum of the first download is recorded on the user's machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from bitcycle._support.names import nearest


@dataclass(frozen=True)
class RemoteFile:
    """A file on a publisher's server: an archive (.tar, .tar.gz, .zip), which is unpacked, or any other file.

    >>> file = RemoteFile("https://host/products.zip", 10, inside="products")
    >>> file.name, file.destination("products/raw/edge.csv.gz"), file.destination("__MACOSX/products/raw")
    ('products.zip', 'raw/edge.csv.gz', None)
    """

    url: str
    size: int
    """Bytes of the download."""
    checksum: str | None = None
    """``md5:...`` or ``sha256:...`` as published; None if no trusted source publishes one."""
    inside: str = ""
    """The folder in an archive whose content is unpacked; empty = everything."""
    members: tuple[str, ...] = ("*",)
    """Patterns of the members that are unpacked, relative to that folder."""

    @property
    def name(self) -> str:
        """The name of the file, in the cache and on every mirror."""
        return self.url.rpartition("/")[2]

    def destination(self, member: str) -> str | None:
        """Return the path to which a member of the archive is unpacked, or None if it is skipped."""
        folder = f"{self.inside}/" if self.inside else ""
        path = member.removeprefix(folder)
        if not path or not member.startswith(folder) or not any(fnmatchcase(path, each) for each in self.members):
            return None
        return path


@dataclass(frozen=True)
class Official:
    """An official data set, as it is published."""

    name: str
    """The name that ``--data`` takes."""
    task: str
    """The task that reads it."""
    files: tuple[RemoteFile, ...]
    licence: str
    """Its licence or terms of use, in one line."""
    checksum_source: str
    """Where the checksums are published, or why there are none."""
    marker: str
    """A file that exists once the data set is complete, relative to its folder."""
    reader_path: str = ""
    """The path that the task's reader takes, relative to the folder of the data set."""

    @property
    def size(self) -> int:
        """Total bytes of all downloads."""
        return sum(file.size for file in self.files)


_CIFAR = "https://www.cs.toronto.edu/~kriz"
_MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist"
_FASHION = "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion"
_VOC = "https://thor.robots.ox.ac.uk/pascal/VOC"
_PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
_OGB = "https://snap.stanford.edu/ogb/data/nodeproppred"
_XNLI = "https://dl.fbaipublicfiles.com/XNLI"

_HUGGING_FACE = "Hugging Face datasets (dataset_infos.json)"
_TENSORFLOW = f"TensorFlow Datasets (url_checksums) and {_HUGGING_FACE}"
_TORCHVISION = "torchvision (datasets/voc.py)"
_NO_CHECKSUM = "neither the publisher nor a data set library publishes one"


def _cifar(name: str, archive: str, size: int, checksum: str, folder: str, meta: str) -> Official:
    terms = "no formal licence; to be cited as A. Krizhevsky, Learning Multiple Layers of Features, 2009"
    file = RemoteFile(f"{_CIFAR}/{archive}", size, checksum)
    return Official(name, "image", (file,), terms, _HUGGING_FACE, f"{folder}/{meta}", folder)


def _idx(
    name: str, host: str, licence: str, source: str, sizes: tuple[int, ...], checksums: tuple[str, ...]
) -> Official:
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    files = tuple(
        RemoteFile(f"{host}/{file}-ubyte.gz", size, f"sha256:{checksum}")
        for file, size, checksum in zip(names, sizes, checksums, strict=True)
    )
    return Official(name, "image", files, licence, source, files[0].name)


def _voc(year: int, last_list: str, *archives: tuple[str, int, str]) -> Official:
    terms = "no formal licence; the images are Flickr's, and their use must respect Flickr's terms"
    files = tuple(RemoteFile(f"{_VOC}/voc{year}/{name}", size, checksum) for name, size, checksum in archives)
    folder = f"VOCdevkit/VOC{year}"
    marker = f"{folder}/ImageSets/Main/{last_list}"
    return Official(f"voc{year}", "detection", files, terms, _TORCHVISION, marker, folder)


def _planetoid(name: str, *sizes: int) -> Official:
    parts = zip(("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index"), sizes, strict=True)
    files = tuple(RemoteFile(f"{_PLANETOID}/ind.{name}.{part}", size) for part, size in parts)
    # The path is not a folder: the reader understands FOLDER/cora as the files FOLDER/ind.cora.*
    return Official(name, "graph", files, "MIT, as its repository states", _NO_CHECKSUM, f"ind.{name}.x", name)


def _ogb(name: str, size: int, licence: str) -> Official:
    archive = RemoteFile(f"{_OGB}/{name}.zip", size, inside=name)
    return Official(f"ogbn-{name}", "graph", (archive,), licence, _NO_CHECKSUM, "raw/edge.csv.gz")


_ENTRIES = (
    _cifar(
        "cifar10",
        "cifar-10-python.tar.gz",
        170_498_071,
        "sha256:6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
        "cifar-10-batches-py",
        "batches.meta",
    ),
    _cifar(
        "cifar100",
        "cifar-100-python.tar.gz",
        169_001_437,
        "sha256:85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
        "cifar-100-python",
        "meta",
    ),
    _idx(
        "mnist",
        _MNIST,
        "no licence stated by the publishers, Y. LeCun and C. Cortes; usually taken to be CC BY-SA 3.0",
        _TENSORFLOW,
        (9_912_422, 28_881, 1_648_877, 4_542),
        (
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
    _idx(
        "fashion-mnist",
        _FASHION,
        "MIT (Zalando SE)",
        _HUGGING_FACE,
        (26_421_880, 29_515, 4_422_102, 5_148),
        (
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    ),
    _voc(
        2007,
        "test.txt",
        ("VOCtrainval_06-Nov-2007.tar", 460_032_000, "md5:c52e279531787c972589f7e41ab4ae64"),
        ("VOCtest_06-Nov-2007.tar", 451_020_800, "md5:b6e924de25625d8de591ea690078ad9f"),
    ),
    _voc(
        2012,
        "train.txt",
        ("VOCtrainval_11-May-2012.tar", 1_999_639_040, "md5:6cd6e144f989b92b3379bac3b3de84fd"),
    ),
    _planetoid("cora", 22_119, 4_054, 148_025, 28_135, 257_305, 47_959, 59_847, 5_000),
    _planetoid("citeseer", 31_087, 3_014, 260_321, 24_135, 595_021, 55_623, 61_987, 5_000),
    _planetoid("pubmed", 23_172, 854, 405_505, 12_135, 7_578_385, 224_739, 471_808, 6_000),
    _ogb("arxiv", 83_058_288, "ODC-BY 1.0, as OGB states it"),
    _ogb("products", 1_480_993_786, "Amazon's licence for its data on products, as OGB states it"),
    Official(
        "wikitext-2",
        "language",
        (
            RemoteFile(
                "https://wikitext.smerity.com/wikitext-2-v1.zip",  # the author's server; the original host is gone
                4_475_746,
                "sha256:92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c",
                inside="wikitext-2",
            ),
        ),
        "Creative Commons Attribution-ShareAlike, as Wikipedia's text",
        f"{_HUGGING_FACE}, for the same archive at its former address",
        "wiki.train.tokens",
    ),
    Official(
        "xnli",
        "entailment",
        (
            RemoteFile(
                f"{_XNLI}/XNLI-1.0.zip",
                17_865_352,
                "sha256:4ba1d5e1afdb7161f0f23c66dc787802ccfa8a25a3ddd3b165a35e50df346ab1",
                inside="XNLI-1.0",
                members=("xnli.*.tsv", "README.md"),
            ),
            RemoteFile(
                f"{_XNLI}/XNLI-MT-1.0.zip",
                466_098_360,
                "sha256:f732517ba2fb1d550e9f3c2aabaef6017c91ee2dcec90e878f138764d224db05",
                inside="XNLI-MT-1.0/multinli",
                members=("multinli.train.en.tsv",),  # the other languages are machine translations
            ),
        ),
        "CC BY-NC 4.0; its training sentences are MultiNLI's, mostly under the OANC's licence",
        _HUGGING_FACE,
        "xnli.dev.tsv",
    ),
    Official(
        "snli",
        "entailment",
        (
            RemoteFile(
                "https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
                94_550_081,
                "sha256:afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e",
                inside="snli_1.0",
                members=("*.jsonl", "README.txt"),
            ),
        ),
        "CC BY-SA 4.0 (The Stanford NLP Group)",
        _TENSORFLOW,
        "snli_1.0_train.jsonl",
    ),
)

OFFICIAL: dict[str, Official] = {entry.name: entry for entry in _ENTRIES}
"""All official data sets, by name."""


def official_named(name: str) -> Official:
    """Return the official data set of a name.

    Raises:
        ValueError: If there is no data set of this name.

    >>> official_named("snli").task
    'entailment'
    >>> official_named("cifar-10")
    Traceback (most recent call last):
    ...
    ValueError: unknown data set 'cifar-10'; did you mean 'cifar10'?
    """
    if name not in OFFICIAL:
        raise ValueError(f"unknown data set {name!r}; {nearest(name, OFFICIAL)}")
    return OFFICIAL[name]
