"""The catalogs of a session, its temporary objects, and its current catalog and database."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headrace.table.catalog.catalog import DEFAULT_CATALOG, DEFAULT_DATABASE, Catalog, CatalogStore, MemoryCatalog
from headrace.table.catalog.objects import CatalogDescription, CatalogFunction, CatalogModel, ObjectPath, TableLike
from headrace.table.catalog.procedures import SYSTEM_DATABASE, NoProcedures, Procedure, Procedures


class CatalogManager:
    """The catalogs of a session. Temporary objects hide those of the same path, and are lost with the session.

    Args:
        catalog: the name of the first one.
        database: the name of its first database.

    Attributes:
        catalogs: by name.
        catalog: the name of the current one.
        database: the name of the current database; None after it was dropped.
        temporary: tables and views by path.
        system_functions: temporary system functions, by name in lower case.
        temporary_functions: temporary catalog functions, by path.
        descriptions: the options with which catalogs were created.
        models: by path.
        temporary_models: by path; they hide those of the same path.
        procedures: those of databases, by path; their names are in lower case.
        system_procedures: those of the database ``sys`` of each catalog.
        modules: the loaded modules of functions, and whether each is in use.
        store: keeps the options with which catalogs were created; None where they are lost with the session.
    """

    def __init__(self, catalog: str = DEFAULT_CATALOG, database: str = DEFAULT_DATABASE) -> None:
        self.catalogs: dict[str, Catalog] = {catalog: MemoryCatalog(database)}
        self.catalog = catalog
        self.database: str | None = database
        self.temporary: dict[ObjectPath, TableLike] = {}
        self.system_functions: dict[str, CatalogFunction] = {}
        self.temporary_functions: dict[ObjectPath, CatalogFunction] = {}
        self.descriptions: dict[str, CatalogDescription] = {}
        self.models: dict[ObjectPath, CatalogModel] = {}
        self.temporary_models: dict[ObjectPath, CatalogModel] = {}
        self.procedures: dict[ObjectPath, Procedure] = {}
        self.system_procedures: Procedures = NoProcedures()
        self.modules: dict[str, bool] = {"core": True}
        self.store: CatalogStore | None = None

    def describe(self, name: str, description: CatalogDescription | None) -> None:
        """Set the options of a catalog, here and in the store; None for a dropped catalog."""
        if description is None:
            self.descriptions.pop(name, None)
        else:
            self.descriptions[name] = description
        if self.store is not None and description is None:
            self.store.drop(name)
        elif self.store is not None and description is not None:
            self.store.put(name, description)

    def qualify(self, names: Sequence[str]) -> ObjectPath:
        """The full path of one to three names."""
        *rest, name = names
        database = rest.pop() if rest else self.database or ""
        return ObjectPath(rest.pop() if rest else self.catalog, database, name)

    def candidates(self, names: Sequence[str]) -> list[ObjectPath]:
        """The paths to which a table's names can refer, the most likely first."""
        return [self.qualify(names)] if len(names) <= 3 else []

    def table(self, path: ObjectPath) -> TableLike | None:
        """The table or view at a path; a temporary one comes first."""
        temporary = self.temporary.get(path)
        return temporary if temporary is not None else self.permanent_table(path)

    def permanent_table(self, path: ObjectPath) -> TableLike | None:
        """The permanent table or view at a path."""
        catalog = self.catalogs.get(path.catalog)
        return None if catalog is None else catalog.table(path.database, path.name)

    @contextmanager
    def kept_on_failure(self, path: ObjectPath) -> Iterator[None]:
        """Restore the object at a path if the body fails."""
        permanent, temporary = self.permanent_table(path), self.temporary.get(path)
        try:
            yield
        except Exception:
            self.temporary.pop(path, None)
            if temporary is not None:
                self.temporary[path] = temporary
            if self.permanent_table(path) is not permanent:
                self._put_back(path, permanent)
            raise

    def _put_back(self, path: ObjectPath, table: TableLike | None) -> None:
        catalog = self.catalogs[path.catalog]
        if table is None:
            catalog.drop_table(path.database, path.name)
        else:
            catalog.put_table(path.database, path.name, table)

    def has_database(self, catalog: str, database: str) -> bool:
        """Return whether a database exists."""
        found = self.catalogs.get(catalog)
        return found is not None and found.database(database) is not None

    def tables(self, catalog: str, database: str) -> list[str]:
        """The names of the tables and views of a database, temporary ones included, sorted."""
        names = {path.name for path in self.temporary if path[:2] == (catalog, database)}
        return sorted(names.union(self.catalogs[catalog].tables(database)))

    def user_functions(self, catalog: str, database: str | None) -> set[str]:
        """The names of the functions of a database, temporary ones included, and of temporary system functions."""
        temporary = {path.name for path in self.temporary_functions if path[:2] == (catalog, database)}
        found = self.catalogs.get(catalog)
        stored = [] if found is None or database is None else found.functions(database)
        return temporary.union(self.system_functions, stored)

    def system_function(self, names: Sequence[str]) -> CatalogFunction | None:
        """The temporary system function of a name."""
        return self.system_functions.get(names[0].lower()) if len(names) == 1 else None

    def function(self, names: Sequence[str]) -> CatalogFunction | None:
        """The user-defined function to which names refer: temporary system functions first, then temporary ones."""
        if (found := self.system_function(names)) is not None:
            return found
        path = self.qualify(names)
        path = path._replace(name=path.name.lower())
        if (temporary := self.temporary_functions.get(path)) is not None:
            return temporary
        catalog = self.catalogs.get(path.catalog)
        return None if catalog is None else catalog.function(path.database, path.name)

    def procedure_names(self, catalog: str, database: str) -> list[str]:
        """The names of the procedures of a database, sorted."""
        own = {path.name for path in self.procedures if path[:2] == (catalog, database)}
        return sorted(own.union(self.system_procedures.names() if database.lower() == SYSTEM_DATABASE else ()))

    def procedure(self, path: ObjectPath) -> Procedure | None:
        """The procedure at a path.

        Raises:
            InvalidProgramError: when it cannot be imported, or is no procedure.
        """
        found = self.procedures.get(path._replace(name=path.name.lower()))
        if found is None and path.database.lower() == SYSTEM_DATABASE and path.catalog in self.catalogs:
            return self.system_procedures.get(path.name)
        return found
