"""The catalogue of official data, and the way of a data set from a server into the cache."""

import dataclasses
import hashlib
import io
import json
import re
import stat
import subprocess
import sys
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bitcycle.lab.data.detection import DetectionData
from bitcycle.lab.data.files import DataError
from bitcycle.lab.data.graph_files import read_graph
from bitcycle.lab.data.image_files import read_images
from bitcycle.lab.data.official import (
    OFFICIAL,
    Official,
    RemoteFile,
    cache_folder,
    fetch,
    fetching,
    find_official,
    official_named,
    unpacking,
)
from bitcycle.lab.data.official.fetching import DownloadError
from bitcycle.lab.data.sentence_pairs import read_pairs
from bitcycle.lab.data.text import read_words
from bitcycle.lab.data.voc import read_voc
from bitcycle.lab.tasks import TASKS
from tests.lab.data.official import official as real
from tests.lab.data.serving import closed_port, local_server
from tests.lab.data.tiny_sets import TINY, tar, zipped

READERS = {
    "image": read_images,
    "detection": read_voc,
    "graph": lambda path: read_graph(path),
    "language": read_words,
    "entailment": read_pairs,
}


@pytest.fixture
def server():
    with local_server() as local:
        yield local


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BITCYCLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")  # the server is on this machine
    monkeypatch.chdir(tmp_path)
    return cache_folder()


def small(content, name="small.tar.gz", checksum="right", **options):
    """An entry of the catalogue for one file."""
    if checksum == "right":
        checksum = f"sha256:{hashlib.sha256(content).hexdigest()}"
    file = RemoteFile(f"https://nowhere.invalid/{name}", len(content), checksum, **options)
    return Official("small", "image", (file,), "MIT", "a test", marker="folder/file")


def published_for(entry, files):
    """The entry, with the checksums of other files wherever it has any."""
    changed = []
    for file in entry.files:
        right = f"sha256:{hashlib.sha256(files[file.name]).hexdigest()}"
        changed.append(dataclasses.replace(file, checksum=right if file.checksum else None))
    return dataclasses.replace(entry, files=tuple(changed))


def everything_in(folder):
    if not folder.exists():
        return []
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.name != ".lock")


# The catalogue


@pytest.mark.parametrize("entry", OFFICIAL.values(), ids=OFFICIAL)
def test_laws_of_the_catalogue(entry):
    assert entry.task in TASKS
    assert len(entry.licence) > 2
    assert len(entry.checksum_source) > 10
    assert entry.files
    assert len({file.name for file in entry.files}) == len(entry.files)
    for file in entry.files:
        assert re.fullmatch(r"https://[\w.-]+/[\w./~-]+", file.url)
        assert file.size > 0
        if file.checksum is None:
            assert "neither" in entry.checksum_source  # says why there is none
        else:
            assert re.fullmatch(r"md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", file.checksum)
    assert "downloads" not in OFFICIAL  # it would be taken for the folder of archives


def test_no_checksum_stands_for_two_files():
    sums = [file.checksum for entry in OFFICIAL.values() for file in entry.files if file.checksum]
    assert len(set(sums)) == len(sums)


def test_the_names():
    expected = "cifar10 cifar100 mnist fashion-mnist voc2007 voc2012 cora citeseer pubmed ogbn-arxiv ogbn-products"
    assert list(OFFICIAL) == [*expected.split(), "wikitext-2", "xnli", "snli"]
    with pytest.raises(ValueError, match="unknown data set 'mnst'; did you mean 'mnist'"):
        official_named("mnst")


@pytest.mark.parametrize("entry", OFFICIAL.values(), ids=OFFICIAL)
def test_the_documentation_says_what_the_catalogue_says(entry):
    table = (Path(__file__).parents[3] / "docs/data.md").read_text()
    row = next(line for line in table.splitlines() if line.startswith(f"| {entry.name} |"))
    assert entry.task in row
    assert entry.licence in row
    assert (entry.checksum_source if entry.files[0].checksum else "recorded at the first download") in row


# From the server to the reader


@pytest.mark.parametrize("name", OFFICIAL)
def test_the_task_reads_what_was_fetched(name, server, cache, monkeypatch):
    server.files = TINY[name]()
    monkeypatch.setitem(OFFICIAL, name, published_for(OFFICIAL[name], server.files))
    fetched = fetch(OFFICIAL[name], cache, server.url)
    assert fetched.new
    assert find_official(name) == fetched.path
    data = READERS[OFFICIAL[name].task](fetched.path)
    if name == "fashion-mnist":
        assert data.classes[0] == "T-shirt/top"
    elif name == "mnist":
        assert data.classes[0] == "0"
    elif isinstance(data, DetectionData):
        assert (data.name, len(data.train), len(data.test)) == (name.upper(), 2, 2 if name == "voc2007" else 1)
        assert data.test.sample(0).image.shape == (3, 10, 20)
    elif name == "xnli":
        assert (data.name, len(data.train), len(data.test)) == ("xnli-en", 1, 1)
        assert data.test[0].hypothesis == "It is en."
    elif name not in ("cifar10", "cifar100"):
        assert data.name == name
    assert not (cache / "downloads").exists()
    assert not [path for path in everything_in(cache) if "MACOSX" in path or path.startswith(".")]
    asked = len(server.asked)
    assert asked == len(OFFICIAL[name].files)
    again = fetch(OFFICIAL[name], cache, server.url)
    assert (again.path, again.new, again.recorded) == (fetched.path, False, {})
    assert len(server.asked) == asked


