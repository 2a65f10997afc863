"""Fingerprints of data: changed files change them, another place does not."""

import os
import shutil

import pytest

from bitcycle.lab.data import fingerprints
from bitcycle.lab.data.files import DataError
from bitcycle.lab.data.fingerprints import fingerprint

FILES = {"train/a.txt": "one", "train/b.txt": "two", "labels.csv": "a,1\nb,2\n"}


def make(folder, files=FILES):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def renamed(folder):
    (folder / "train/a.txt").rename(folder / "train/c.txt")


CHANGES = {
    "another content of the same size": lambda folder: (folder / "labels.csv").write_text("a,1\nb,3\n"),
    "a new file": lambda folder: (folder / "test.txt").write_text(""),
    "a file less": lambda folder: (folder / "train/b.txt").unlink(),
    "another name": renamed,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
@pytest.mark.parametrize("max_bytes", [10**9, 0], ids=["by content", "by times"])
def test_a_change_is_noticed_and_another_place_is_not(tmp_path, monkeypatch, change, max_bytes):
    monkeypatch.setattr(fingerprints, "MAX_CONTENT_BYTES", max_bytes)
    folder = make(tmp_path / "data")
    before = fingerprint(str(folder))
    moved = shutil.copytree(folder, tmp_path / "elsewhere" / "copy")  # keeps the times
    (moved / ".hidden").write_text("left out")
    assert fingerprint(str(moved)) == before
    change(moved)
    assert fingerprint(str(moved)) != before


def test_times_do_not_matter_where_the_content_is_read(tmp_path):
    folder = make(tmp_path / "data")
    before = fingerprint(str(folder))
    os.utime(folder / "labels.csv", (0, 0))
    assert fingerprint(str(folder)) == before


def test_a_file_a_choice_in_a_folder_and_nothing(tmp_path):
    folder = make(tmp_path / "planetoid")
    for name in ("cora", "pubmed"):
        (folder / f"ind.{name}.x").touch()
    file, other = folder / "labels.csv", tmp_path / "other.csv"
    shutil.copy(file, other)
    assert fingerprint(str(file)) == fingerprint(str(other)) != ""
    assert len({fingerprint(str(folder / name)) for name in ("cora", "pubmed")} | {fingerprint(str(folder))}) == 3
    assert fingerprint("") == fingerprint("cifar10") == fingerprint(str(tmp_path / "no" / "where")) == ""
    assert fingerprint(str(folder / "no such name")) == ""  # and nothing beside it is read


def test_links_are_followed_and_a_loop_ends(tmp_path):
    folder = make(tmp_path / "data")
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "train").symlink_to(folder / "train")
    (linked / "labels.csv").symlink_to(folder / "labels.csv")
    assert fingerprint(str(linked)) == fingerprint(str(folder))
    (folder / "train" / "again").symlink_to(folder)
    assert len(fingerprint(str(folder))) == 16


def test_a_file_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    folder = make(tmp_path / "data")

    def refuse(*arguments):
        raise PermissionError(13, "Permission denied", str(folder / "labels.csv"))

    monkeypatch.setattr("hashlib.file_digest", refuse)  # the tests may run as root, who may read everything
    with pytest.raises(DataError, match=r"labels.csv: cannot be read \(Permission denied\)"):
        fingerprint(str(folder))
