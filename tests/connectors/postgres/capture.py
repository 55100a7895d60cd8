"""Drives a source of PostgreSQL as the job manager does, and applies its changelog to a table in memory."""

from __future__ import annotations

import json
import pickle
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.common.columns import layout_of
from headrace.common.typeinfo import RowTypeInfo
from headrace.common.typeinfo.types import type_of_logical
from headrace.connectors.postgres.server import lsn_of
from headrace.connectors.postgres.source import PostgresSource
from headrace.connectors.source import EnumeratorContext, ReadBudget
from headrace.storage.folder import posix_folder
from headrace.table.bind.types import TypeBinder
from headrace.table.parse import SqlSource, parse_type
from tests.connectors.postgres.server import Database
from tests.waiting import PATIENCE

PLENTY = ReadBudget(10**9, 10**12, 2)
KINDS = ("+I", "-U", "+U", "-D")


def row_type(columns: str) -> RowTypeInfo:
    """The type of rows of columns such as ``id INT, price DECIMAL(8, 2)``."""
    text = f"ROW<{columns}>"
    found = type_of_logical(TypeBinder(SqlSource(text)).bind(parse_type(text)))
    assert isinstance(found, RowTypeInfo)
    return found


@dataclass
class Capture:
    """A job that only reads a table.

    Attributes:
        database: where the table is.
        columns: what is read of it.
        options: of the source, beside those of the database.
        rows: what was read: kinds and values.
    """

    database: Database
    columns: str
    options: dict[str, str]
    metadata: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    position: Any = None

    def __post_init__(self) -> None:
        table = self.options.get("table-name", "orders")
        given = {
            "table-name": table,
            "slot.name": self.database.name,
            "publication.name": table,
            "heartbeat.interval.ms": "1 ms",
            **self.options,
        }
        source = PostgresSource(
            {**self.database.options, **given},
            row_type(self.columns),
            primary_key=self.primary_key,
            metadata=self.metadata,
        )
        self.source: PostgresSource = pickle.loads(pickle.dumps(source))
        self.now = 0
        self.enumerator: Any = None
        self.manifest: tuple[str, int] | None = None
        self.restart()

    def restart(self) -> None:
        """Go on from the last manifest, with what was read up to it."""
        self.close()
        state, self.position = None, None
        if self.manifest is None:
            self.rows.clear()
        else:
            text, count = self.manifest
            state, self.position = json.loads(text)
            del self.rows[count:]
        context = EnumeratorContext(2, posix_folder(Path("/nowhere")), state)
        self.enumerator = self.source.create_enumerator(context)
        if self.manifest is not None:
            self.enumerator.checkpoint_completed({f"public.{self.options.get('table-name', 'orders')}": self.position})

    def epoch(self, budget: ReadBudget = PLENTY, *, fails: bool = False) -> int:
        """Read what there is now; how many rows it was. An epoch that fails has no manifest."""
        self.now += 10
        (split,) = self.enumerator.discover(self.now)
        position = self.enumerator.initial_position(split) if self.position is None else self.position
        share = self.enumerator.plan(split, position, budget, self.now)
        if share is None:
            return 0
        before, reader = len(self.rows), self.source.create_reader()
        layout = layout_of(self.source.produced_type)
        for piece in pickle.loads(pickle.dumps(share.pieces)):
            for part in reader.read(piece):
                assert part.columns.schema == layout.schema
                kinds = [0] * len(part) if part.kinds is None else part.kinds
                values = [tuple(row) for row in layout.columns_to_rows(part.columns)]
                self.rows += [(KINDS[kind], *row) for kind, row in zip(kinds, values, strict=True)]
        if not fails:
            self.position = json.loads(json.dumps(share.end))
            self.manifest = (json.dumps([self.enumerator.snapshot(), self.position]), len(self.rows))
            self.enumerator.checkpoint_completed({split: self.position})
        return len(self.rows) - before

    def catch_up(self, budget: ReadBudget = PLENTY) -> list[tuple[Any, ...]]:
        """Read everything that was committed before; what it was."""
        ((text,),) = self.database.rows("SELECT pg_current_wal_insert_lsn()::text")
        # What an empty transaction writes is beyond that place: the server tells of it when it has come there
        self.database.execute("SELECT pg_logical_emit_message(true, 'headrace', 'tick')")
        before, end = len(self.rows), time.monotonic() + PATIENCE
        while not self.is_at(lsn_of(text)):
            assert time.monotonic() < end, "the changes do not come"
            if not self.epoch(budget):
                time.sleep(0.005)
        return self.rows[before:]

    def is_at(self, lsn: int) -> bool:
        """Tell whether everything up to a place in the log was read."""
        place = None if self.position is None else self.position["place"]
        return place is not None and place[0] >= lsn and place[1] == 0

    def close(self) -> None:
        """End it."""
        if self.enumerator is not None:
            self.enumerator.close()

    # --- the table that the changes lead to --------------------------------------------------------------------------

    def retracted(self) -> Counter[tuple[Any, ...]]:
        """The rows that the changes lead to, each of which takes back rows as a whole."""
        table: Counter[tuple[Any, ...]] = Counter()
        for kind, *row in self.rows:
            table[tuple(row)] += 1 if kind in ("+I", "+U") else -1
            assert table[tuple(row)] >= 0, f"{kind} {row} takes back what is not there"
        return +table

    def upserted(self) -> dict[Any, tuple[Any, ...]]:
        """The rows that the changes lead to, by their first column."""
        table: dict[Any, tuple[Any, ...]] = {}
        for kind, *row in self.rows:
            if kind == "-D":
                del table[row[0]]
            else:
                assert kind == "+U" or row[0] not in table
                table[row[0]] = tuple(row)
        return table
