"""``PostgresScan``: the rows that a table of PostgreSQL has when it is read, which several tasks may do in parts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.config_options import ConfigOption, integer
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.common.logical_types import MAX_LENGTH, AtomicType, LogicalType, TypeRoot
from headrace.common.other_names import alike
from headrace.common.typeinfo import RowTypeInfo
from headrace.connectors.conditions import Combination, Comparison, Condition, NullCheck
from headrace.connectors.postgres.server import PostgresServer, quoted, telling
from headrace.connectors.postgres.snapshot import parsed_rows
from headrace.connectors.postgres.tables import NamedTable, PostgresTableSource, columns_of, no_table
from headrace.connectors.postgres.values import check_type, converter_of, is_number
from headrace.connectors.ranges import READ_RECORDS, RangeEnumerator, cut_evenly
from headrace.connectors.source import (
    Boundedness,
    EnumeratorContext,
    Json,
    Pending,
    ReadBudget,
    SourceReader,
    SourceRecords,
    SplitEnumerator,
    SplitRead,
)

if TYPE_CHECKING:
    from headrace.connectors.postgres.server import Connection

_BOUND: Final = integer(-(2**63), 2**63 - 1)

PARTITION_COLUMN: Final = ConfigOption[str | None](
    "scan.partition.column", str, None, "The column of numbers by whose values the table is cut into parts."
)
PARTITION_NUM: Final = ConfigOption[int | None](
    "scan.partition.num", integer(1, 100_000), None, "How many parts are read."
)
LOWER_BOUND: Final = ConfigOption[int | None](
    "scan.partition.lower-bound", _BOUND, None, "The least value of the first part; rows below it are left out."
)
UPPER_BOUND: Final = ConfigOption[int | None](
    "scan.partition.upper-bound", _BOUND, None, "The greatest value of the last part; rows above it are left out."
)
FETCH_SIZE: Final = ConfigOption(
    "scan.fetch-size", integer(0, 10**9), 0, "How many rows are taken over at a time; 0 for as many as are best."
)
PARTITIONING: Final = (PARTITION_COLUMN, PARTITION_NUM, LOWER_BOUND, UPPER_BOUND)
SCAN_OPTIONS: Final = (*PARTITIONING, FETCH_SIZE)


@dataclass(frozen=True, slots=True)
class ScanParts:
    """The parts of a table, by ranges of the values of a column.

    Attributes:
        column: its name.
        bounds: where the parts begin; the last one is the greatest value that is read.
    """

    column: str
    bounds: tuple[int, ...]

    @classmethod
    def of(cls, options: Configuration) -> ScanParts | None:
        """The parts that options say; None for the whole table at once.

        Raises:
            ConfigurationError: when one of them is missing, or the bounds are the wrong way round.
        """
        given = [option.key for option in PARTITIONING if options.contains_key(option.key)]
        column, count = options.get(PARTITION_COLUMN), options.get(PARTITION_NUM)
        lower, upper = options.get(LOWER_BOUND), options.get(UPPER_BOUND)
        if not given:
            return None
        if column is None or count is None or lower is None or upper is None:
            missing = [option.key for option in PARTITIONING if option.key not in given]
            raise ConfigurationError(f"{given[0]!r} needs {' and '.join(map(repr, missing))} as well")
        if lower > upper:
            raise ConfigurationError(f"{LOWER_BOUND.key!r} = {lower} is above {UPPER_BOUND.key!r} = {upper}")
        return cls(column, (*(start for start, _ in cut_evenly(lower, upper + 1, count)), upper))

    @property
    def count(self) -> int:
        """The number of parts."""
        return len(self.bounds) - 1

    def condition(self, number: int) -> str:
        """The condition on the rows of a part, in SQL; between two parts no row is lost that has a fraction."""
        name, end = quoted(self.column), self.bounds[number + 1]
        is_last = number + 1 == self.count
        return f"{name} >= {self.bounds[number]} AND {name} {'<=' if is_last else '<'} {end}"


@dataclass(frozen=True, slots=True)
class ScannedTable(NamedTable):
    """The table that is read, and what of it.

    Attributes:
        columns: the types of the columns that are read, by their names.
        parts: how it is cut; None where it is read at once.
        limit: how many rows of a part are enough; None for all.
        fetch_size: how many rows are taken over at a time.
        conditions: rows that do not meet them may be left out.
    """

    columns: Mapping[str, LogicalType]
    parts: ScanParts | None = None
    limit: int | None = None
    fetch_size: int = READ_RECORDS
    conditions: tuple[Condition, ...] = ()

    def query(self, part: int, connection: Connection) -> str:
        """The query of the rows of a part, with the conditions that the database can check."""
        names = ", ".join(map(quoted, self.columns))
        every = [] if self.parts is None else [self.parts.condition(part)]
        if self.conditions:
            every += ConditionWriter(connection, self._known(connection), self.columns).written(self.conditions)
        where = f" WHERE {' AND '.join(every)}" if every else ""
        limit = "" if self.limit is None else f" LIMIT {self.limit}"
        return f"SELECT {names} FROM {self.name}{where}{limit}"

    def check(self, connection: Connection) -> None:
        """Refuse a table that is not there, or has other columns.

        Raises:
            ConfigurationError: naming what is missing.
        """
        with telling(f"table {self}"):
            known = self._known(connection)
        parts = self.parts
        for name in (*self.columns, *(() if parts is None else (parts.column,))):
            if name not in known:
                raise ConfigurationError(f"table {self} has no column {name!r}{alike(name, known)}")
        for name, kind in self.columns.items():
            check_type(name, kind, known[name][0], str(self))
        if parts is not None and not is_number(known[parts.column][0]):
            raise ConfigurationError(
                f"table {self}: {PARTITION_COLUMN.key!r} = {parts.column!r} is {known[parts.column][1]}, and tables "
                "are cut by numbers"
            )

    def _known(self, connection: Connection) -> dict[str, tuple[int, str, str]]:
        """The columns that there are."""
        found = connection.execute(
            "SELECT c.oid::int8 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
            (self.schema, self.table),
        ).fetchone()
        if found is None:
            raise no_table(connection, str(self))
        return columns_of(connection, found[0])


class PostgresScan(PostgresTableSource):
    """The rows that a table has when tasks read them, in no order; it ends with them.

    Each part is one query. Where the table is changed meanwhile, parts may be as of different moments; a part that is
    read again after a failure is as of then.

    Args:
        server: where the table is.
        table: what is read of it.
        record_type: the type of the rows.
    """

    _table: ScannedTable
    _type: RowTypeInfo

    def __init__(self, server: PostgresServer, table: ScannedTable, record_type: RowTypeInfo) -> None:
        for name, kind in table.columns.items():
            converter_of(name, kind)
        super().__init__(server, table, record_type)

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        return _PartEnumerator(self._server, self._table, was_reached=context.state is not None)

    def create_reader(self) -> SourceReader:
        return _PartReader(self._server, self._table, self._type)


class _PartEnumerator(RangeEnumerator):
    """Plans the parts of a table, as many in an epoch as tasks read at once."""

    def __init__(self, server: PostgresServer, table: ScannedTable, *, was_reached: bool) -> None:
        self._count_of_parts = 1 if table.parts is None else table.parts.count
        super().__init__(str(table), self._count_of_parts)
        self._server = server
        self._table = table
        self._was_reached = was_reached
        self._is_checked = False

    def discover(self, now: int) -> Sequence[str]:
        if not self._is_checked:
            with closing(self._connected()) as connection:
                self._table.check(connection)
            self._is_checked = self._was_reached = True
        return super().discover(now)

    def _connected(self) -> Connection:
        purpose = f"scan of {self._table}"
        if self._was_reached:
            return self._server.connect(purpose)
        return self._server.connect_at_first(purpose, "'connection.max-retry-timeout'", "'url' is")

    def snapshot(self) -> Json:
        return True if self._was_reached else None

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        end = min(position + max(1, budget.pieces), self._count_of_parts)
        return SplitRead(split_id, position, end, tuple(range(position, end))) if position < end else None

    def pending(self, split_id: str, position: Json, now: int) -> Pending:
        return Pending()


class _PartReader(SourceReader):
    def __init__(self, server: PostgresServer, table: ScannedTable, record_type: RowTypeInfo) -> None:
        self._server = server
        self._table = table
        self._schema = layout_of(record_type).schema
        self._convert = {name: converter_of(name, kind) for name, kind in table.columns.items()}

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        with closing(self._server.connect("scan")) as connection, telling(f"table {self._table}"):
            query = f"COPY ({self._table.query(piece, connection)}) TO STDOUT (FORMAT csv)"
            with connection.cursor().copy(query.encode()) as copy:
                rows = iter(copy)  # the server sends each by itself
                while taken := list(islice(rows, self._table.fetch_size)):
                    yield self._records(b"".join(taken))

    def _records(self, data: bytes) -> SourceRecords:
        texts = parsed_rows(data, list(self._table.columns))
        columns = [convert(texts.column(name).combine_chunks()) for name, convert in self._convert.items()]
        pairs = zip(columns, self._schema, strict=True)
        arrays = [each if each.type == field.type else each.cast(field.type) for each, field in pairs]
        return SourceRecords(columns=pa.RecordBatch.from_arrays(arrays, schema=self._schema))


_WHOLE: Final = frozenset((20, 21, 23))
_READ_AS_THEY_ARE: Final[Mapping[TypeRoot, frozenset[int]]] = {
    TypeRoot.BOOLEAN: frozenset((16,)),
    **dict.fromkeys((TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT), _WHOLE),
    TypeRoot.FLOAT: frozenset((700,)),
    TypeRoot.DOUBLE: frozenset((701,)),
    TypeRoot.DECIMAL: _WHOLE | {1700},
    TypeRoot.DATE: frozenset((1082,)),
    TypeRoot.TIMESTAMP: frozenset((1114,)),
    TypeRoot.VARCHAR: frozenset((25, 1043)),
}
"""The types, by their ids, whose values stay what they are when they are read."""

_TYPES: Final = {
    TypeRoot.BOOLEAN: "boolean",
    **dict.fromkeys((TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT), "bigint"),
    TypeRoot.FLOAT: "real",
    TypeRoot.DOUBLE: "double precision",
    TypeRoot.DECIMAL: "numeric",
    TypeRoot.DATE: "date",
    TypeRoot.TIMESTAMP: "timestamp",
    **dict.fromkeys((TypeRoot.CHAR, TypeRoot.VARCHAR), "text"),
}
"""The types of constants."""

_NUMBERS: Final = frozenset({"bigint", "double precision", "numeric"})
_MICROSECONDS: Final = 6
_NUMERIC: Final = re.compile(r"numeric\(\d+,(\d+)\)")


@dataclass(frozen=True, slots=True)
class ConditionWriter:
    """Writes the conditions that PostgreSQL checks, so that it sends fewer rows, in its SQL.

    The database may send rows that do not meet a condition, and must send all that do. So conditions are left out that
    the database evaluates otherwise than the program: those on columns whose values are rounded, cut or padded when
    they are read, and on the order of texts, which depends on collations.

    Attributes:
        connection: a connection to it.
        known: the id and the name of the type of each column.
        read_as: the types that columns are read as.
    """

    connection: Connection
    known: Mapping[str, tuple[int, str, str]]
    read_as: Mapping[str, LogicalType]

    def written(self, conditions: Sequence[Condition]) -> list[str]:
        """Return the conditions that the database can check, as SQL."""
        return [text for text in map(self._text, conditions) if text is not None]

    def _text(self, condition: Condition) -> str | None:
        if isinstance(condition, NullCheck):
            return f"{quoted(condition.column)} IS {'' if condition.is_null else 'NOT '}NULL"
        if isinstance(condition, Combination):
            parts = [self._text(each) for each in condition.parts]
            texts = [text for text in parts if text is not None]
            return f"({f' {condition.word} '.join(texts)})" if len(texts) == len(parts) else None
        return self._comparison(condition) if isinstance(condition, Comparison) else None

    def _comparison(self, condition: Comparison) -> str | None:
        root, value = _root_of(condition.kind), condition.constant.as_py()
        kind = None if root is None else _TYPES.get(root)
        if kind is None or not self._is_comparable(condition.column, kind) or not self._is_sendable(value):
            return None
        name = quoted(condition.column)
        if kind == "text":
            if condition.operator not in ("=", "<>"):
                return None
            # Texts that a collation holds for equal may differ, and are no fewer for it
            name = name if condition.operator == "=" else f'{name} COLLATE "C"'
        return f"{name} {condition.operator} {self._literal(value)}::{kind}"

    def _is_comparable(self, column: str, kind: str) -> bool:
        """Return whether the database compares a column with constants of a type as the program does."""
        read_as, (type_id, shown, _) = self.read_as[column], self.known[column]
        if not isinstance(read_as, AtomicType) or type_id not in _READ_AS_THEY_ARE.get(read_as.root, ()):
            return False
        root, own = read_as.root, _TYPES[read_as.root]
        if not (kind == own or {kind, own} <= _NUMBERS):
            return False
        if root is TypeRoot.VARCHAR:
            return read_as.size == MAX_LENGTH
        if root is TypeRoot.TIMESTAMP:
            return read_as.size == _MICROSECONDS
        if type_id == 1700:
            scale = _NUMERIC.fullmatch(shown)
            return scale is not None and int(scale[1]) <= (read_as.scale or 0)
        return True

    def _is_sendable(self, value: Any) -> bool:
        """Return whether the database can have a value."""
        if isinstance(value, str):
            is_of_all = self.connection.info.parameter_status("server_encoding") == "UTF8"
            return "\0" not in value and (is_of_all or value.isascii())
        return value is not None and (not isinstance(value, float) or math.isfinite(value))

    def _literal(self, value: Any) -> str:
        from psycopg.sql import Literal

        return Literal(value).as_string(self.connection)


def _root_of(kind: LogicalType) -> TypeRoot | None:
    return kind.root if isinstance(kind, AtomicType) else None
