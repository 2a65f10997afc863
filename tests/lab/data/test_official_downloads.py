"""The catalogue of official data, and the way of a data set from a server into the cache."""

import contextlib
import dataclasses
import hashlib
import io
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
from bitcycle.lab.data.graphs import read_graph
from bitcycle.lab.data.image_files import read_images
from bitcycle.lab.data.official import (
    OFFICIAL,
    Official,
    RemoteFile,
    cache_folder,
    fetch,
    find_official,
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
    table = (Path(__file__).parents[3] / "docs/data.md").read_text()
    row = next(line for line in table.splitlines() if line.startswith(f"| {entry.name} |"))
    assert entry.task in row
    assert entry.licence in row
    assert (entry.checksum_source if entry.files[0].checksum else "printed after the download") in row


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
    assert {path.split("/")[0] for path in everything_in(cache)} <= {name}
    assert not [path for path in everything_in(cache) if "MACOSX" in path]
    unchecked = {file.name: server.files[file.name] for file in OFFICIAL[name].files if file.checksum is None}
    assert fetched.computed == {file: f"sha256:{hashlib.sha256(unchecked[file]).hexdigest()}" for file in unchecked}
    asked = len(server.asked)
    assert asked == len(OFFICIAL[name].files)
    again = fetch(OFFICIAL[name], cache, server.url)
    assert (again.path, again.new, again.computed) == (fetched.path, False, {})
    assert len(server.asked) == asked


@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed"])
def test_sizes_of_real_planetoid_files(name):
    files = {path.name: path.stat().st_size for path in real("planetoid").glob(f"ind.{name}.*")}
    assert {file.name: file.size for file in OFFICIAL[name].files} == files


def test_progress_of_a_download_from_a_mirror_for_each_name(server, cache):
    content = tar({"folder/file": bytes(300_000)})
    server.files = {"of/small/small.tar.gz": content}
    reported = []
    assert fetch(small(content), cache, f"{server.url}/of/{{name}}/", lambda *now: reported.append(now)).new
    assert len(reported) > 3
    assert {(name, total) for name, _, total in reported} == {("small.tar.gz", len(content))}
    done = [done for _, done, _ in reported]
    assert done == sorted(done)
    assert done[-1] == len(content)


@pytest.mark.parametrize("mirror", ["/tmp", "", "ftp://host", "http://", "http://[", "https://a b/"])
def test_no_mirrors(mirror, cache):
    with pytest.raises(ValueError, match="mirror must be a URL such as https://host/folder, got"):
        fetch(small(b""), cache, mirror)
    assert not cache.exists()


# What can go wrong on the way


def fails(entry, cache, mirror, reason, error=DownloadError):
    before = everything_in(cache)
    with pytest.raises(error, match=reason) as caught:
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
    for checksum in ("right", None):
        fails(small(content, checksum=checksum), cache, server.url, "download of small.tar.gz from .* was interrupted")
    server.cut = set()
    for wrong in (f"md5:{'0' * 32}", f"sha256:{'0' * 64}"):
        reason = rf"does not match {wrong} \(published in a test\); it was deleted"
        fails(small(content, checksum=wrong), cache, server.url, reason)

    def interrupt(name, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(small(content), cache, server.url, interrupt)
    assert everything_in(cache) == []


def test_complete_files_of_a_failed_attempt_are_used(server, cache):
    files = TINY["mnist"]()
    entry = published_for(OFFICIAL["mnist"], files)
    server.files = {name: file for name, file in files.items() if name.startswith("train")}
    with pytest.raises(DownloadError, match="404"):
        fetch(entry, cache, server.url)
    assert not (cache / "mnist").exists()
    server.files, server.asked = files, []
    fetch(entry, cache, server.url)
    assert sorted(server.asked) == ["/t10k-images-idx3-ubyte.gz", "/t10k-labels-idx1-ubyte.gz"]


# Archives that are not what they claim to be


def tar_with(name, kind=tarfile.REGTYPE, target=""):
    packed = io.BytesIO()
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("folder/file"), io.BytesIO())
        archive.addfile(info, io.BytesIO())
    return packed.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (tar_with("../x"), "outside the destination"),
        (tar_with("folder/../../x"), "outside the destination"),
        (tar_with("link", tarfile.SYMTYPE, "/etc"), "is a link to an absolute path"),
        (tar_with("link", tarfile.SYMTYPE, "../x"), "outside the destination"),
        (tar_with("link", tarfile.LNKTYPE, "../../x"), "outside the destination"),
        (tar_with("device", tarfile.CHRTYPE), "is a special file"),
        (tar_with("pipe", tarfile.FIFOTYPE), "is a special file"),
    ],
)
def test_a_tar_that_leads_out_of_the_folder_is_refused(content, reason, server, cache, tmp_path):
    server.files = {"small.tar.gz": content}
    cache.mkdir()
    for checksum in ("right", None):
        fails(small(content, checksum=checksum), cache, server.url, f"small.tar.gz: refused, .*{reason}", DataError)
    assert everything_in(tmp_path) == ["cache"]


