"""``bitcycle data``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bitcycle._support.text import table
from bitcycle.cli.parameters import argument, option
from bitcycle.lab.data.official import OFFICIAL, cache_folder, fetch, find_official, official_named
from bitcycle.lab.data.official.catalogue import is_cached
from bitcycle.lab.format import short

data = typer.Typer(no_args_is_help=True, help="Download official data sets into a cache folder, and list them.")

Folder = Annotated[Path | None, option("The cache folder; default: $BITCYCLE_CACHE, or the system's cache folder.")]


@data.command()
def get(
    names: Annotated[list[str], argument("cifar10, cora, ... (see 'bitcycle data list').", complete=OFFICIAL)],
    folder: Folder = None,
    mirror: Annotated[
        str | None,
        option("Download from this address instead; {name} becomes the name of the data set.", metavar="URL"),
    ] = None,
) -> None:
    """Download data sets from their publishers, verify their checksums and unpack them into the cache folder."""
    from bitcycle.cli.progress import DownloadBar

    wanted = [official_named(name) for name in dict.fromkeys(names)]
    cache = _cache(folder)
    for official in wanted:
        print(f"{official.name}: {short(official.size)}B for the task {official.task}; licence: {official.licence}")
        with DownloadBar() as bar:
            fetched = fetch(official, cache, mirror, bar.follow)
        if fetched.computed:
            print(f"no checksum to compare with ({official.checksum_source}); the files that came have:")
            for file, checksum in fetched.computed.items():
                print(f"  {checksum}  {file}")
        elif fetched.new and official.files[0].checksum:
            print(f"checksums match those in {official.checksum_source}")
        given = official.name if folder is None else fetched.path
        print(f"{'downloaded' if fetched.new else 'already in the cache'}: {cache / official.name}")
        print(f"to use it: bitcycle train {official.task} --data {given}")


@data.command("list")
def show(folder: Folder = None) -> None:
    """List the data sets with their task, size and licence, and whether they are in the cache."""
    cache = _cache(folder)
    rows = [
        [each.name, each.task, f"{short(each.size)}B", "yes" if is_cached(each, cache) else "no", each.licence]
        for each in OFFICIAL.values()
    ]
    print(f"cache: {cache}\n")
    print(table(["name", "task", "size", "cached", "licence"], rows, right=["size"]))


@data.command()
def where(
    name: Annotated[str, argument("A data set in the cache.", complete=OFFICIAL)],
    folder: Folder = None,
) -> None:
    """Print the path of a data set in the cache."""
    print(find_official(official_named(name).name, _cache(folder)))


def _cache(folder: Path | None) -> Path:
    return cache_folder() if folder is None else folder.expanduser()
