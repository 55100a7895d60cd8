"""A catalog in a folder, which outlasts the process: a file for each object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from headrace.common.durable import create_exclusively, make_folder, remove, write_file
from headrace.common.errors import HeadraceError
from headrace.common.logical_types import LogicalType
from headrace.table.bind.user_functions import logical_type
from headrace.table.catalog import objects
from headrace.table.catalog.objects import CatalogDescription, CatalogFunction, Database, TableLike
from headrace.table.logical.schema import TimeAttribute

_FORMAT: Final = 1
_ENUMS: Final[dict[str, type[Enum]]] = {kind.__name__: kind for kind in (objects.ColumnKind, TimeAttribute)}
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
    )
}
_DATABASE: Final = "database.json"


class CatalogError(HeadraceError):
    """A catalog cannot be read or written."""


class FileCatalog:
    """A catalog in a folder: ``'type' = 'file', 'path' = '...'``. Processes that share the folder share the objects.

    Each object is one file, which is replaced as a whole. What a process has found missing it creates only if no other
    process has done so meanwhile.

    Args:
        path: the folder, which is made.
        default_database: the name of the first database.
    """

    def __init__(self, path: str, default_database: str) -> None:
        self._folder = Path(path).expanduser()
        self._missing: set[Path] = set()
        if not self.databases():
            self.put_database(default_database, Database())

    def databases(self) -> list[str]:
        """The names of its databases."""
        return sorted(unquote(file.parent.name) for file in self._folder.glob(f"*/{_DATABASE}"))

    def database(self, name: str) -> Database | None:
        """The database of a name."""
        found: Database | None = self._read(self._database(name) / _DATABASE)
        return found

    def put_database(self, name: str, database: Database) -> None:
        """Create a database, or replace its comment and properties."""
        for part in ("tables", "functions"):
            make_folder(self._database(name) / part)
        self._write(self._database(name) / _DATABASE, database)

    def drop_database(self, name: str) -> None:
        """Remove a database with all of its objects."""
        folder = self._database(name)
        remove(folder / _DATABASE)  # first: without it there is no database
        for part in ("tables", "functions"):
            for file in (folder / part).glob("*.json"):
                remove(file)
            (folder / part).rmdir()
        folder.rmdir()

    def tables(self, database: str) -> list[str]:
        """The names of the tables and views of a database."""
        return list(_names(self._database(database) / "tables"))

    def table(self, database: str, name: str) -> TableLike | None:
        """The table or view of a name."""
        found: TableLike | None = self._read(self._file(database, "tables", name))
        return found

    def put_table(self, database: str, name: str, table: TableLike) -> None:
        """Create or replace a table or view.

        Raises:
            CatalogError: when another process has created one meanwhile, or its rows are those of a program.
        """
        if getattr(table, "inline", None) is not None:
            raise CatalogError(f"{name} has rows that a program holds, which no file can keep: make it temporary")
        self._write(self._file(database, "tables", name), table)

    def drop_table(self, database: str, name: str) -> None:
        """Remove a table or view."""
        remove(self._file(database, "tables", name))

    def functions(self, database: str) -> list[str]:
        """The names of the functions of a database."""
        return list(_names(self._database(database) / "functions"))

    def function(self, database: str, name: str) -> CatalogFunction | None:
        """The function of a name."""
        found: CatalogFunction | None = self._read(self._file(database, "functions", name.lower()))
        return found

    def put_function(self, database: str, name: str, function: CatalogFunction) -> None:
        """Create or replace a function."""
        self._write(self._file(database, "functions", name.lower()), function)

    def drop_function(self, database: str, name: str) -> None:
        """Remove a function."""
        remove(self._file(database, "functions", name.lower()))

    def _database(self, name: str) -> Path:
        return self._folder / quote(name, safe="")

    def _file(self, database: str, part: str, name: str) -> Path:
        return self._database(database) / part / f"{quote(name, safe='')}.json"

    def _read(self, file: Path) -> Any:
        found = read_object(file)
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
    """What catalogs a session has, in a folder: a file with the options of each (``table.catalog-store.kind``).

    Args:
        path: the folder, which is made.
    """

    def __init__(self, path: str) -> None:
        self._folder = Path(path).expanduser()
        make_folder(self._folder)

    def descriptions(self) -> dict[str, CatalogDescription]:
        """The options of all catalogs, by name.

        Raises:
            CatalogError: when a file is damaged.
        """
        files = {name: self._file(name) for name in _names(self._folder)}
        return {name: read_object(file) for name, file in files.items()}

    def put(self, name: str, description: CatalogDescription) -> None:
        """Keep the options of a catalog."""
        write_object(self._file(name), description)

    def drop(self, name: str) -> None:
        """Forget a catalog."""
        remove(self._file(name))

    def _file(self, name: str) -> Path:
        return self._folder / f"{quote(name, safe='')}.json"


def _names(folder: Path) -> Iterator[str]:
    return (unquote(file.stem) for file in sorted(folder.glob("*.json")))


def read_object(file: Path) -> Any:
    """The object of a file; None when there is no file.

    Raises:
        CatalogError: when the file is damaged, or cannot be read.
    """
    try:
        text = file.read_text()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CatalogError(f"{file} cannot be read: {error}") from error
    try:
        document = json.loads(text)
        if document["format"] != _FORMAT:
            raise CatalogError(f"{file} is of format {document['format']}, and this version reads {_FORMAT}")
        return _decoded(document["object"])
    except (ValueError, TypeError, LookupError, HeadraceError) as error:
        if isinstance(error, CatalogError):
            raise
        advice = "restore it, or remove it and create the object again"
        raise CatalogError(f"{file} is damaged ({type(error).__name__}: {error}): {advice}") from error


def write_object(file: Path, found: Any, *, is_new: bool = False) -> None:
    """Write the object of a file, as a whole.

    Args:
        file: the file.
        found: the object.
        is_new: whether the file must not be there yet.

    Raises:
        CatalogError: when the file cannot be written, or is there although it must not be.
    """
    content = json.dumps({"format": _FORMAT, "object": _encoded(found)}, indent=2).encode()
    try:
        if not is_new:
            write_file(file, (content,))
        elif not create_exclusively(file, content):
            raise CatalogError(f"{unquote(file.stem)} was created by another process just now: {file}")
    except OSError as error:
        raise CatalogError(f"{file} cannot be written: {error}") from error


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
