"""Official data sets by name: a catalogue of where they are published, and the cache into which they are fetched."""

from __future__ import annotations

from bitcycle.lab.data.official.catalogue import (
    OFFICIAL,
    Official,
    RemoteFile,
    cache_folder,
    find_official,
    is_cached,
    official_named,
    resolve_data,
)
from bitcycle.lab.data.official.fetching import DownloadError, Fetched, fetch

__all__ = [
    "OFFICIAL",
    "DownloadError",
    "Fetched",
    "Official",
    "RemoteFile",
    "cache_folder",
    "fetch",
    "find_official",
    "is_cached",
    "official_named",
    "resolve_data",
]
