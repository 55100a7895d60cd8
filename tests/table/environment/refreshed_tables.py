"""What tests of materialized tables wait for, and what they are told of a table."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from headrace.table import TableEnvironment

PATIENCE = 180.0


def until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def described(tables: TableEnvironment, name: str = "shop.default.totals") -> Any:
    with tables.execute_sql("CALL shop.sys.materialized_tables()").collect() as found:
        return next(row for row in found if row.table == name)
