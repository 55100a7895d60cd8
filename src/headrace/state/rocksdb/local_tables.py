"""Copies of tables on this machine's disk: fetched once for all processes, checked by their digest, within a limit.

Nothing relies on a copy being there: one that is gone, or whose blocks turn out to be damaged, is fetched again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import threading
import time
import uuid
from collections import OrderedDict
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.common.errors import InfrastructureError, StateCorruptedError
from headrace.state.rocksdb.table import Table, TableDamagedError, make_database
from headrace.state.state_file import SUFFIX, CompactedName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.state.rocksdb.table import RocksDBSettings
    from headrace.storage.folder import Folder

T = TypeVar("T")

PIECE: Final = 8 << 20
"""Bytes that are fetched at once."""

_ABANDONED_S: Final = 3600
"""After so long, what nobody has finished is of a process that has died."""

_UNFINISHED: Final = "unfinished-"
_WHERE: Final = "set state.backend.rocksdb.localdir to a folder of your own on a disk with room"


class LocalTables:
    """The tables of a checkpoint directory, as processes of this machine read them.

    Args:
        storage: where state files are.
        settings: where copies lie, how many there may be, and how they are read.
    """

    def __init__(self, storage: Folder, settings: RocksDBSettings) -> None:
        self._storage = storage
        self._settings = settings
        self._folder = Path(settings.local_dir or Path(tempfile.gettempdir()) / f"headrace-tables-{os.getuid()}")

    def read(self, name: str, size: int, ask: Callable[[Table], T]) -> T:
        """What ``ask`` gives, which is called once more when the copy was damaged.

        Args:
            name: the state file.
            size: how many bytes it has.
            ask: reads from the table.

        Raises:
            StateCorruptedError: when the state file is missing or damaged; the message names it.
            InfrastructureError: when it cannot be fetched.
        """
        try:
            return ask(self._open(name, size))
        except TableDamagedError:
            self._forget(name)
        try:
            return ask(self._open(name, size))
        except TableDamagedError as error:
            raise InfrastructureError(f"a copy of the state file {name} cannot be read: {error}; {_WHERE}") from error

    @contextlib.contextmanager
    def new_file(self) -> Iterator[Path]:
        """A path for a new table, which is gone afterwards.

        Raises:
            InfrastructureError: when this machine's disk refuses it.
        """
        folder = self._unfinished()
        try:
            yield folder / "table"
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _open(self, name: str, size: int) -> Table:
        folder = self._folder / name.removesuffix(SUFFIX)
        table = _OPEN.get(folder)
        if table is None:
            if not folder.is_dir():
                self._fetch(name, size, folder)
            table = _OPEN.put(folder, Table(folder, self._settings, size), self._settings.open_tables)
            with contextlib.suppress(OSError):
                os.utime(folder)  # those that were used last are kept
        return table

    def _forget(self, name: str) -> None:
        folder = self._folder / name.removesuffix(SUFFIX)
        _OPEN.drop(folder)
        _remove(folder)

    def _fetch(self, name: str, size: int, folder: Path) -> None:
        with self.new_file() as path:
            try:
                self._copy(name, size, path)
                make_database(path.with_name("database"), path, self._settings)
            except OSError as error:
                raise InfrastructureError(f"{self._folder} cannot be written: {error}; {_WHERE}") from error
            with contextlib.suppress(OSError):  # another process was faster
                path.with_name("database").rename(folder)
        if not folder.is_dir():
            raise InfrastructureError(f"{folder} cannot be made: something is in its place; {_WHERE}")
        self._make_room(folder)

    def _copy(self, name: str, size: int, path: Path) -> None:
        digest = blake2b(digest_size=8)
        with path.open("xb") as file:
            for start in range(0, size, PIECE):
                piece = self._piece(name, start, min(PIECE, size - start))
                digest.update(piece)
                file.write(piece)
        parsed = CompactedName.parse(name)
        if parsed is None or digest.hexdigest() != parsed.digest:
            raise StateCorruptedError(f"the state file {name} is damaged")

    def _piece(self, name: str, start: int, length: int) -> bytes:
        try:
            return self._storage.read_range(name, start, length)
        except (FileNotFoundError, IsADirectoryError) as error:
            raise StateCorruptedError(f"the state file {name} is missing") from error
        except OSError as error:
            raise InfrastructureError(f"the state file {name} cannot be read: {error}") from error

    def _unfinished(self) -> Path:
        """A new folder beside those of the tables."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            about = self._folder.stat()
            if about.st_uid != os.getuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise InfrastructureError(f"others may write in {self._folder}: {_WHERE}")
            return Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self._folder))
        except OSError as error:
            raise InfrastructureError(f"{self._folder} cannot be written: {error}; {_WHERE}") from error

    def _make_room(self, newest: Path) -> None:
        """Removes what nobody will finish, and the copies that were used longest ago, down to the limit."""
        copies = []
        for path in self._folder.iterdir():
            with contextlib.suppress(OSError):  # another process removes as well
                used = path.stat().st_mtime
                if not path.name.startswith(_UNFINISHED):
                    copies.append((used, path, sum(file.stat().st_size for file in path.iterdir())))
                elif used < time.time() - _ABANDONED_S:
                    shutil.rmtree(path, ignore_errors=True)
        surplus = sum(size for *_, size in copies) - self._settings.local_size
        for _, path, size in sorted(copies):
            if surplus <= 0:
                return
            if path != newest:
                _OPEN.drop(path)
                _remove(path)
                surplus -= size


class _OpenTables:
    """The tables that this process has open; when there are too many, those that were used longest ago are closed."""

    def __init__(self) -> None:
        self._tables: OrderedDict[Path, Table] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, folder: Path) -> Table | None:
        with self._lock:
            if folder in self._tables:
                self._tables.move_to_end(folder)
            return self._tables.get(folder)

    def put(self, folder: Path, table: Table, limit: int) -> Table:
        with self._lock:
            self._tables[folder] = table
            while len(self._tables) > limit:
                self._tables.popitem(last=False)  # closed when nobody reads it any more
        return table

    def drop(self, folder: Path) -> None:
        with self._lock:
            self._tables.pop(folder, None)


_OPEN: Final = _OpenTables()


def _remove(folder: Path) -> None:
    """Removes a copy in one step, so that nobody finds half of it."""
    with contextlib.suppress(OSError):
        gone = folder.with_name(f"{_UNFINISHED}{uuid.uuid4().hex}")
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
