"""Trust on first use: where nobody states a checksum, that of the first download is recorded; later ones must match.

The file is ``first-seen.json`` in the cache folder: {"cora/ind.cora.x": "sha256:...", ...}.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from bitcycle.experiments.data.errors import DataError

RECORD = "first-seen.json"


def first_seen(cache: Path) -> dict[str, str]:
    """The recorded sums, by data set and file."""
    path = cache / RECORD
    if not path.exists():
        return {}
    try:
        sums = json.loads(path.read_text("utf-8"))
    except ValueError:
        sums = None
    if not isinstance(sums, dict) or not all(_is_sum(value) for value in sums.values()):
        raise DataError(f"{path}: is damaged; it should be a JSON object of sha256 sums: delete it to start anew")
    return sums


def record(cache: Path, sums: dict[str, str]) -> None:
    """Add sums to the file, which is written whole or not at all."""
    path = cache / RECORD
    unfinished = cache / f".{RECORD}.{os.getpid()}"
    unfinished.write_text(json.dumps(first_seen(cache) | sums, indent=2, sort_keys=True) + "\n", "utf-8")
    unfinished.replace(path)


def _is_sum(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"sha256:[0-9a-f]{64}", value) is not None
