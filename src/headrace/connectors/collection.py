"""``CollectionSource``: elements that travel inside the job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.common.arguments import expect
from headrace.common.columns import layout_of
from headrace.common.errors import InvalidTypeError
from headrace.common.type_variables import T_co
from headrace.common.typeinfo import Types
from headrace.common.value_types import infer_from_values
from headrace.connectors.ranges import RangeEnumerator, runs
from headrace.connectors.source import Boundedness, Source, SourceReader, SourceRecords

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.source import EnumeratorContext, Json, SplitEnumerator

_SPLIT = "collection"


class CollectionSource(Source[T_co]):
    """A bounded source of the given elements, in their order.

    The elements are checked against the type here, once, and are kept as columns when the type has any
    and all rows are insertions (``RowKind``).

    Args:
        elements: the elements; read once, now.
        type_info: their type, or a class or type hint that stands for one; inferred from the elements when left out.

    Raises:
        InvalidTypeError: when an element does not fit the type, or ``elements`` would give characters, keys or names of
            columns.
    """

    def __init__(self, elements: Iterable[Any], type_info: TypeInformation | type | None = None) -> None:
        _check_rows(elements)
        rows = list(elements)
        self._type = infer_from_values(rows) if type_info is None else Types.of(type_info)
        self._count = len(rows)
        self._rows: list[Any] | None = rows
        self._columns: pa.RecordBatch | None = None
        if self._type.arrow_type is not None:
            columns, kinds = layout_of(self._type).rows_to_columns_and_kinds(rows)
            if kinds is None:
                self._columns, self._rows = columns, None

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def produced_type(self) -> TypeInformation[T_co]:
        return self._type

    @property
    def gives_timestamps(self) -> bool:
        return False

    @property
    def reads_in_pieces(self) -> bool:
        return True

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        size = 64 if self._columns is None else self._columns.nbytes // max(self._count, 1) + 1
        return RangeEnumerator(_SPLIT, self._count, size)

    def create_reader(self) -> SourceReader:
        return _CollectionReader(self._rows, self._columns)

    def __repr__(self) -> str:
        return f"CollectionSource({self._count} elements of {self._type})"


def _check_rows(elements: Any) -> None:
    """Refuse what can be iterated, but gives something else than the records that were meant."""
    if isinstance(elements, str | bytes):
        raise InvalidTypeError(f"a collection is a list of elements, not {elements!r}: write [{elements!r}]")
    if isinstance(elements, Mapping):
        raise InvalidTypeError(
            "a collection is a list of elements, and a dict gives its keys only: write list(d.items())"
        )
    if hasattr(elements, "columns"):  # of pandas, Polars, Arrow, Spark
        raise InvalidTypeError(
            f"a collection is a list of elements, and a {type(elements).__name__} gives its columns: write "
            "list(frame.itertuples(index=False, name=None)) of pandas, frame.rows() of Polars, table.to_pylist() of "
            "Arrow, or env.from_dataframe(frame) of Spark"
        )
    expect(elements, Iterable, "from_collection")


class _CollectionReader(SourceReader):
    def __init__(self, rows: list[Any] | None, columns: pa.RecordBatch | None) -> None:
        self._rows = rows
        self._columns = columns

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        for start, end in runs(piece):
            if self._columns is not None:
                yield SourceRecords(columns=self._columns.slice(start, end - start))
            else:
                assert self._rows is not None
                yield SourceRecords(rows=self._rows[start:end])
