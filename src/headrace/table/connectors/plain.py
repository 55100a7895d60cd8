"""``print`` and ``blackhole``: write-only tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.config_options import ConfigOption, boolean
from headrace.common.logical_types import ArrayType, AtomicType, LogicalType, MapType, MultisetType, RowType, TypeRoot
from headrace.common.messages import fields_of
from headrace.common.typeinfo import TypeInformation
from headrace.common.typeinfo.types import type_of_logical
from headrace.common.types import RowKind
from headrace.common.values import handler_of
from headrace.connectors.driver_sink import PrintSink
from headrace.connectors.sink import Json, Sink, SinkWriter, WriterContext
from headrace.table.connectors.changelog_mode import ChangelogMode
from headrace.table.connectors.factory import TableConnector, TableContext
from headrace.table.connectors.table_sink import PARALLELISM, TableSink

_NULL: Final = "null"
_COLLECTIONS: Final = (ArrayType, MapType, MultisetType, RowType)
_LOCAL: Final = frozenset((TypeRoot.TIME, TypeRoot.TIMESTAMP))
_BYTES: Final = frozenset((TypeRoot.BINARY, TypeRoot.VARBINARY))


def java_texts(array: pa.Array, kind: LogicalType) -> list[str]:
    """The text of each value of a column of a type."""
    texts = _collections(array, kind) if isinstance(kind, _COLLECTIONS) else _scalars(array, kind)
    valid = array.is_valid().to_pylist()
    return [text if is_valid else _NULL for text, is_valid in zip(texts, valid, strict=True)]


def _collections(array: pa.Array, kind: LogicalType) -> list[str]:
    match kind:
        case ArrayType(element=element):
            return [f"[{', '.join(part)}]" for part in _parts(array, java_texts(array.values, element))]
        case MapType(key=key, value=value):
            return _maps(array, key, value)
        case MultisetType(element=element):
            return _maps(array, element, AtomicType(TypeRoot.INTEGER))
        case RowType(types=types):
            columns = [java_texts(*field) for field in zip(array.flatten(), types, strict=True)]
            return row_texts(["+I"] * len(array), columns)
    raise AssertionError(kind)


def _scalars(array: pa.Array, kind: LogicalType) -> list[str]:
    root = kind.root if isinstance(kind, AtomicType) else None
    if root in _LOCAL:
        return [_short_time(text).removesuffix(":00") for text in _as_strings(array)]
    if root is TypeRoot.TIMESTAMP_LTZ:
        return [f"{_short_time(text.removesuffix('Z'))}Z" for text in _as_strings(array)]
    if root in _BYTES:
        return [str([byte - (byte > 127) * 256 for byte in value or b""]) for value in array.to_pylist()]
    handler = handler_of(type_of_logical(kind))
    return [_NULL if value is None else handler.text(value) for value in handler.decode(array)]


def row_texts(symbols: Sequence[str], columns: Sequence[Sequence[str]]) -> list[str]:
    """The texts of rows, from those of their kinds and columns."""
    return [f"{symbol}[{', '.join(row)}]" for symbol, row in zip(symbols, zip(*columns, strict=True), strict=True)]


def _maps(array: pa.MapArray, key: LogicalType, value: LogicalType) -> list[str]:
    keys, items = java_texts(array.keys, key), java_texts(array.items, value)
    entries = [f"{name}={item}" for name, item in zip(keys, items, strict=True)]
    return [f"{{{', '.join(part)}}}" for part in _parts(array, entries)]


def _parts(array: pa.ListArray, elements: Sequence[str]) -> list[Sequence[str]]:
    offsets = array.offsets.to_pylist()
    return [elements[start:end] for start, end in pairwise(offsets)]


def _as_strings(array: pa.Array) -> list[str]:
    texts: list[str] = pc.replace_substring(array.cast(pa.string()), " ", "T").fill_null("").to_pylist()
    return texts


def _short_time(text: str) -> str:
    """A time with three, six or nine digits of a second, or none, as few as it needs."""
    time, _, fraction = text.partition(".")
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    return f"{time}.{fraction}" if fraction else time


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
