"""What tests of materialized tables wait for, and what they are told of a table."""

from __future__ import annotations

from typing import Any

from headrace.table import TableEnvironment


def described(tables: TableEnvironment, name: str = "shop.default.totals") -> Any:
    with tables.execute_sql("CALL shop.sys.materialized_tables()").collect() as found:
        return next(row for row in found if row.table == name)
