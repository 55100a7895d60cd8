"""``print`` and ``blackhole``: write-only tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.config_options import ConfigOption, boolean
from headrace.common.messages import fields_of
from headrace.common.typeinfo import TypeInformation
from headrace.common.types import RowKind
from headrace.connectors.driver_sink import PrintSink
from headrace.connectors.sink import Json, Sink, SinkWriter, WriterContext
from headrace.table.connectors.changelog_mode import ChangelogMode
from headrace.table.connectors.factory import TableConnector, TableContext
from headrace.table.connectors.java_text import java_texts, row_texts
from headrace.table.connectors.table_sink import PARALLELISM, TableSink

IDENTIFIER: Final = ConfigOption("print-identifier", str, "", "What begins each line.")
STANDARD_ERROR: Final = ConfigOption("standard-error", boolean, False, "Whether to print to the standard error.")


@dataclass(frozen=True)
class PlainTableSink(TableSink):
    """A sink of rows of any kind.

    Attributes:
        sink: writes them.
        name: its name in plans.
        parallelism: how many tasks write.
    """

    sink: Sink[Any]
    name: str
    parallelism: int | None = None

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        return requested

    def create_sink(self, metadata: Sequence[str]) -> Sink[Any]:
        return self.sink

    @property
    def summary(self) -> str:
        return self.name


class NoTableSink(PlainTableSink):
    """A sink that discards rows, and so has no use for the rows that updates take back."""

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        return ChangelogMode(requested.kinds - {RowKind.UPDATE_BEFORE})


class PrintTables(TableConnector):
    """Prints rows: ``+I[tea, 3]``."""

    optional_options = (IDENTIFIER, STANDARD_ERROR, PARALLELISM)

    def create_sink(self, context: TableContext) -> TableSink:
        options = self.options_of(context)
        sink = PrintedRows(options.get(IDENTIFIER), to_stderr=options.get(STANDARD_ERROR))
        return PlainTableSink(sink, "print", options.get(PARALLELISM))


class PrintedRows(PrintSink):
    """Prints rows as Flink's SQL does, column by column."""

    def lines_of(self, input_type: TypeInformation) -> Callable[[Batch], Sequence[str]]:
        return _Lines(input_type)


@dataclass(frozen=True)
class _Lines:
    """The lines of rows of a type."""

    type: TypeInformation

    def __call__(self, batch: Batch) -> Sequence[str]:
        columns = batch.columns
        types = [kind.logical_type for _, kind in fields_of(self.type)]
        texts = [java_texts(*pair) for pair in zip(columns.columns, types, strict=False)]
        kinds = layout_of(batch.type).kinds_in(columns) if batch.kinds is None else batch.kinds
        symbols = ["+I"] * len(batch) if kinds is None else [str(RowKind(kind)) for kind in kinds.tolist()]
        return row_texts(symbols, texts)


class BlackholeTables(TableConnector):
    """Discards rows."""

    def create_sink(self, context: TableContext) -> TableSink:
        self.options_of(context)
        return NoTableSink(BlackholeSink(), "blackhole")


class BlackholeSink(Sink[Any]):
    """Discards records."""

    is_durable = False

    def takes_changes(self, input_type: TypeInformation) -> bool:
        return True

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Nowhere()

    def __repr__(self) -> str:
        return "BlackholeSink()"


class _Nowhere(SinkWriter):
    def write(self, batch: Batch) -> None:
        """Discard the records."""

    def prepare_commit(self) -> Sequence[Json]:
        return ()
