"""The schedules of full refreshes that a dispatcher keeps: those that programs leave to it, or that no process has."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Final, TypeGuard

from headrace.common import server_options as options
from headrace.common.configuration import Configuration
from headrace.common.errors import HeadraceError
from headrace.common.logs import get_logger
from headrace.connectors.file_system.paths import resolved
from headrace.table.catalog.objects import CatalogTable, ObjectPath
from headrace.table.ddl.file_catalog import FileCatalogStore
from headrace.table.ddl.objects import renew_catalogs
from headrace.table.environment.settings import EnvironmentSettings
from headrace.table.environment.table_environment import TableEnvironment
from headrace.table.options import DISPATCHER

logger = get_logger(__name__)

_NOT_OF_JOBS: Final = (
    *("high-availability.", "historyserver.", "web.", "headrace.cluster.", "jobstore."),
    "table.catalog-store.",
)
"""The beginnings of settings that are not for jobs; how the dispatcher is reached is one of its clients."""

_LOOK_SECONDS: Final = 2.0
_JOIN_SECONDS: Final = 10.0


class DispatcherSchedules:
    """Keeps schedules in a thread of a dispatcher: those of its catalog store that no program keeps.

    Args:
        configuration: that of the dispatcher.
        address: that of the dispatcher, to which jobs are submitted.
        leads: returns whether it leads; one that stands by refreshes nothing.
    """

    def __init__(self, configuration: Configuration, address: str, leads: Callable[[], bool]) -> None:
        place = configuration.get(options.CLUSTER_CATALOG_STORE)
        assert place is not None, "a dispatcher without a catalog store keeps no schedules"
        given = {key: value for key, value in configuration.to_dict().items() if not key.startswith(_NOT_OF_JOBS)}
        storage = configuration.get(options.CLUSTER_DIR)
        self._cluster = resolved(storage) if storage else ""
        self._leads = leads
        self._tables = TableEnvironment(
            EnvironmentSettings(
                is_streaming=False, configuration=Configuration.from_dict({**given, DISPATCHER.key: address})
            )
        )
        self._store = FileCatalogStore(place)
        self._taken: set[ObjectPath] = set()
        self._reported: dict[str, str] = {}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-schedules", daemon=True)

    def start(self) -> None:
        """Begin to look for schedules."""
        self._thread.start()

    def stop(self) -> None:
        """Refresh nothing any more; a refresh that runs is a job, which is seen to as others."""
        self._ends.set()
        self._thread.join(_JOIN_SECONDS)
        self._tables.materialized.hand_over(list(self._taken))

    def look(self) -> None:
        """Adopt free schedules while the dispatcher leads; else give up all of them."""
        if not self._leads():
            self._tables.materialized.hand_over(list(self._taken))
            self._taken.clear()
            return
        renew_catalogs(self._tables.catalogs, self._store, self._skip)
        for path in list(self._paths()):
            try:
                found = self._tables.catalogs.permanent_table(path)
                if _is_scheduled(found):
                    self._tables.materialized.adopt(path, found, self._cluster)
                    self._taken.add(path)
            except (HeadraceError, OSError) as error:
                self._tell(f"table {path} is not refreshed when it is due", error)

    def _paths(self) -> Iterator[ObjectPath]:
        catalogs = self._tables.catalogs.catalogs
        for name, catalog in catalogs.items():
            for database in catalog.databases() if catalog.outlasts_session else ():
                yield from (ObjectPath(name, database, table) for table in catalog.tables(database))

    def _run(self) -> None:
        while not self._ends.wait(_LOOK_SECONDS):
            try:
                self.look()
            except (HeadraceError, OSError) as error:
                self._tell("the schedules of materialized tables cannot be looked for", error)

    def _skip(self, catalog: str, error: HeadraceError) -> None:
        self._tell(f"catalog {catalog!r} is left out of the schedules of materialized tables", error)

    def _tell(self, what: str, error: Exception) -> None:
        """Log what does not work, once and not at every look."""
        if self._reported.get(what) != str(error):
            logger.warning("%s: %s", what, error)
        self._reported[what] = str(error)


def _is_scheduled(table: object) -> TypeGuard[CatalogTable]:
    """Return whether a table is one that is to be refreshed as a whole."""
    found = table.materialization if isinstance(table, CatalogTable) else None
    return found is not None and found.is_scheduled
