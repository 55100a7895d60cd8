"""``'connector' = 'oracle'``: tables whose rows are the events of a case, one at a time in one order of all tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.common.batch import Kinds
from headrace.common.columns import layout_of
from headrace.common.config_options import ConfigOption, boolean
from headrace.common.errors import InvalidProgramError
from headrace.common.logical_types import AtomicType, LogicalType, MapType, RowType, TypeRoot, bigint, string
from headrace.common.typeinfo import TypeInformation
from headrace.common.typeinfo.types import type_of_logical
from headrace.connectors.driver_sink import DriverSink, EncodedRecords
from headrace.connectors.sink import Sink
from headrace.connectors.source import (
    Boundedness,
    EnumeratorContext,
    Json,
    ReadBudget,
    Source,
    SourceReader,
    SourceRecords,
    SplitEnumerator,
    SplitRead,
)
from headrace.operators.lookup.readers import StaticTable
from headrace.table.connectors import ChangelogMode, TableConnector, TableContext, TableSink, TableSource
from headrace.table.connectors.table_lookup import TableLookup
from tests.table.conformance.values import array_of

KINDS: Final = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}

METADATA: Final[Mapping[str, LogicalType]] = {
    "ts": AtomicType(TypeRoot.TIMESTAMP_LTZ, 3, nullable=False),
    "offset": bigint().not_null(),
    "headers": MapType(string(), string()),
}


@dataclass
class Script:
    """The events of a case, and how far the job that runs has come.

    Attributes:
        events: table, kind, values and perhaps metadata of each, in one order.
        one_by_one: whether an epoch has one event; else all that come before an event of another table.
        positions: how many events each table has given, as of the last complete epoch.
        asked: the tables that were asked for events: the first time, one by one, they give none, so that constants of
            the query come first.
        sinks: the rows that each sink has got, by the name of its table.
    """

    events: Sequence[Sequence[Json]] = ()
    one_by_one: bool = False
    positions: dict[str, int] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    ending: str | None = None
    sinks: dict[str, list[tuple[pa.RecordBatch, Kinds | None]]] = field(default_factory=dict)

    def of(self, table: str) -> list[Sequence[Json]]:
        return [event for event in self.events if event[0] == table]

    def next_of(self, table: str) -> int:
        """How many events the table has next, before another table has one."""
        if self.one_by_one and table not in self.asked:
            self.asked.add(table)
            return 0
        place = sum(self.positions.values())
        rest = [event[0] for event in self.events if event[0] in self.positions][place:]
        count = next((number for number, name in enumerate(rest) if name != table), len(rest))
        return min(count, 1) if self.one_by_one else count

    def ends(self, table: str) -> bool:
        """Whether the table ends now: all events have been, and those that end before it have ended."""
        if table in self.ended:
            return True
        if sum(self.positions.values()) < sum(event[0] in self.positions for event in self.events):
            return False
        order = dict.fromkeys([*(event[0] for event in self.events if event[0] in self.positions), *self.positions])
        if table != next(name for name in order if name not in self.ended):
            return False
        self.ending = table
        return True

    def completed(self, table: str, position: int) -> None:
        self.positions[table] = position
        if self.ending == table:
            self.ended.add(table)
            self.ending = None


SCRIPT = Script()
"""The script of the case that is replayed: one at a time in a process."""


def begin(events: Sequence[Sequence[Json]], *, one_by_one: bool) -> Script:
    """Lets a new job start with these events."""
    SCRIPT.__init__(events, one_by_one)  # type: ignore[misc]
    return SCRIPT


CHANGELOG_MODE = ConfigOption("changelog-mode", str, "I")
SINK_MODE = ConfigOption[str | None]("sink-mode", str, None)
LOOKUP = ConfigOption("lookup", boolean, False)


def _mode(text: str) -> ChangelogMode:
    try:
        return ChangelogMode.parse(text)
    except KeyError:
        raise InvalidProgramError(f"changelog-mode: {text}") from None


class OracleConnector(TableConnector):
    optional_options = (CHANGELOG_MODE, SINK_MODE, LOOKUP)

    def create_source(self, context: TableContext) -> TableSource:
        options = self.options_of(context)
        mode = _mode(options.get(CHANGELOG_MODE))
        return OracleTableSource(context.path[-1], context.columns, mode, options.get(LOOKUP))

    def create_sink(self, context: TableContext) -> TableSink:
        mode = self.options_of(context).get(SINK_MODE)
        return OracleTableSink(
            context.path[-1], _mode(("I,UA,D" if context.primary_key else "I,UB,UA,D") if mode is None else mode)
        )


@dataclass(frozen=True)
class OracleTableSource(TableSource):
    table: str
    columns: RowType
    mode: ChangelogMode
    can_look_up: bool = False
    summary = "oracle"
    is_bounded = True

    @property
    def changelog_mode(self) -> ChangelogMode:
        return self.mode

    @property
    def readable_metadata(self) -> Mapping[str, LogicalType]:
        return METADATA

    def create_source(self, metadata: Sequence[str]) -> Source:
        return OracleSource(self.table, self.columns, tuple(metadata))

    def create_lookup(self, keys: Sequence[str]) -> TableLookup:
        source = OracleSource(self.table, self.columns, ())
        (records,) = source.create_reader().read([0, None])
        return TableLookup(StaticTable(records.columns), tuple(keys))


@dataclass(frozen=True)
class OracleTableSink(TableSink):
    table: str
    mode: ChangelogMode
    summary = "oracle"

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        return self.mode

    def create_sink(self, metadata: Sequence[str]) -> Sink:
        return DriverSink(partial(_record, SCRIPT.sinks.setdefault(self.table, [])))


def _record(
    rows: list[tuple[pa.RecordBatch, Kinds | None]], records: Sequence[EncodedRecords], type_: TypeInformation
) -> None:
    rows += [(part.as_columns(type_), np.frombuffer(part.kinds, np.int8) if part.kinds else None) for part in records]


class OracleSource(Source[Any]):
    boundedness = Boundedness.BOUNDED
    gives_timestamps = False

    def __init__(self, table: str, columns: RowType, metadata: tuple[str, ...]) -> None:
        self._table = table
        self._columns = columns
        self._metadata = metadata
        names = (*columns.names, *(f"metadata {key}" for key in metadata))
        types = (*columns.types, *(METADATA[key] for key in metadata))
        self._type = type_of_logical(RowType(names, tuple(kind.as_nullable() for kind in types)))

    @property
    def produced_type(self) -> TypeInformation:
        return self._type

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        SCRIPT.positions.setdefault(self._table, 0)
        return _Enumerator(self._table)

    def create_reader(self) -> SourceReader:
        return _Reader(self._table, self._columns, self._metadata, self._type)


class _Enumerator(SplitEnumerator):
    def __init__(self, table: str) -> None:
        self._table = table

    def discover(self, now: int) -> Sequence[str]:
        return ["events"]

    def initial_position(self, split_id: str) -> Json:
        return 0

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        count = SCRIPT.next_of(self._table)
        return (
            SplitRead(split_id, position, position + count, ([position, position + count],), count) if count else None
        )

    def is_finished(self, split_id: str, position: Json) -> bool:
        return SCRIPT.ends(self._table)

    def checkpoint_completed(self, positions: dict[str, Json]) -> None:
        for position in positions.values():
            SCRIPT.completed(self._table, position)


class _Reader(SourceReader):
    def __init__(self, table: str, columns: RowType, metadata: tuple[str, ...], type_: TypeInformation) -> None:
        self._table, self._columns, self._metadata, self._type = table, columns, metadata, type_

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        events = SCRIPT.of(self._table)[piece[0] : piece[1]]
        arrays = [
            array_of([event[2][index] for event in events], kind) for index, kind in enumerate(self._columns.types)
        ]
        known = [event[3] if len(event) > 3 else {} for event in events]
        arrays += [array_of([each.get(key) for each in known], METADATA[key]) for key in self._metadata]
        kinds = np.array([KINDS[event[1]] for event in events], np.int8)
        columns = pa.RecordBatch.from_arrays(arrays, schema=layout_of(self._type).schema)
        yield SourceRecords(columns=columns, kinds=kinds if kinds.any() else None)
