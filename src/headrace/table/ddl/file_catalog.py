"""A persistent catalog in a folder, with a file for each object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote

from headrace.common.durable import create_exclusively, make_folder, remove, target_of_temporary, write_file
from headrace.common.errors import HeadraceError
from headrace.common.logical_types import LogicalType
from headrace.savepoint.requests import JobProcess
from headrace.table.bind.user_functions import logical_type
from headrace.table.catalog import materialization, objects
from headrace.table.catalog.objects import (
    CatalogDescription,
    CatalogFunction,
    CatalogTable,
    CatalogView,
    Database,
    TableLike,
)
from headrace.table.logical.schema import TimeAttribute
from headrace.table.parse.tree.definitions import RefreshMode, StartModeKind

T = TypeVar("T")

_FORMAT: Final = 1
_ENUMS: Final[dict[str, type[Enum]]] = {
    kind.__name__: kind
    for kind in (
        objects.ColumnKind,
        TimeAttribute,
        RefreshMode,
        StartModeKind,
        materialization.FreshnessUnit,
        materialization.RefreshStatus,
    )
}
_CLASSES: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        objects.CatalogDescription,
        objects.CatalogFunction,
        objects.CatalogTable,
        objects.CatalogView,
        objects.Column,
        objects.Database,
        objects.Distribution,
        objects.PrimaryKey,
        objects.WatermarkSpec,
        materialization.Freshness,
        materialization.Materialization,
        materialization.RefreshHandler,
        materialization.StartMode,
        JobProcess,
    )
}
_DATABASE: Final = "database.json"
_PARTS: Final = ("tables", "functions")


class CatalogError(HeadraceError):
    """A catalog cannot be read or written."""


class FileCatalog:
    """A catalog in a folder: ``'type' = 'file', 'path' = '...'``. Processes that share the folder share the objects.

    Each object is one file, which is replaced atomically. If two processes create the same object, one of them fails.

    Args:
        path: the folder, which is created if it does not exist.
        default_database: the name of the first database.
    """

    keeps_partitions = False
    outlasts_session = True

    def __init__(self, path: str, default_database: str) -> None:
        self._folder = Path(path).expanduser()
        self._missing: set[Path] = set()
        if not self.databases():
            self.put_database(default_database, Database())
        names = self.databases()
        self.default_database = default_database if default_database in names else names[0]

    def databases(self) -> list[str]:
        """The names of its databases."""
        return sorted(unquote(file.parent.name) for file in self._folder.glob(f"*/{_DATABASE}"))

    def database(self, name: str) -> Database | None:
        """The database of a name."""
        return self._read(self._database(name) / _DATABASE, Database)

    def put_database(self, name: str, database: Database) -> None:
        """Create a database, or replace its comment and properties."""
        for part in _PARTS:
            with _changing(self._database(name)):
                make_folder(self._database(name) / part)
        self._write(self._database(name) / _DATABASE, database)

    def drop_database(self, name: str) -> None:
        """Remove a database with all of its objects."""
        folder = self._database(name)
        folders = [*(folder / part for part in _PARTS), folder]  # itself last: what a crash leaves is a database still
        with _changing(folder):
            for each in folders:
                _remove_objects(each)
        for empty in folders:
            with suppress(OSError):  # files of others stay
                empty.rmdir()

    def tables(self, database: str) -> list[str]:
        """The names of the tables and views of a database."""
        return list(_names(self._database(database) / "tables"))

    def table(self, database: str, name: str) -> TableLike | None:
        """The table or view of a name."""
        found = self._read(self._file(database, "tables", name), CatalogTable, CatalogView)
        assert found is None or isinstance(found, CatalogTable | CatalogView)
        return found

    def put_table(self, database: str, name: str, table: TableLike) -> None:
        """Create or replace a table or view.

        Raises:
            CatalogError: when another process has just created it, or its rows are only in the program's memory.
        """
        if getattr(table, "inline", None) is not None:
            raise CatalogError(f"{name} has rows in the program's memory, which no file can keep: make it temporary")
        self._write(self._file(database, "tables", name), table)

    def drop_table(self, database: str, name: str) -> None:
        """Remove a table or view."""
        _remove(self._file(database, "tables", name))

    def functions(self, database: str) -> list[str]:
        """The names of the functions of a database."""
        return list(_names(self._database(database) / "functions"))

    def function(self, database: str, name: str) -> CatalogFunction | None:
        """The function of a name."""
        return self._read(self._file(database, "functions", name.lower()), CatalogFunction)

    def put_function(self, database: str, name: str, function: CatalogFunction) -> None:
        """Create or replace a function."""
        self._write(self._file(database, "functions", name.lower()), function)

    def drop_function(self, database: str, name: str) -> None:
        """Remove a function."""
        _remove(self._file(database, "functions", name.lower()))

    def _database(self, name: str) -> Path:
        return self._folder / _quoted(name)

    def _file(self, database: str, part: str, name: str) -> Path:
        return self._database(database) / part / f"{_quoted(name)}.json"

    def _read(self, file: Path, *kinds: type[T]) -> T | None:
        found = read_object(file, *kinds)
        if found is None:
            self._missing.add(file)
        else:
            self._missing.discard(file)
        return found

    def _write(self, file: Path, found: Any) -> None:
        is_new = file in self._missing
        self._missing.discard(file)
        write_object(file, found, is_new=is_new)


class FileCatalogStore:
    """A catalog store in a folder, with a file of options for each catalog (``table.catalog-store.kind``).

    Args:
        path: the folder, which is created if it does not exist.
    """

    def __init__(self, path: str) -> None:
        self._folder = Path(path).expanduser()
        with _changing(self._folder):
            make_folder(self._folder)

    def names(self) -> list[str]:
        """The names of all catalogs."""
        return list(_names(self._folder))

    def description(self, name: str) -> CatalogDescription | None:
        """The options of a catalog; None where there is none of that name.

        Raises:
            CatalogError: when its file is damaged.
        """
        return read_object(self._file(name), CatalogDescription)

    def put(self, name: str, description: CatalogDescription) -> None:
        """Keep the options of a catalog."""
        write_object(self._file(name), description)

    def drop(self, name: str) -> None:
        """Forget a catalog."""
        _remove(self._file(name))

    def _file(self, name: str) -> Path:
        return self._folder / f"{_quoted(name)}.json"


def _names(folder: Path) -> Iterator[str]:
    return (unquote(file.stem) for file in sorted(folder.glob("*.json")))


def _quoted(name: str) -> str:
    """The name of a file or folder for an object; a name of dots alone would be the folder itself, or the one above."""
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")


def _remove(file: Path) -> None:
    with _changing(file):
        remove(file)


def _remove_objects(folder: Path) -> None:
    """Removes the files of objects, and what a crash has left of one that was being written."""
    for file in folder.glob("*"):
        if (target_of_temporary(file.name) or file.name).endswith(".json"):
            remove(file)


@contextmanager
def _changing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CatalogError(f"{file} cannot be written: {error}") from error


def read_object(file: Path, *kinds: type[T]) -> T | None:
    """The object of a file, which is of one of some kinds; None when there is no file.

    Raises:
        CatalogError: when the file is damaged, or cannot be read.
    """
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CatalogError(f"{file} cannot be read: {error}") from error
    try:
        document = json.loads(content)
        if document["format"] != _FORMAT:
            raise CatalogError(f"{file} has format {document['format']}, and this version reads format {_FORMAT}")
        found = _decoded(document["object"])
        if not isinstance(found, kinds):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"it holds a {type(found).__name__}, and not a {wanted}")
        return found
    except (ValueError, TypeError, LookupError, RecursionError, HeadraceError) as error:
        if isinstance(error, CatalogError):
            raise
        advice = "restore it, or remove it and create the object again"
        raise CatalogError(f"{file} is damaged ({type(error).__name__}: {error}): {advice}") from error


def write_object(file: Path, found: Any, *, is_new: bool = False) -> None:
    """Write an object to its file atomically.

    Args:
        file: the file.
        found: the object.
        is_new: whether the file must not exist yet.

    Raises:
        CatalogError: when the file cannot be written, or exists although it must not.
    """
    content = json.dumps({"format": _FORMAT, "object": _encoded(found)}, indent=2).encode()
    with _changing(file):
        if not is_new:
            write_file(file, (content,))
        elif not create_exclusively(file, content):
            raise CatalogError(f"{unquote(file.stem)} has just been created by another process: {file}")


def _encoded(value: Any) -> Any:
    if isinstance(value, LogicalType):
        return {"type": value.as_sql()}
    if isinstance(value, Enum):
        return {"enum": type(value).__name__, "name": value.name}
    if is_dataclass(value):
        named = {each.name: _encoded(getattr(value, each.name)) for each in fields(value) if each.name != "inline"}
        return {"is": type(value).__name__} | {name: given for name, given in named.items() if given is not None}
    return [_encoded(each) for each in value] if isinstance(value, tuple) else value


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_decoded, value))
    if not isinstance(value, dict):
        return value
    if "type" in value and len(value) == 1:
        return logical_type(value["type"])
    if "enum" in value:
        return _ENUMS[value["enum"]][value["name"]]
    parts = dict(value)
    return _CLASSES[parts.pop("is")](**{name: _decoded(each) for name, each in parts.items()})