@pytest.mark.parametrize("name", ["../x", "a/../../x", "{outside}/x"])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_nothing_is_unpacked_outside_the_folder(kind, name, server, cache, tmp_path):
    name = name.format(outside=tmp_path / "outside")
    content = zipped({"folder/file": b"", name: b""}) if kind == "zip" else tar_with(name)
    server.files = {f"small.{kind}": content}
    with contextlib.suppress(DataError):
        fetch(small(content, f"small.{kind}"), cache, server.url)
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_a_link_in_a_zip_becomes_a_file(server, cache):
    packed, info = io.BytesIO(), zipfile.ZipInfo("link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("folder/file", b"")
        archive.writestr(info, b"/etc/passwd")
    server.files = {"small.zip": packed.getvalue()}
    fetch(small(packed.getvalue(), "small.zip"), cache, server.url)
    assert not (cache / "small" / "link").is_symlink()


def encrypted(content):
    changed = bytearray(content)
    for mark in (b"PK\x03\x04", b"PK\x01\x02"):
        changed[content.index(mark) + (6 if mark[2] == 3 else 8)] |= 1
    return bytes(changed)


STORED = zipped({"folder/file": b"abc"}, zipfile.ZIP_STORED)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("small.tar.gz", b"hello", "is damaged or not an archive"),
        ("small.tar.gz", tar({"folder/file": b"x" * 9999}, "w:gz")[:-20], "is damaged or not an archive"),
        ("small.tar.gz", tar({"folder/file": b"", "x" * 300: b""}), "is damaged or not an archive .*name too long"),
        ("small.tar.gz", tar({"other/file": b""}), "has no folder/file"),
        ("small.zip", b"", "is damaged or not an archive"),
        ("small.zip", STORED[:-9], "is damaged or not an archive"),
        ("small.zip", STORED.replace(b"abc", b"abd"), "is damaged"),
        ("small.zip", encrypted(STORED), "is encrypted"),
        ("file", b"", "has no folder/file"),
    ],
    ids=["no tar", "cut tar", "long name", "other tar", "no zip", "cut zip", "damaged zip", "encrypted", "no archive"],
)
def test_archives_that_cannot_be_unpacked(name, content, reason, server, cache):
    server.files = {name: content}
    cache.mkdir()
    fails(small(content, name), cache, server.url, reason, DataError)


# Killed in the middle


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
    assert fetch(OFFICIAL["cora"], cache, server.url).new  # from the files that are there
    assert len(server.asked) == asked
    assert {path.split("/")[0] for path in everything_in(cache)} == {"cora"}


def test_of_two_processes_one_downloads(server, cache):
    server.files = TINY["cora"]()
    with ThreadPoolExecutor() as pool:
        fetched = list(pool.map(lambda _: fetch(OFFICIAL["cora"], cache, server.url).new, range(2)))
    assert sorted(fetched) == [False, True]
    assert len(server.asked) == len(server.files)


# By name


def test_find_official(cache, tmp_path, monkeypatch):
    assert find_official("some/folder").as_posix() == "some/folder"
    assert find_official(tmp_path) == tmp_path
    with pytest.raises(DataError, match="^cifar10 is not in the cache: run 'bitcycle data get cifar10'$"):
        find_official("cifar10")
    (tmp_path / "cifar10").mkdir()
    assert find_official("cifar10").as_posix() == "cifar10"
    monkeypatch.setenv("BITCYCLE_CACHE", "")
    assert "bitcycle" in cache_folder().parts
    monkeypatch.setenv("BITCYCLE_CACHE", "~/data")
    assert "~" not in str(cache_folder())
