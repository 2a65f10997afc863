"""Official data sets by name: a catalogue of where they are published, and the cache into which they are fetched."""

from __future__ import annotations

from bitcycle.experiments.data.official.cache import cache_folder, find_official, is_cached, located
from bitcycle.experiments.data.official.catalogue import OFFICIAL, Official, RemoteFile, official_named
from bitcycle.experiments.data.official.fetching import DownloadError, Fetched, fetch

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
    "located",
    "official_named",
]