@pytest.mark.parametrize(("name", "nodes"), [("cora", 2708), ("citeseer", 3327), ("pubmed", 19_717)])
def test_real_planetoid(name, nodes, server, cache):
    files = {path.name: path.read_bytes() for path in real("planetoid").glob(f"ind.{name}.*")}
    assert {file.name: file.size for file in OFFICIAL[name].files} == {key: len(file) for key, file in files.items()}
    server.files = files
    fetch(OFFICIAL[name], cache, server.url)
    assert len(read_graph(find_official(name)).y) == nodes


@pytest.mark.slow
def test_real_batches_and_words(server, cache, monkeypatch):
    batches = real("cifar10") / "cifar-10-batches-py"
    words = {f"wikitext-2/wiki.{path.stem}.tokens": path.read_bytes() for path in real("wikitext-2").glob("*.txt")}
    server.files = {
        "cifar-10-python.tar.gz": tar({f"cifar-10-batches-py/{p.name}": p.read_bytes() for p in batches.iterdir()}),
        "wikitext-2-v1.zip": zipped(words),
    }
    for name in ("cifar10", "wikitext-2"):
        monkeypatch.setitem(OFFICIAL, name, published_for(OFFICIAL[name], server.files))
        fetch(OFFICIAL[name], cache, server.url)
    assert len(read_images(find_official("cifar10")).test) == 2000
    assert len(read_words(find_official("wikitext-2")).vocabulary) == 33_278


def test_progress_is_told(server, cache):
    content = tar({"folder/file": bytes(300_000)})
    server.files = {"small.tar.gz": content}
    told = []
    fetch(small(content), cache, server.url, lambda *now: told.append(now))
    assert len(told) > 3
    assert {(name, total) for name, _, total in told} == {("small.tar.gz", len(content))}
    done = [done for _, done, _ in told]
    assert done == sorted(done)
    assert done[-1] == len(content)


def test_a_mirror_for_each_name(server, cache):
    content = tar({"folder/file": b"x"})
    server.files = {"of/small/small.tar.gz": content}
    assert fetch(small(content), cache, f"{server.url}/of/{{name}}/").new


@pytest.mark.parametrize(
    "mirror", ["/tmp", "", "host", "ftp://host", "file:///tmp", "http://", "http://[", "https://a b/"]
)
def test_no_mirrors(mirror, cache):
    with pytest.raises(ValueError, match="mirror must be a URL such as https://host/folder, got"):
        fetch(small(b""), cache, mirror)
    assert not cache.exists()


# What can go wrong on the way


def fails(entry, cache, mirror, told, error=DownloadError):
    before = everything_in(cache)
    with pytest.raises(error, match=told) as caught:
        fetch(entry, cache, mirror)
    assert "\n" not in str(caught.value)
    assert everything_in(cache) == before


def test_downloads_that_fail_leave_nothing(server, cache):
    content = tar({"folder/file": bytes(100_000)})
    cache.mkdir()
    fails(small(content), cache, server.url, "127.0.0.1:.* does not serve small.tar.gz: it responds 404 Not Found")
    fails(small(content), cache, closed_port(), r"cannot reach 127.0.0.1:\d+: no network\?$")
    fails(small(content), cache, None, r"cannot reach nowhere.invalid: no network\?$")
    server.files, server.cut = {"small.tar.gz": content}, {"small.tar.gz"}
    fails(small(content), cache, server.url, "the download of small.tar.gz from .* was interrupted")
    fails(small(content, checksum=None), cache, server.url, "was interrupted")
    server.cut = set()
    for wrong in (f"md5:{'0' * 32}", f"sha256:{'0' * 64}"):
        fails(
            small(content, checksum=wrong),
            cache,
            server.url,
            rf"does not match {wrong} \(published in a test\); it was deleted",
        )
    assert fetch(small(content), cache, server.url).new


