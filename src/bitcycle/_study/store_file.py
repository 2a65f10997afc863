"""The SQLite file of a store: created, checked and upgraded when it is opened; transactions, and one-line errors.

The structure of the file is checked when it is opened. :mod:`bitcycle._study.store` checks what its rows hold.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self

from bitcycle._study.migration import migrate
from bitcycle._study.rows import SCHEMA, Row

VERSION = 5
APPLICATION = 0x62697463  # "bitc": marks the file as a store
PATIENCE = 60  # seconds to wait while another process writes
PAGE = 16384  # bytes; a result fits on a page with others, which makes a large store half as large and twice as fast
CACHE = 64 * 1024  # kB at most; results are not read in the order of the file, so that each page is read often


class StoreFile:
    """An open file.

    Opening creates the file if it does not exist, and upgrades a store of an earlier version in one transaction. A file
    that is damaged, of a later version or not a store is refused and left unchanged.

    Args:
        path: The SQLite file.
        must_exist: Refuse to create the file.

    Raises:
        ValueError: The file is missing, damaged, of a later version, or not a store.
        OSError: The file cannot be read or written.
    """

    def __init__(self, path: Path | str, must_exist: bool = False) -> None:
        self.path = Path(path)
        if must_exist and not self.path.exists():
            raise ValueError(f"there is no store {self.path}: 'bitcycle study' creates one, --store selects one")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._clear_errors():
            # Transactions are begun explicitly, so that a read and a write can share one.
            self._connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
            # Text that is not UTF-8 any more is damage that the digest of its row shows.
            self._connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
            self._connection.execute(f"PRAGMA cache_size = -{CACHE}")
            try:
                self._open()
            except BaseException:
                self._connection.close()
                raise

    def _open(self) -> None:
        self._connection.execute("BEGIN")  # one snapshot: another process may be creating the store
        version, application = (self._number(f"PRAGMA {name}") for name in ("user_version", "application_id"))
        empty = not self._connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        self._connection.execute("COMMIT")
        if empty:
            self._create()
            return
        if application != APPLICATION:
            raise ValueError(f"{self.path} is an SQLite file of another program, not a store of studies")
        if not 1 <= version <= VERSION:
            raise ValueError(
                f"{self.path} is a store of version {version}, but this bitcycle writes version {VERSION}: "
                f"choose another file with --store, or use the bitcycle that wrote it"
            )
        [(state,)] = self._connection.execute("PRAGMA quick_check(1)").fetchall()
        if state != "ok":
            raise ValueError(f"{self.path} is damaged ({' '.join(state.split())}); nothing was changed")
        if version < VERSION:
            self._migrate(version)
        if _columns(self._connection) != _expected_columns():  # a changed type would change how names are compared
            raise ValueError(f"{self.path} is damaged (its tables have other columns); nothing was changed")

    def _create(self) -> None:
        self._connection.execute(f"PRAGMA page_size = {PAGE}")
        with self._transaction():
            if self._number("PRAGMA user_version") == VERSION:  # another process was faster
                return
            for statement in SCHEMA.split(";")[:-1]:
                self._connection.execute(statement)
            self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
            self._connection.execute(f"PRAGMA user_version = {VERSION}")

    def _migrate(self, version: int) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            with self._commit_or_roll_back():
                if self._number("PRAGMA user_version") == VERSION:  # another process was faster
                    return
                migrate(self._connection, version, self.checkpoints)
                self._connection.execute(f"PRAGMA user_version = {VERSION}")
        except (
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
        ) as error:  # rows that are not what version 1 or 2 wrote
            raise ValueError(
                f"{self.path} is damaged, so it cannot be upgraded ({_line(error)}); nothing was changed"
            ) from error
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
                raise
            raise OSError(
                f"{self.path} is a store of version {version} and cannot be upgraded to version {VERSION} because it "
                f"is read-only: make the file and its folder writable, or copy it"
            ) from None

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

    def _each_row(self, question: str, *values: Any) -> Iterator[Row]:
        with self._clear_errors():
            yield from self._connection.execute(question, values)

    def _rows(self, question: str, *values: Any) -> list[Any]:
        with self._clear_errors():
            return self._connection.execute(question, values).fetchall()

    def _number(self, question: str) -> int:
        return int(self._connection.execute(question).fetchone()[0])

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Several questions see the store at one moment, whatever other processes write meanwhile."""
        if self._connection.in_transaction:
            yield
            return
        with self._clear_errors():
            self._connection.execute("BEGIN")
            with self._commit_or_roll_back():
                yield

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All statements are executed or none; only one process at a time can be in a transaction."""
        with self._clear_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            with self._commit_or_roll_back():
                yield self._connection

    @contextmanager
    def _commit_or_roll_back(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:  # SQLite has already rolled back if the disk is full
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        """Turn errors of SQLite into one line that names the file."""
        try:
            yield
        except UnicodeDecodeError as error:  # in a message of SQLite about a damaged schema
            raise ValueError(f"{self.path} is damaged ({_line(error)}); nothing was changed") from error
        except sqlite3.OperationalError as error:
            raise OSError(f"{self.path}: {_line(error)}; the store was not changed") from error
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{self.path} is damaged or not a store ({_line(error)}); nothing was changed") from error


def _columns(connection: sqlite3.Connection) -> set[tuple[Any, ...]]:
    """Return the names and types of all columns."""
    return set(
        connection.execute(
            "SELECT tables.name, columns.cid, columns.name, columns.type, columns.pk "
            "FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'"
        )
    )


@cache
def _expected_columns() -> set[tuple[Any, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        return _columns(connection)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
