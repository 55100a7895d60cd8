"""Schedules of full refreshes that a program leaves to a dispatcher.

Both meet in the catalog. The program writes its table there without a process that has the schedule, and waits until
the dispatcher, which looks for such tables, has written itself.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.common.configuration import Configuration, is_secret_key
from headrace.common.errors import ConfigurationError
from headrace.common.masking import masked
from headrace.table.catalog.materialization import RefreshHandler
from headrace.table.catalog.objects import ObjectPath
from headrace.table.options import CATALOG_STORE_PATH, DISPATCHER, SCHEDULER

if TYPE_CHECKING:
    from headrace.table.environment.session import TableSession

_OF_DISPATCHER: Final = ("rest.", "security.ssl.", "table.catalog-store.", "sql-client.", DISPATCHER.key, SCHEDULER.key)
"""What the dispatcher says itself, beginnings of keys."""

_TAKEN_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1


def leaves_to_dispatcher(tables: TableSession) -> bool:
    """Return whether a session leaves its schedules to the dispatcher."""
    return Configuration.from_dict(tables.session_settings()).get(SCHEDULER) == "dispatcher"


def left_to_dispatcher(handler: RefreshHandler, path: ObjectPath, tables: TableSession) -> RefreshHandler:
    """The handler of a table whose schedule nobody has, until the dispatcher of the session takes it up.

    Raises:
        ConfigurationError: when the session names no dispatcher, or the catalog ends with the session.
    """
    settings = tables.session_settings()
    address = Configuration.from_dict(settings).get(DISPATCHER)
    if address is None:
        raise ConfigurationError(
            f"{SCHEDULER.key} is dispatcher, and none is named: SET '{DISPATCHER.key}' = 'HOST:PORT'"
        )
    if not tables.catalogs.catalogs[path.catalog].outlasts_session:
        raise ConfigurationError(
            f"materialized table {path} exists in this program alone, and the dispatcher would not find it: create it "
            "in a catalog that outlasts the program (CREATE CATALOG ... WITH ('type' = 'file', ...))"
        )
    kept = tuple(sorted((key, str(value)) for key, value in settings.items() if _is_kept(key, str(value))))
    return replace(handler, process=None, cluster="", dispatcher=address, settings=kept)


def _is_kept(key: str, value: str) -> bool:
    return not key.startswith(_OF_DISPATCHER) and not is_secret_key(key) and masked(key, value) == value


def wait_until_taken(path: ObjectPath, tables: TableSession) -> None:
    """Wait until a dispatcher has taken up the schedule of a table.

    Raises:
        ConfigurationError: when none does.
    """
    until = time.monotonic() + _TAKEN_SECONDS
    while not _is_taken(tables.catalogs.permanent_table(path)):
        if time.monotonic() >= until:
            raise ConfigurationError(
                f"no dispatcher has taken up the schedule of materialized table {path} within {_TAKEN_SECONDS:g} s: "
                f"start one that looks where catalog {path.catalog!r} is, headrace cluster start --catalog-store DIR, "
                f"where DIR is the {CATALOG_STORE_PATH.key} of this session; or set {SCHEDULER.key} to 'program'"
            )
        time.sleep(_POLL_SECONDS)


def _is_taken(table: object) -> bool:
    found = getattr(table, "materialization", None)
    return found is not None and found.handler.process is not None
