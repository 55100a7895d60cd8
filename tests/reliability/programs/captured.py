"""Tables of one PostgreSQL, joined and aggregated into tables of another, for ever.

captured.py SOURCE DATABASE SINK DATABASE CHECKPOINTS RUNTIME
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.connectors.postgres.server import Database
from tests.reliability.support.captured import environment


def main(source: str, captured: str, sink: str, written: str, checkpoints: str, runtime: str) -> None:
    tables = environment(Database(Path(source), captured), Database(Path(sink), written), checkpoints, runtime)
    statements = tables.create_statement_set()
    statements.add_insert_sql(
        "INSERT INTO totals SELECT c.country, COUNT(*), SUM(o.price) FROM orders o JOIN customers c ON o.customer = "
        "c.id GROUP BY c.country"
    )
    statements.add_insert_sql("INSERT INTO copies SELECT * FROM orders")
    result = statements.execute()
    print("it runs", flush=True)
    result.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
