"""The SQLite file of a store: created and checked when it is opened, changed in transactions, with one-line errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from bitcycle.lab.studies.rows import COLUMNS, Row, is_intact

VERSION = 7
APPLICATION = 0x62697463  # "bitc": marks the file as a store
LOCK_TIMEOUT_S = 60
"""How long to wait while another process writes."""
MAX_NAMES = 500  # in one query; SQLite allows no more than 999 everywhere

SCHEMA = {
    table: f"CREATE TABLE {table} ({names[0]} TEXT PRIMARY KEY, " + ", ".join(f'"{name}"' for name in names[1:]) + ")"
    for table, names in COLUMNS.items()
}
"""The statement that creates each table. Columns have no type, so that SQLite converts no value."""


class StoreFile:
    """An open file.

    Opening creates the file if it does not exist. A file that is damaged, of another version or not a store is refused
    and left unchanged. ``PRAGMA integrity_check`` finds damage to the structure of the file, and to the names of runs,
    which an index holds a second time. The digests of rows find damage to everything else.

    Args:
        path: The SQLite file.
        must_exist: Refuse to create the file.

    Raises:
        ValueError: The file is missing, damaged, of another version, or not a store.
        OSError: The file cannot be read or written.
    """

    def __init__(self, path: Path | str, must_exist: bool = False) -> None:
        self.path = Path(path)
        if must_exist and not self.path.exists():
            raise ValueError(f"there is no store {self.path}: 'bitcycle study' creates one, --store selects one")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._one_line_errors():
            # Transactions are begun explicitly, so that a read and a write can share one.
            self._connection = sqlite3.connect(self.path, timeout=LOCK_TIMEOUT_S, isolation_level=None)
            # Text that is not UTF-8 any more is damage that the digest of its row shows.
            self._connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
            try:
                if not self._schema():
                    self._create()
                self._check()
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def checkpoints(self) -> Path:
        """The folder for the checkpoints of unfinished runs."""
        return self.path.with_suffix(".checkpoints")

    def _create(self) -> None:
        with self._transaction() as connection:
            if not self._schema():  # else another process was faster
                for statement in SCHEMA.values():
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")

    def _check(self) -> None:
        """Raise a ValueError if the file is not a store of this version, or is damaged."""
        if self._pragma("application_id") != APPLICATION:
            raise ValueError(f"{self.path} is an SQLite file of another program, not a store of studies")
        version = self._pragma("user_version")
        if version != VERSION or self._schema() != SCHEMA:
            raise ValueError(
                f"{self.path} is a store of another version of bitcycle (version {version}, with its own columns; this "
                f"bitcycle writes version {VERSION}) or damaged: choose another file with --store, or use the bitcycle "
                "that wrote it; nothing was changed"
            )
        state = self._pragma("integrity_check(1)")
        if state != "ok":
            raise ValueError(f"{self.path} is damaged ({_line(state)}); nothing was changed")

    def _schema(self) -> dict[str, str]:
        """Return the statements that created everything in the file, by name."""
        return dict(self._query("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))

    def _pragma(self, name: str) -> Any:
        return self._query(f"PRAGMA {name}")[0][0]

    def _query(self, query: str, values: Iterable[Any] = ()) -> list[Any]:
        """Return all rows that a query finds."""
        with self._one_line_errors():
            return self._connection.execute(query, tuple(values)).fetchall()

    def _names(self, table: str, order: str = "name") -> list[str]:
        """Return the names of all rows of a table. They are sorted without the rows, which may not fit in memory."""
        return [name for (name,) in self._query(f"SELECT name FROM {table} ORDER BY {order}")]

    def _rows(self, table: str, names: Iterable[str]) -> Iterator[Row]:
        """Yield the rows with these names, in the order of the names, a few hundred at a time.

        Raises:
            ValueError: A row is damaged.
        """
        for row in self._unchecked_rows(table, names):
            if not is_intact(row):
                raise ValueError(
                    f"{self.path} is damaged: the row of {row[0]!r} does not match its digest; nothing was changed. "
                    "Start the study again: it deletes damaged rows and repeats their runs"
                )
            yield row

    def _unchecked_rows(self, table: str, names: Iterable[str]) -> Iterator[Row]:
        wanted = list(names)
        for first in range(0, len(wanted), MAX_NAMES):
            some = wanted[first : first + MAX_NAMES]
            query = f"SELECT * FROM {table} WHERE name IN ({', '.join('?' * len(some))})"
            found = {row[0]: row for row in self._query(query, some)}
            yield from (found[name] for name in some if name in found)

    def _insert(self, table: str, row: Row) -> None:
        """Insert a row, or replace the row of the same name."""
        self._connection.execute(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    def delete_damaged(self) -> list[str]:
        """Delete the rows that are damaged and return their names, so that the runs among them are trained again."""
        damaged = []
        with self._transaction() as connection:
            for table in COLUMNS:
                for row in self._unchecked_rows(table, self._names(table)):
                    if not is_intact(row):
                        connection.execute(f"DELETE FROM {table} WHERE name = ?", (row[0],))
                        damaged.append(str(row[0]))
        return damaged

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All statements are executed or none; only one process at a time can be in a transaction."""
        with self._one_line_errors(), self._connection:  # which commits, or rolls back after an error
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection

    @contextmanager
    def _one_line_errors(self) -> Iterator[None]:
        """Turn errors of SQLite into one line that names the file."""
        try:
            yield
        except UnicodeDecodeError as error:  # in a message of SQLite about a damaged schema
            raise ValueError(f"{self.path} is damaged ({_line(error)}); nothing was changed") from error
        except sqlite3.OperationalError as error:
            raise OSError(f"{self.path}: {_line(error)}; the store was not changed") from error
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{self.path} is damaged or not a store ({_line(error)}); nothing was changed") from error


def _line(message: object) -> str:
    return " ".join(str(message).split())[:200]
