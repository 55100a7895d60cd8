"""Programs that keep a materialized table up to date are killed between the steps of its statements."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.table.environment.test_materialized_tables import pay, seen
from tests.waiting import PATIENCE, wait_for

_PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from headrace.table.ddl.file_catalog import FileCatalog
from tests.table.environment.test_materialized_tables import seen, shop, totals

path, rows, writes = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
tables = shop(path)
alter = "ALTER MATERIALIZED TABLE totals"
*first, last = [totals(path) if each == "CREATE" else f"{alter} {each}" for each in sys.argv[4:]]
for statement in first:
    tables.execute_sql(statement)
while first and len(seen(path)) < rows:
    time.sleep(0.1)
put, left = FileCatalog.put_table, [writes]

def killed(self, *given):
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    put(self, *given)

FileCatalog.put_table = killed
tables.execute_sql(last)
while len(seen(path)) < rows:
    time.sleep(0.1)
os.kill(os.getpid(), signal.SIGKILL)
"""

_NEVER = 99


def killed(path: Path, rows: int, writes: int, *statements: str) -> None:
    """Run statements in a process, which is killed before a write of the last one, or when there are so many rows."""
    command = [sys.executable, "-c", _PROGRAM, str(path), str(rows), str(writes), *statements]
    done: Any = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == -9, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("writes", [0, 1])
def test_a_table_goes_on_where_it_was(tmp_path: Path, writes: int) -> None:
    pay(tmp_path, ("a", 1), ("b", 10))
    killed(tmp_path, 2, writes, "CREATE")  # before the table is there, or before its job has begun
    again = ("RESUME",) if writes else ("CREATE",)
    killed(tmp_path, 2, 0 if writes else 1, *again, "SUSPEND")
    pay(tmp_path, ("a", 2))
    killed(tmp_path, 3, writes, "RESUME")  # before the catalog says that it is refreshed, or knows the job
    killed(tmp_path, 3, _NEVER, "RESUME")
    pay(tmp_path, ("b", 5))
    killed(tmp_path, 4, _NEVER, "RESUME")
    wait_for(lambda: len(seen(tmp_path)) == 4)
    assert seen(tmp_path) == [("a", 1), ("b", 10), ("a", 3), ("b", 15)]
