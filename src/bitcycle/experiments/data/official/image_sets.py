"""The official image sets, for classification and detection."""

from __future__ import annotations

from bitcycle.experiments.data.official.entry import Official, RemoteFile

_CIFAR = "https://www.cs.toronto.edu/~kriz"
_CIFAR_TERMS = "no formal licence; to be cited as A. Krizhevsky, Learning Multiple Layers of Features, 2009"
_MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist"
_FASHION = "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion"
_VOC = "https://thor.robots.ox.ac.uk/pascal/VOC"
_VOC_TERMS = "no formal licence; the images are Flickr's, and their use must respect Flickr's terms"
_HUGGING_FACE = "Hugging Face datasets (dataset_infos.json)"

ENTRIES = (
    Official(
        "cifar10",
        "image",
        (
            RemoteFile(
                f"{_CIFAR}/cifar-10-python.tar.gz",
                170_498_071,
                "sha256:6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
            ),
        ),
        _CIFAR_TERMS,
        _HUGGING_FACE,
        holds="cifar-10-batches-py/batches.meta",
        reads="cifar-10-batches-py",
    ),
    Official(
        "cifar100",
        "image",
        (
            RemoteFile(
                f"{_CIFAR}/cifar-100-python.tar.gz",
                169_001_437,
                "sha256:85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
            ),
        ),
        _CIFAR_TERMS,
        _HUGGING_FACE,
        holds="cifar-100-python/meta",
        reads="cifar-100-python",
    ),
    Official(
        "mnist",
        "image",
        tuple(
            RemoteFile(f"{_MNIST}/{name}-ubyte.gz", size, f"sha256:{checksum}")
            for name, size, checksum in (
                ("train-images-idx3", 9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
                ("train-labels-idx1", 28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
                ("t10k-images-idx3", 1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
                ("t10k-labels-idx1", 4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
            )
        ),
        "no licence stated by the publishers, Y. LeCun and C. Cortes; usually taken to be CC BY-SA 3.0",
        f"TensorFlow Datasets (url_checksums) and {_HUGGING_FACE}",
        holds="train-images-idx3-ubyte.gz",
    ),
    Official(
        "fashion-mnist",
        "image",
        tuple(
            RemoteFile(f"{_FASHION}/{name}-ubyte.gz", size, f"sha256:{checksum}")
            for name, size, checksum in (
                ("train-images-idx3", 26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
                ("train-labels-idx1", 29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
                ("t10k-images-idx3", 4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
                ("t10k-labels-idx1", 5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
            )
        ),
        "MIT (Zalando SE)",
        _HUGGING_FACE,
        holds="train-images-idx3-ubyte.gz",
    ),
    Official(
        "voc2007",
        "detection",
        (
            RemoteFile(
                f"{_VOC}/voc2007/VOCtrainval_06-Nov-2007.tar", 460_032_000, "md5:c52e279531787c972589f7e41ab4ae64"
            ),
            RemoteFile(f"{_VOC}/voc2007/VOCtest_06-Nov-2007.tar", 451_020_800, "md5:b6e924de25625d8de591ea690078ad9f"),
        ),
        _VOC_TERMS,
        "torchvision (datasets/voc.py)",
        holds="VOCdevkit/VOC2007/ImageSets/Main/test.txt",
        reads="VOCdevkit/VOC2007",
    ),
    Official(
        "voc2012",
        "detection",
        (
            RemoteFile(
                f"{_VOC}/voc2012/VOCtrainval_11-May-2012.tar", 1_999_639_040, "md5:6cd6e144f989b92b3379bac3b3de84fd"
            ),
        ),
        _VOC_TERMS,
        "torchvision (datasets/voc.py)",
        holds="VOCdevkit/VOC2012/ImageSets/Main/train.txt",
        reads="VOCdevkit/VOC2012",
    ),
)