def test_an_interrupted_download_leaves_nothing(server, cache):
    content = tar({"folder/file": bytes(300_000)})
    server.files = {"small.tar.gz": content}

    def interrupt(name, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(small(content), cache, server.url, interrupt)
    assert everything_in(cache) == []


def test_whole_files_of_a_broken_attempt_are_used(server, cache, monkeypatch):
    files = TINY["mnist"]()
    entry = published_for(OFFICIAL["mnist"], files)
    server.files = {name: file for name, file in files.items() if name.startswith("train")}
    with pytest.raises(DownloadError, match="404"):
        fetch(entry, cache, server.url)
    assert not (cache / "mnist").exists()
    server.files, server.asked = files, []
    fetch(entry, cache, server.url)
    assert sorted(server.asked) == ["/t10k-images-idx3-ubyte.gz", "/t10k-labels-idx1-ubyte.gz"]


# Trust on first use


def test_the_first_download_is_recorded(server, cache):
    content, other = (tar({"folder/file": text}) for text in (b"one", b"two"))
    entry = small(content, checksum=None)
    server.files = {"small.tar.gz": content}
    recorded = {"small.tar.gz": f"sha256:{hashlib.sha256(content).hexdigest()}"}
    assert fetch(entry, cache, server.url).recorded == recorded
    seen = cache / "first-seen.json"
    assert json.loads(seen.read_text()) == {"small/small.tar.gz": recorded["small.tar.gz"]}

    (cache / "small/folder/file").unlink()
    fails(entry, cache, server.url, "small: has no folder/file; delete the folder to fetch it again", DataError)
    (cache / "small/folder").rmdir()
    (cache / "small").rmdir()
    server.files = {"small.tar.gz": other}
    fails(entry, cache, server.url, "recorded in first-seen.json at the first download")
    server.files = {"small.tar.gz": content}
    assert fetch(entry, cache, server.url).recorded == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', '{"a": "sha256:0"}'])
def test_a_damaged_record(text, server, cache):
    cache.mkdir()
    (cache / "first-seen.json").write_text(text)
    fails(small(b"", checksum=None), cache, server.url, "first-seen.json: is damaged", DataError)


# Archives that are not what they claim to be


def member(name, kind=tarfile.REGTYPE, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def tar_with(info):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        harmless = tarfile.TarInfo("folder/file")
        archive.addfile(harmless, io.BytesIO())
        archive.addfile(info, io.BytesIO())
    return packed.getvalue()


@pytest.mark.parametrize(
    ("info", "told"),
    [
        (member("../x"), "leads out of the folder"),
        (member("folder/../../x"), "leads out of the folder"),
        (member("/tmp/x"), "leads out of the folder"),
        (member("C:/x"), "leads out of the folder"),
        (member("..\\x"), "leads out of the folder"),
        (member("link", tarfile.SYMTYPE, "/etc"), "is a link to an absolute path"),
        (member("link", tarfile.SYMTYPE, "../x"), "outside the destination"),
        (member("link", tarfile.LNKTYPE, "../../x"), "outside the destination"),
        (member("device", tarfile.CHRTYPE), "is a special file"),
        (member("pipe", tarfile.FIFOTYPE), "is a special file"),
    ],
)
def test_malicious_tar(info, told, server, cache, tmp_path):
    content = tar_with(info)
    server.files = {"small.tar.gz": content}
    cache.mkdir()
    for checksum in ("right", None):
        fails(small(content, checksum=checksum), cache, server.url, f"small.tar.gz: refused, .*{told}", DataError)
    assert everything_in(tmp_path) == ["cache"]


def zip_with(name, mode=0):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("folder/file", b"")
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        archive.writestr(info, b"/etc/passwd")
    return packed.getvalue()


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "a/../../x", "c:\\x"])
def test_malicious_zip(name, server, cache, tmp_path):
    content = zip_with(name)
    server.files = {"small.zip": content}
    cache.mkdir()
    for members in ("*", "folder/*"):
        fails(
            small(content, "small.zip", members=(members,)),
            cache,
            server.url,
            "small.zip: refused, .*leads out of the folder",
            DataError,
        )
    assert everything_in(tmp_path) == ["cache"]


def test_a_link_in_a_zip_becomes_a_file(server, cache):
    content = zip_with("link", stat.S_IFLNK | 0o777)
    server.files = {"small.zip": content}
    fetch(small(content, "small.zip"), cache, server.url)
    assert not (cache / "small" / "link").is_symlink()


def test_an_encrypted_zip(server, cache):
    content = bytearray(zipped({"folder/file": b"x"}))
    for mark in (b"PK\x03\x04", b"PK\x01\x02"):
        at = content.index(mark) + (6 if mark[2] == 3 else 8)
        content[at] |= 1
    server.files = {"small.zip": bytes(content)}
    cache.mkdir()
    fails(small(bytes(content), "small.zip"), cache, server.url, "is encrypted", DataError)


