"""A catalog: named databases with tables, views and functions. The one here keeps them in memory."""

from typing import Protocol

from headrace.table.catalog.objects import CatalogDescription, CatalogFunction, Database, TableLike
from headrace.table.options import BUILT_IN_CATALOG, BUILT_IN_DATABASE

DEFAULT_CATALOG = BUILT_IN_CATALOG.default
DEFAULT_DATABASE = BUILT_IN_DATABASE.default


class Catalog(Protocol):
    """A store of objects. Names are compared as they are; the caller checks first what must or must not exist.

    Attributes:
        keeps_partitions: whether it keeps the partitions that ``ALTER TABLE ... ADD PARTITION`` adds.
        outlasts_session: whether its objects are there for later sessions.
        default_database: the name of the database that ``USE CATALOG`` makes the current one.
    """

    keeps_partitions: bool
    outlasts_session: bool
    default_database: str

    def databases(self) -> list[str]:
        """The names of its databases, in the order of creation."""
        ...

    def database(self, name: str) -> Database | None:
        """The database of a name."""
        ...

    def put_database(self, name: str, database: Database) -> None:
        """Create a database, or replace its comment and properties."""
        ...

    def drop_database(self, name: str) -> None:
        """Remove a database with all of its objects."""
        ...

    def tables(self, database: str) -> list[str]:
        """The names of the tables and views of a database."""
        ...

    def table(self, database: str, name: str) -> TableLike | None:
        """The table or view of a name."""
        ...

    def put_table(self, database: str, name: str, table: TableLike) -> None:
        """Create or replace a table or view."""
        ...

    def drop_table(self, database: str, name: str) -> None:
        """Remove a table or view."""
        ...

    def functions(self, database: str) -> list[str]:
        """The names of the functions of a database."""
        ...

    def function(self, database: str, name: str) -> CatalogFunction | None:
        """The function of a name."""
        ...

    def put_function(self, database: str, name: str, function: CatalogFunction) -> None:
        """Create or replace a function."""
        ...

    def drop_function(self, database: str, name: str) -> None:
        """Remove a function."""
        ...


class CatalogStore(Protocol):
    """A store of the catalogs that a session has created, which may outlast it (Flink's ``CatalogStore``)."""

    def names(self) -> list[str]:
        """The names of all catalogs."""
        ...

    def description(self, name: str) -> CatalogDescription | None:
        """The options of a catalog; None where there is none of that name."""
        ...

    def put(self, name: str, description: CatalogDescription) -> None:
        """Keep the options of a catalog."""
        ...

    def drop(self, name: str) -> None:
        """Forget a catalog."""
        ...


class MemoryCatalog:
    """A catalog in memory, which is lost with its session: ``'type' = 'generic_in_memory'``."""

    keeps_partitions = True
    outlasts_session = False

    def __init__(self, default_database: str = DEFAULT_DATABASE) -> None:
        self.default_database = default_database
        self._databases: dict[str, Database] = {default_database: Database()}
        self._tables: dict[str, dict[str, TableLike]] = {default_database: {}}
        self._functions: dict[str, dict[str, CatalogFunction]] = {default_database: {}}

    def databases(self) -> list[str]:
        """The names of its databases, in the order of creation."""
        return list(self._databases)

    def database(self, name: str) -> Database | None:
        """The database of a name."""
        return self._databases.get(name)

    def put_database(self, name: str, database: Database) -> None:
        """Create a database, or replace its comment and properties."""
        self._databases[name] = database
        self._tables.setdefault(name, {})
        self._functions.setdefault(name, {})

    def drop_database(self, name: str) -> None:
        """Remove a database with all of its objects."""
        del self._databases[name], self._tables[name], self._functions[name]

    def tables(self, database: str) -> list[str]:
        """The names of the tables and views of a database."""
        return list(self._tables.get(database, ()))

    def table(self, database: str, name: str) -> TableLike | None:
        """The table or view of a name."""
        return self._tables.get(database, {}).get(name)

    def put_table(self, database: str, name: str, table: TableLike) -> None:
        """Create or replace a table or view."""
        self._tables[database][name] = table

    def drop_table(self, database: str, name: str) -> None:
        """Remove a table or view."""
        del self._tables[database][name]

    def functions(self, database: str) -> list[str]:
        """The names of the functions of a database."""
        return list(self._functions.get(database, ()))

    def function(self, database: str, name: str) -> CatalogFunction | None:
        """The function of a name."""
        return self._functions.get(database, {}).get(name.lower())

    def put_function(self, database: str, name: str, function: CatalogFunction) -> None:
        """Create or replace a function."""
        self._functions[database][name.lower()] = function

    def drop_function(self, database: str, name: str) -> None:
        """Remove a function."""
        del self._functions[database][name.lower()]
