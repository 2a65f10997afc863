"""Official data sets by name: a catalogue of where they are published, and how they get into a cache folder."""

from __future__ import annotations

from bitcycle.experiments.data.official.cache import cache_folder, find_official, located
from bitcycle.experiments.data.official.catalogue import OFFICIAL, official_named
from bitcycle.experiments.data.official.entry import Official, RemoteFile
from bitcycle.experiments.data.official.fetching import Fetched, fetch

__all__ = [
    "OFFICIAL",
    "Fetched",
    "Official",
    "RemoteFile",
    "cache_folder",
    "fetch",
    "find_official",
    "located",
    "official_named",
]
