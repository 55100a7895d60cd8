"""``Batch``: a run of records of one stream, with their timestamps and the watermarks they meet.

A batch has two faces, rows (Python objects) and columns (Arrow), and makes the one from the other only when an
operator reads it; a chain of operators that agree on a face never converts. Rows that a function has made (a tuple
for a row, an integer for a double) are coerced when they are read: a function sees the same records in the
task in which they were made as it would behind a shuffle.

Rows know what they do in a changelog (``RowKind``); columns have an array beside them that says it, or none where all
records are insertions, as nearly all are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.columns import layout_of, values_to_array
from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import TypeInformation
from headrace.common.typeinfo.composite import declares_changes
from headrace.common.types import RowKind, symbols_of

Kinds = npt.NDArray[np.int8]

_TAKE_BACK: Final = (RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value)


def take_back(kinds: Kinds) -> npt.NDArray[np.bool_]:
    """True for each record that retracts a row."""
    return np.isin(kinds, _TAKE_BACK)


T = TypeVar("T")


class Stamps(Protocol):
    """The watermarks that records meet, laid out only when they are read.

    They take a sender that adds up records by column as long as a third of reading them, and what it reads of them as a
    rule is the last one alone.
    """

    @property
    def last(self) -> int:
        """The watermark that the last record meets."""

    @property
    def each(self) -> npt.NDArray[np.int64]:
        """The watermark that each record meets."""


class RecordOrigin(Protocol):
    """Says which operator has made records, for the errors of those that do not fit their type."""

    def __call__(self, error: InvalidTypeError) -> BaseException:
        """The error to raise."""

    def joined(self, others: Sequence[RecordOrigin | None]) -> RecordOrigin | None:
        """Return the origin of these records and of those of other batches; None where they have no common one."""


class Batch:
    """Consecutive records of one stream, immutable.

    Attributes:
        type: the declared type of the records, the same for every batch of a stream.
        timestamps: event time of each record in milliseconds (int64), ``NO_TIMESTAMP`` where there is none.
        ordinals: where a stream branches and its branches meet again, which record of the batch that set out each of
            these comes from (int64, never falling); else None.
        blame: the origin of records, for errors of those that do not fit the type; None where it is not known.

    Args:
        watermarks: see the property.
        rows: the records as Python objects.
        columns: the records as Arrow columns, of which rows are made when there are none.
        kinds: what the records of the columns do in a changelog, as values of ``RowKind`` (int8); None where all are
            insertions, and where the type has a column for it.
    """

    __slots__ = (
        "_are_coerced",
        "_columns",
        "_kinds",
        "_rows",
        "_watermarks",
        "blame",
        "ordinals",
        "timestamps",
        "type",
    )

    def __init__(
        self,
        type_: TypeInformation,
        timestamps: npt.NDArray[np.int64],
        watermarks: npt.NDArray[np.int64] | Stamps,
        *,
        rows: list[Any] | None = None,
        columns: pa.RecordBatch | None = None,
        kinds: Kinds | None = None,
        ordinals: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self.type = type_
        self.timestamps = timestamps
        self._watermarks = watermarks
        self.ordinals = ordinals
        self._rows = rows
        self._columns = columns
        self._kinds = kinds
        self._are_coerced = False  # whether the rows look as those that are made of columns
        self.blame: RecordOrigin | None = None

    @classmethod
    def of_rows(cls, type_: TypeInformation, rows: Sequence[object], timestamps: object, watermarks: object) -> Batch:
        """A batch of Python objects; the two arrays may be any sequence of integers."""
        return cls(
            type_,
            np.asarray(timestamps, dtype=np.int64),
            np.asarray(watermarks, dtype=np.int64),
            rows=rows if isinstance(rows, list) else list(rows),
        )

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def watermarks(self) -> npt.NDArray[np.int64]:
        """The watermark in force when each record is processed (int64, never falling).

        An operator that handles record ``i`` first brings its event time to ``watermarks[i]``.
        """
        watermarks = self._watermarks
        return watermarks if isinstance(watermarks, np.ndarray) else watermarks.each

    @property
    def last_watermark(self) -> int:
        """The watermark that the last record meets, of which there has to be one."""
        watermarks = self._watermarks
        return int(watermarks[-1]) if isinstance(watermarks, np.ndarray) else watermarks.last

    @property
    def is_columnar(self) -> bool:
        """Return whether the columns are there already, so that asking for them costs nothing."""
        return self._columns is not None

    @property
    def has_rows(self) -> bool:
        """Return whether the rows are there already."""
        return self._rows is not None

    @property
    def rows(self) -> list[Any]:
        """The records as Python objects, in the form in which they come back from columns of the declared type.

        Raises:
            InvalidTypeError: when a record does not fit the type, or what ``blame`` makes of it.
        """
        if self._rows is None:
            assert self._columns is not None
            layout = layout_of(self.type)
            if self._kinds is None:
                self._rows = layout.columns_to_rows(self._columns)
            else:
                self._rows = layout.columns_and_kinds_to_rows(self._columns, self._kinds)
        elif not self._are_coerced:
            self._rows = self._converted(layout_of(self.type).coerced_rows, self._rows)
        self._are_coerced = True
        return self._rows

    @property
    def columns(self) -> pa.RecordBatch:
        """The records as Arrow columns under the schema of the declared type.

        Raises:
            InvalidTypeError: when a record does not fit the type, or what ``blame`` makes of it; and when the type has
                no columns (pickled objects).
        """
        if self._columns is None:
            assert self._rows is not None
            if self.type.arrow_type is None:
                raise InvalidTypeError(
                    f"records of type {self.type} have no columns: declare an output type or annotate the function"
                )
            convert = layout_of(self.type).rows_to_columns_and_kinds
            self._columns, self._kinds = self._converted(convert, self._rows)
        return self._columns

    def as_array(self) -> pa.Array:
        """The records as one column, which pickled objects can be as well; kinds are not in it.

        Raises:
            InvalidTypeError: when a record does not fit the type, or what ``blame`` makes of it.
        """
        if self.type.arrow_type is None:
            return values_to_array(self.type, self.rows)
        return layout_of(self.type).columns_to_array(self.columns)

    @property
    def kinds(self) -> Kinds | None:
        """Return what the records do in a changelog, as values of ``RowKind``; None where all are insertions."""
        if self._columns is None:
            assert self._rows is not None
            return layout_of(self.type).kinds_of(self._rows)
        # Asked of every batch that an operator gets which takes insertions alone: finding the layout takes longer.
        return layout_of(self.type).kinds_in(self._columns) if declares_changes(self.type) else self._kinds

    @property
    def row_kinds(self) -> Kinds:
        """Return the kind of each record, also where all are insertions."""
        kinds = self.kinds
        return np.zeros(len(self), np.int8) if kinds is None else kinds

    @property
    def kinds_beside_columns(self) -> Kinds | None:
        """Return the same, but None also where the columns contain it; to be read after the columns."""
        return self._kinds

    def _converted(self, convert: Callable[[list[Any]], T], rows: list[Any]) -> T:
        try:
            return convert(rows)
        except InvalidTypeError as error:
            if self.blame is None:
                raise
            raise self.blame(error) from error

    def made_as(self, other: Batch) -> Self:
        """This batch, whose records are those of ``other``, or some of them, and so have its origin."""
        self._are_coerced = other._are_coerced
        self.blame = other.blame
        return self

    def take(self, indices: npt.NDArray[np.integer[Any]]) -> Batch:
        """The records at ``indices``, in that order."""
        columns, rows, kinds, ordinals = self._columns, self._rows, self._kinds, self.ordinals
        return Batch(
            self.type,
            self.timestamps[indices],
            self.watermarks[indices],
            columns=None if columns is None else columns.take(pa.array(indices)),
            rows=None if rows is None else [rows[i] for i in indices.tolist()],
            kinds=None if kinds is None else _changes(kinds[indices]),
            ordinals=None if ordinals is None else ordinals[indices],
        ).made_as(self)

    def slice(self, start: int, stop: int) -> Batch:
        """The records from ``start`` up to ``stop``."""
        return Batch(
            self.type,
            self.timestamps[start:stop],
            self.watermarks[start:stop],
            columns=None if self._columns is None else self._columns.slice(start, stop - start),
            rows=None if self._rows is None else self._rows[start:stop],
            kinds=None if self._kinds is None else _changes(self._kinds[start:stop]),
            ordinals=None if self.ordinals is None else self.ordinals[start:stop],
        ).made_as(self)

    def filter(self, mask: npt.NDArray[np.bool_]) -> Batch:
        """The records where ``mask`` is true."""
        return self.take(np.flatnonzero(mask))

    def without_rows(self) -> Batch:
        """Return the same records as columns alone, where their type has columns."""
        if self._rows is None or self.type.arrow_type is None:
            return self
        return self.replaced(self.type, columns=self.columns)

    def unshared(self, copy: Callable[[Any], object]) -> Batch:
        """Return the same records for another reader: what functions do to records of one, the other does not see.

        Args:
            copy: copies a record that has no columns.

        Raises:
            InvalidTypeError: when a record does not fit the type, or cannot be copied; or what ``blame`` makes of it.
        """
        if self.type.is_immutable:
            return self
        rows = columns = None
        if self.type.arrow_type is None:
            rows = self._converted(lambda rows: _copies(rows, copy), self.rows)
        else:
            columns = self.columns
        times = self.timestamps, self._watermarks
        found = Batch(self.type, *times, rows=rows, columns=columns, kinds=self._kinds, ordinals=self.ordinals)
        return found.made_as(self)

    def with_times(self, timestamps: npt.NDArray[np.int64], watermarks: npt.NDArray[np.int64] | Stamps) -> Batch:
        """Return the same records under other timestamps and watermarks."""
        return Batch(
            self.type,
            timestamps,
            watermarks,
            rows=self._rows,
            columns=self._columns,
            kinds=self._kinds,
            ordinals=self.ordinals,
        ).made_as(self)

    def with_timestamps(self, timestamps: npt.NDArray[np.int64]) -> Batch:
        """Return the same records under other timestamps."""
        return self.with_times(timestamps, self._watermarks)

    def with_watermarks(self, watermarks: npt.NDArray[np.int64]) -> Batch:
        """Return the same records meeting other watermarks."""
        return self.with_times(self.timestamps, watermarks)

    def with_ordinals(self, ordinals: npt.NDArray[np.int64]) -> Batch:
        """Return the same records, which set out anew."""
        found = Batch.with_times(self, self.timestamps, self._watermarks)
        found.ordinals = ordinals
        return found

    def replaced(
        self,
        type_: TypeInformation,
        *,
        rows: list[Any] | None = None,
        columns: pa.RecordBatch | None = None,
        sources: npt.NDArray[np.integer[Any]] | None = None,
    ) -> Batch:
        """Return what a function has made of these records, each under the times of the record that it comes from.

        Rows say for themselves what they do in a changelog; columns do what the records do that they come from.

        Args:
            type_: the type of what it made.
            rows: what it made, as Python objects.
            columns: what it made, as columns.
            sources: for each of them, the index of the record that it comes from; None where they correspond.

        Raises:
            InvalidTypeError: when columns are made of changes, and are no rows, which alone can be changes.
        """
        timestamps, watermarks, ordinals = self.timestamps, self.watermarks, self.ordinals
        kinds = None if columns is None else self._kinds_as(type_)
        if sources is not None:
            timestamps, watermarks = timestamps[sources], watermarks[sources]
            ordinals = None if ordinals is None else ordinals[sources]
            kinds = None if kinds is None else _changes(kinds[sources])
        return Batch(type_, timestamps, watermarks, rows=rows, columns=columns, kinds=kinds, ordinals=ordinals)

    def _kinds_as(self, type_: TypeInformation) -> Kinds | None:
        """The kinds of the records for columns of some type, without such a column of its own."""
        layout = layout_of(type_)
        if layout.keeps_kinds:
            return self.kinds
        if self._kinds is not None and not layout.has_kind_column:
            raise InvalidTypeError(
                f"some records are changes ({symbols_of(self._kinds)}), which only rows can be, and not {type_}: give "
                "rows, or use map(...) with a function that looks at row.get_row_kind()"
            )
        return None


def _copies(rows: list[Any], copy: Callable[[Any], object]) -> list[Any]:
    try:
        return [copy(row) for row in rows]
    except Exception as error:
        text = f"several operators read a record, so each gets a copy, and it cannot be copied: {error}"
        raise InvalidTypeError(text) from error


def _changes(kinds: Kinds) -> Kinds | None:
    """The kinds where some records are no insertions, else None."""
    return kinds if kinds.any() else None


def concat(batches: Sequence[Batch]) -> Batch:
    """The records of several batches of one stream, one after the other."""
    if len(batches) == 1:
        return batches[0]
    first = batches[0]
    blame = None if first.blame is None else first.blame.joined([batch.blame for batch in batches[1:]])
    timestamps = np.concatenate([batch.timestamps for batch in batches])
    watermarks = np.concatenate([batch.watermarks for batch in batches])
    ordinals = _joined([batch.ordinals for batch in batches])
    columns = rows = None
    if all(batch.is_columnar for batch in batches):
        columns = pa.concat_batches([batch.columns for batch in batches])
    if columns is None or any(batch.has_rows for batch in batches):
        # What one operator made is not coerced here, unless it is already: what is sent has no need of it.
        as_they_are = blame is not None or all(batch.blame is None for batch in batches)
        rows = [row for batch in batches for row in (batch._rows if as_they_are and batch._rows else batch.rows)]
    kinds = None if columns is None else joined_kinds([(len(batch), batch.kinds_beside_columns) for batch in batches])
    joined = Batch(first.type, timestamps, watermarks, rows=rows, columns=columns, kinds=kinds, ordinals=ordinals)
    joined._are_coerced = all(batch._are_coerced for batch in batches)
    joined.blame = blame
    return joined


def _joined(ordinals: Sequence[npt.NDArray[np.int64] | None]) -> npt.NDArray[np.int64] | None:
    known = [found for found in ordinals if found is not None]
    return np.concatenate(known) if len(known) == len(ordinals) else None


def joined_kinds(parts: Sequence[tuple[int, Kinds | None]]) -> Kinds | None:
    """The kinds of several runs of records, of each its length and its kinds; None where all are insertions."""
    if all(kinds is None for _, kinds in parts):
        return None
    return _changes(np.concatenate([np.zeros(length, np.int8) if kinds is None else kinds for length, kinds in parts]))
