"""Upgrade a store of an earlier version.

Version 2 renames three fields of the run configurations of version 1 (bitcycle 0.1), so the names of the runs that use
them change, and records how many workers a study had and when it ended. Version 3 adds digests to the rows and the
names of runs to the members of studies. Version 4 adds the losses of test examples.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from dataclasses import fields
from pathlib import Path
from typing import Any

from bitcycle._study.rows import digest_of, digest_of_study
from bitcycle.experiments.run_config import RunConfig, upgraded


def migrate(connection: sqlite3.Connection, version: int, checkpoints: Path) -> None:
    """Upgrade the tables of a store of this version within the caller's transaction.

    Version 5 has another digest for new rows, which earlier versions of bitcycle would take for damage.
    """
    if version == 1:
        _to_version_2(connection, checkpoints)
    if version <= 2:
        _to_version_3(connection)
    if version <= 3:
        connection.execute("CREATE TABLE examples (name TEXT PRIMARY KEY, losses BLOB, digest TEXT) WITHOUT ROWID")


def _to_version_3(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE damaged (origin TEXT, content TEXT, found TEXT)")
    for table in ("records", "failures", "studies"):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN digest TEXT")
    connection.execute("ALTER TABLE members ADD COLUMN name TEXT")
    for study, place, text, _ in connection.execute("SELECT * FROM members").fetchall():
        name = RunConfig.from_dict(json.loads(text)).name
        connection.execute("UPDATE members SET name = ? WHERE study = ? AND place = ?", (name, study, place))
    for table in ("records", "failures"):
        for (name,) in connection.execute(f"SELECT name FROM {table}").fetchall():
            [row] = connection.execute(f"SELECT * FROM {table} WHERE name = ?", (name,))
            connection.execute(f"UPDATE {table} SET digest = ? WHERE name = ?", (digest_of(row[:-1]), name))
    for row in connection.execute("SELECT * FROM studies").fetchall():
        members = connection.execute("SELECT * FROM members WHERE study = ? ORDER BY place", row[:1]).fetchall()
        digest = digest_of_study(row[:-1], members)
        connection.execute("UPDATE studies SET digest = ? WHERE name = ?", (digest, row[0]))


def _to_version_2(connection: sqlite3.Connection, checkpoints: Path) -> None:
    """Upgrade the tables, and rename the checkpoint folders of unfinished runs.

    Folders are renamed before the transaction ends. If it fails, the next migration finds them renamed already.
    """
    for table in ("records", "failures"):
        for name, text in connection.execute(f"SELECT name, run FROM {table}").fetchall():
            run = RunConfig.from_dict(upgraded(json.loads(text)))
            connection.execute(
                f"UPDATE {table} SET name = ?, run = ? WHERE name = ?", (run.name, json.dumps(run.as_dict()), name)
            )
    for study, place, text in connection.execute("SELECT study, place, run FROM members").fetchall():
        values = json.loads(text)
        run = RunConfig.from_dict(upgraded(values))
        connection.execute(
            "UPDATE members SET run = ? WHERE study = ? AND place = ?", (json.dumps(run.as_dict()), study, place)
        )
        _rename_folder(checkpoints / version_1_name(values), checkpoints / run.name)
    connection.execute("ALTER TABLE studies ADD COLUMN workers INTEGER")
    connection.execute("ALTER TABLE studies ADD COLUMN ended TEXT")
    for study, plan, begun in connection.execute("SELECT name, plan, begun FROM studies").fetchall():
        connection.execute(
            "UPDATE studies SET plan = ?, ended = ? WHERE name = ?",
            (upgraded_plan(plan), _end_of(connection, study, begun), study),
        )


def version_1_name(values: dict[str, Any]) -> str:
    """Return the name that version 1 gave to a run: the hash of every value that differs from its default."""
    default = {field.name: field.default for field in fields(RunConfig)} | {"options": {}}
    changed = {key: value for key, value in values.items() if value != default[_new_key(key)]}
    text = json.dumps(changed, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def upgraded_plan(text: str) -> str:
    """Upgrade a stored plan, which has one ``key = value`` per line, as :func:`upgraded` does for its runs.

    >>> upgraded_plan('task = "image"\\nkeep = "best"\\n')
    'task = "image"\\ntest_weights = "best"\\n'
    """
    renamed = re.sub(r"^(\w+)(?= = )", lambda key: _new_key(key[1]), text, flags=re.MULTILINE)
    return "".join(_with_old_grid(table) for table in re.split(r"^(?=\[\[)", renamed, flags=re.MULTILINE))


def _with_old_grid(table: str) -> str:
    """Add the option of language and entailment runs that says how version 1 quantised activations."""
    if not re.search(r'^task = "(language|entailment)"$', table, re.MULTILINE):
        return table
    value = '["tensor"]' if table.startswith("[[part]]") else '"tensor"'
    option = f"activations = {value}"
    if re.search(r"^options = \{ ", table, re.MULTILINE):
        return re.sub(r"^options = \{ ", f"options = {{ {option}, ", table, flags=re.MULTILINE)
    return re.sub(r"^(task = .*)$", rf"\1\noptions = {{ {option} }}", table, flags=re.MULTILINE)


def _new_key(key: str) -> str:
    [renamed] = upgraded({key: None})
    return renamed


def _rename_folder(old: Path, new: Path) -> None:
    if old != new and old.is_dir() and not new.exists():
        old.rename(new)


def _end_of(connection: sqlite3.Connection, study: str, begun: str) -> str | None:
    """Return when the last run of a study was written, or None if some runs are missing."""
    written = dict(connection.execute("SELECT name, written FROM records UNION SELECT name, written FROM failures"))
    members = connection.execute("SELECT run FROM members WHERE study = ?", (study,)).fetchall()
    names = [RunConfig.from_dict(json.loads(text)).name for (text,) in members]
    if not all(name in written for name in names):
        return None
    return max([begun, *(written[name] for name in names)])
