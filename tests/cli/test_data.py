"""``bitcycle data`` as a user meets it: a process, a folder, a server."""

import os

import pytest

from tests.lab.data.serving import closed_port, local_server
from tests.lab.data.tiny_sets import TINY
from tests.support import command

pytestmark = pytest.mark.slow  # the first command loads pooch and its dependencies


@pytest.fixture
def bitcycle(tmp_path):
    def run(*arguments):
        environment = {
            **os.environ,
            "BITCYCLE_CACHE": str(tmp_path / "cache"),
            "COLUMNS": "200",
            "NO_PROXY": "127.0.0.1",
        }
        return command.bitcycle(*arguments, env=environment, cwd=tmp_path)

    return run


@pytest.fixture(scope="module")
def server():
    with local_server() as local:
        local.files = TINY["cora"]() | TINY["ogbn-arxiv"]() | TINY["cifar10"]()
        yield local


def test_get_list_and_where(bitcycle, server, tmp_path):
    done = bitcycle("data", "get", "cora", "ogbn-arxiv", "--mirror", server.url)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for message in ("licence: MIT", "licence: ODC-BY", "no checksum to compare with", "sha256:", "--data cora"):
        assert message in done.stdout
    again = bitcycle("data", "get", "cora", "--mirror", closed_port())
    assert again.returncode == 0, again.stderr
    assert "already in the cache" in again.stdout

    lines = bitcycle("data", "list").stdout.splitlines()
    table = {line.split()[0]: line for line in lines[lines.index("") + 2 :]}
    assert len(table) == 14
    assert "yes" in table["cora"]
    assert "no" in table["cifar10"].split()
    assert "170.498 MB" in table["cifar10"]
    assert "CC BY-NC 4.0" in table["xnli"]

    assert bitcycle("data", "where", "cora").stdout.strip() == str(tmp_path / "cache/cora/cora")
    assert bitcycle("data", "where", "ogbn-arxiv").stdout.strip() == str(tmp_path / "cache/ogbn-arxiv")


def test_another_folder(bitcycle, server, tmp_path):
    done = bitcycle("data", "get", "cora", "--mirror", server.url, "--folder", "here")
    assert done.returncode == 0, done.stderr
    assert "--data here/cora/cora" in done.stdout
    assert (tmp_path / "here/cora/ind.cora.x").is_file()
    assert not (tmp_path / "cache").exists()


def errs(done, message):
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_errors_are_one_line(bitcycle, server):
    errs(bitcycle("data", "get", "cora", "cifar"), "unknown data set 'cifar'; did you mean")
    errs(bitcycle("data", "get", "cora", "--mirror", closed_port()), "no network?")
    errs(bitcycle("data", "get", "snli", "--mirror", server.url), "it responds 404 Not Found")
    errs(bitcycle("data", "get", "cifar10", "--mirror", server.url), "does not match sha256:6d958be0")
    errs(bitcycle("data", "get", "cora", "--mirror", "ftp://host"), "mirror must be a URL")
    errs(bitcycle("data", "where", "cora"), "cora is not in the cache: run 'bitcycle data get cora'")
    errs(bitcycle("data", "where", "nothing"), "unknown data set 'nothing'")


def test_a_folder_that_is_a_file(bitcycle, server, tmp_path):
    (tmp_path / "cache").write_text("")
    errs(bitcycle("data", "get", "cora", "--mirror", server.url), "File exists")
