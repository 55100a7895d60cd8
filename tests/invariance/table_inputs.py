"""Tables whose rows are changelogs that are read as a cut says, and what is left of changelogs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Context, Decimal
from random import Random
from typing import Any, Final

from headrace.common import Row, RowKind, Types
from headrace.common.logical_types import decimal
from headrace.common.options import PARALLELISM
from headrace.common.typeinfo.types import type_of_logical
from headrace.table import Schema, StreamTableEnvironment
from headrace.table.connectors import ChangelogMode
from headrace.time.watermark_strategy import WatermarkStrategy
from tests.invariance.driver import Job

BOUND: Final = 20
"""By how many milliseconds rows may be behind the newest one of their split; none is late."""

COLUMNS: Final = {
    "id": ("BIGINT", Types.LONG()),
    "k": ("STRING", Types.STRING()),
    "ts": ("BIGINT", Types.LONG()),
    "n": ("BIGINT", Types.LONG()),
    "e": ("BIGINT", Types.LONG()),
    "d": ("DECIMAL(20, 3)", type_of_logical(decimal(20, 3))),
    "q": ("DECIMAL(38, 6)", type_of_logical(decimal(38, 6))),
    "x": ("STRING", Types.STRING()),
    "dt": ("DATE", Types.SQL_DATE()),
    "xd": ("DATE", Types.SQL_DATE()),
    "f": ("BOOLEAN", Types.BOOLEAN()),
}
"""The columns that the rows have, with their types in DDL and in streams; the third is the time of a row."""

ROW: Final = Types.ROW_NAMED(list(COLUMNS), [kind for _, kind in COLUMNS.values()])

EDGES: Final = [2**63 - 1, -(2**63), 2**53 + 1, 2**53, -1, 0, 1]
DECIMAL_EDGES: Final = [Decimal(f"{sign}{'9' * 32}.999999") for sign in ("", "-")] + [Decimal("0.000001"), Decimal(0)]
TEXTS: Final = ["", " ", "a", "A", "aB", "b ", "ä", "日本", "%", "a_c", "x" * 40, "0", "\U0001f600"]
DATES: Final = [date(1970, 1, 1), date(2024, 2, 29), date(2023, 12, 31), date(1999, 6, 1)]
DATE_EDGES: Final = [date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31), date(2000, 2, 29)]

Change = tuple[RowKind, tuple[Any, ...]]


@dataclass(frozen=True)
class InputTable:
    """A table of a job.

    Attributes:
        name: its name.
        mode: the row kinds that come; upserts are by ``id``.
        splits: the changes of each split, those of a row all in one.
        bound: by how many milliseconds the watermark is behind the newest row.
    """

    name: str
    mode: ChangelogMode
    splits: Sequence[Sequence[Change]]
    bound: int = BOUND

    @property
    def is_insert_only(self) -> bool:
        """Return whether rows only come."""
        return self.mode is ChangelogMode.INSERT

    @property
    def final(self) -> list[tuple[Any, ...]]:
        """The rows that are left, in the order in which they came."""
        return [row for split in self.splits for row in self._left_of(split)]

    def _left_of(self, split: Sequence[Change]) -> Iterable[tuple[Any, ...]]:
        if self.is_insert_only:
            return [row for _, row in split]
        left: dict[int, tuple[Any, ...]] = {}
        for kind, row in split:
            left.pop(row[0], None)
            if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER):
                left[row[0]] = row
        return left.values()


def random_table(chance: Random, name: str, mode: ChangelogMode, splits: int, most: int = 14) -> InputTable:
    """A table of a few rows; the same for the same numbers."""
    numbers = iter(range(1, 10_000))
    made = [_split(chance, numbers, mode, chance.randint(0, most)) for _ in range(splits)]
    return InputTable(name, mode, made)


def _split(chance: Random, numbers: Iterable[int], mode: ChangelogMode, size: int) -> list[Change]:
    changes: list[Change] = []
    live: dict[int, tuple[Any, ...]] = {}
    newest = chance.choice([0, 0, 95])
    for number, _ in zip(numbers, range(size), strict=False):
        newest += chance.choice([0, 1, 5, 10, 10, 20, 50])
        time = max(0, newest - chance.choice([0, 0, 0, 5, BOUND - 1]))
        if mode is ChangelogMode.INSERT or not live or chance.random() < 0.5:
            live[number] = _row(chance, number, time)
            changes.append((RowKind.INSERT, live[number]))
            continue
        old = live.pop(chance.choice(list(live)))
        if mode is ChangelogMode.ALL:
            changes.append((RowKind.UPDATE_BEFORE if (stays := chance.random() < 0.6) else RowKind.DELETE, old))
        elif not (stays := chance.random() < 0.6):
            changes.append((RowKind.DELETE, (old[0], None, old[2], *[None] * (len(old) - 3))))
        if stays:
            live[old[0]] = _row(chance, old[0], time if chance.random() < 0.5 else old[2])
            changes.append((RowKind.UPDATE_AFTER, live[old[0]]))
    return changes


def _row(chance: Random, number: int, time: int) -> tuple[Any, ...]:
    def maybe(values: Sequence[Any]) -> Any:
        return None if chance.random() < 0.15 else chance.choice(values)

    amount = Decimal(chance.randint(-5000, 5000)) / 1000
    small = maybe(range(-5, 12))
    return (
        number, maybe("abc"), time, small, maybe(EDGES), maybe([amount, Decimal("0.5"), Decimal("99999.999")]),
        maybe(DECIMAL_EDGES), maybe(TEXTS), maybe(DATES), maybe(DATE_EDGES), maybe([True, False]),
    )  # fmt: skip


def table_environment(job: Job, inputs: Sequence[InputTable], **settings: str) -> StreamTableEnvironment:
    """An environment in a job in which the tables are views of their names, with a time ``rt`` and a clock ``p``."""
    parallelism = job.parallelism()
    job.env.get_configuration().set(PARALLELISM, parallelism)
    tables = StreamTableEnvironment.create(job.env)
    for key, value in settings.items():
        tables.get_config().set(key, value)
    for given in inputs:
        rows = [[Row.of_kind(kind, *row) for kind, row in split] for split in given.splits]
        stream = job.source_of(given.name, rows, ROW, WatermarkStrategy.no_watermarks()).set_parallelism(parallelism)
        table = tables.from_changelog_stream(stream, _schema(given.mode, given.bound), given.mode)
        tables.create_temporary_view(given.name, table)
    return tables


def _schema(mode: ChangelogMode, bound: int) -> Schema:
    builder = Schema.new_builder()
    for name, (kind, _) in COLUMNS.items():
        builder.column(name, f"{kind} NOT NULL" if name in ("id", "ts") else kind)
    builder.column_by_expression("rt", "CAST(TO_TIMESTAMP_LTZ(ts, 3) AS TIMESTAMP(3))")
    builder.column_by_expression("p", "PROCTIME()")
    builder.watermark("rt", f"rt - INTERVAL '0.{bound:03}' SECOND")
    if mode not in (ChangelogMode.INSERT, ChangelogMode.ALL):
        builder.primary_key("id")
    return builder.build()


def query(job: Job, tables: StreamTableEnvironment, name: str, text: str) -> None:
    """Keeps the changes of a query's result under a name."""
    table = tables.sql_query(text)
    stream = tables.to_changelog_stream(table)
    assert list(stream.get_type().field_names) == list(table.get_resolved_schema().names)
    job.sink(name, stream)


@dataclass
class Left:
    """What is left of a changelog.

    Attributes:
        rows: so many of each row.
        unknown: rows that were taken back and not there.
    """

    rows: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    unknown: list[tuple[Any, ...]] = field(default_factory=list)


def left_of(changes: Iterable[tuple[Row, int]]) -> Left:
    """What is left of changes as sinks have got them."""
    left = Left()
    for row, _ in changes:
        values = tuple(map(plain, row))
        if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            left.rows[values] += 1
        elif left.rows[values] > 0:
            left.rows[values] -= 1
        else:
            left.unknown.append(values)
    left.rows = +left.rows
    return left


_EXACT: Final = Context(prec=60)


def plain(value: Any) -> Any:
    """A value in a form in which equal numbers are equal, and booleans differ from numbers."""
    if isinstance(value, bool):
        return str(value)
    return Decimal(value).normalize(_EXACT) if isinstance(value, int | Decimal) else value