@pytest.mark.parametrize("name", ["small.tar.gz", "small.zip"])
def test_an_archive_that_unpacks_to_too_much(name, server, cache, monkeypatch):
    monkeypatch.setattr(unpacking, "MAX_UNPACKED_BYTES", 2_000_000)
    files = {"folder/file": b"", "zeros": bytes(3_000_000)}
    content = zipped(files) if name.endswith("zip") else tar(files, "w:gz")
    server.files = {name: content}
    cache.mkdir()
    fails(small(content, name), cache, server.url, "refused, it would unpack to more than 2 MB", DataError)
    assert fetch(small(content, name, members=("folder/*",)), cache, server.url).new


@pytest.mark.parametrize("name", ["small.tar.gz", "small.zip"])
def test_a_name_that_no_disk_can_hold(name, server, cache):
    files = {"folder/file": b"", "x" * 300: b""}
    content = zipped(files) if name.endswith("zip") else tar(files, "w:gz")
    server.files = {name: content}
    cache.mkdir()
    fails(small(content, name), cache, server.url, "is damaged or not an archive .*File name too long", DataError)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("small.tar.gz", b"hello", "is damaged or not an archive"),
        ("small.tar.gz", tar({"folder/file": b"x" * 9999}, "w:gz")[:-20], "is damaged or not an archive"),
        ("small.tar.gz", tar({"other/file": b""}), "has no folder/file"),
        ("small.zip", b"", "is damaged or not an archive"),
        ("small.zip", zipped({"folder/file": b"x"})[:-9], "is damaged or not an archive"),
        ("file", b"", "has no folder/file"),
    ],
    ids=["no tar", "cut tar", "other tar", "empty zip", "cut zip", "no archive"],
)
def test_no_archives(name, content, told, server, cache):
    server.files = {name: content}
    cache.mkdir()
    fails(small(content, name), cache, server.url, told, DataError)


def test_a_file_of_the_zip_that_is_damaged(server, cache):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("folder/file", b"abc")
    content = packed.getvalue().replace(b"abc", b"abd")  # its own sum tells
    server.files = {"small.zip": content}
    cache.mkdir()
    fails(small(content, "small.zip"), cache, server.url, "is damaged", DataError)


# Killed in the middle


def test_a_kill_while_unpacking_leaves_no_half_data_set(server, cache, monkeypatch):
    content = tar({"folder/file": b"x", "folder/more": b"y"})
    server.files = {"small.tar.gz": content}

    def killed(file, remote, folder):
        (folder / "folder").mkdir()
        (folder / "folder/file").write_text("half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fetching, "unpack", killed)
        with pytest.raises(KeyboardInterrupt):
            fetch(small(content), cache, server.url)
    assert everything_in(cache) == ["downloads", "downloads/small", "downloads/small/small.tar.gz"]
    assert fetch(small(content), cache, server.url).new  # from the archive that is there
    assert len(server.asked) == 1
    assert everything_in(cache) == ["small", "small/folder", "small/folder/file", "small/folder/more"]


def test_a_process_that_dies_while_unpacking(server, cache):
    server.files = TINY["cora"]()
    code = (
        "import os\n"
        "from bitcycle.lab.data.official import OFFICIAL, cache_folder, fetch, fetching\n"
        "unpack = fetching.unpack\n"
        "def dying(file, remote, folder):\n"
        "    unpack(file, remote, folder)\n"
        "    if file.name.endswith('.tx'): os._exit(9)\n"
        "fetching.unpack = dying\n"
        f"fetch(OFFICIAL['cora'], cache_folder(), {server.url!r})\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 9
    assert any("unfinished" in path for path in everything_in(cache))
    with pytest.raises(DataError, match="is not in the cache"):
        find_official("cora")
    asked = len(server.asked)
    assert fetch(OFFICIAL["cora"], cache, server.url).new
    assert len(server.asked) == asked


def test_of_two_processes_one_downloads(server, cache):
    server.files = TINY["cora"]()
    with ThreadPoolExecutor() as pool:
        fetched = list(pool.map(lambda _: fetch(OFFICIAL["cora"], cache, server.url).new, range(2)))
    assert sorted(fetched) == [False, True]
    assert len(server.asked) == len(server.files)


# By name


def test_find_official(cache, tmp_path):
    assert find_official("some/folder").as_posix() == "some/folder"
    assert find_official(tmp_path) == tmp_path
    with pytest.raises(DataError, match="^cifar10 is not in the cache: run 'bitcycle data get cifar10'$"):
        find_official("cifar10")
    (tmp_path / "cifar10").mkdir()
    assert find_official("cifar10").as_posix() == "cifar10"


def test_the_default_cache_is_the_system_s(monkeypatch):
    monkeypatch.setenv("BITCYCLE_CACHE", "")
    assert "bitcycle" in cache_folder().parts
    monkeypatch.setenv("BITCYCLE_CACHE", "~/data")
    assert "~" not in str(cache_folder())
