"""Collects what a user function yields row by row, emits it as batches, and records which function made each row."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, NoReturn

import numpy as np

from headrace.common.batch import Batch, RecordOrigin
from headrace.common.errors import InvalidTypeError
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import TypeInformation
from headrace.common.types import Row
from headrace.operators.base import OperatorContext, Output
from headrace.operators.user_code import NO_RECORD, note_returned, user_error
from headrace.state.copying import copy_value

Maker = Callable[..., Any]
"""A function of the user that makes records."""

Marks = list[tuple[int, Maker]]
"""Of rows that several functions have made: where those of one begin, and which function it is."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordOrigins:
    """The functions that have made the records of a batch; looked up only when a record does not fit.

    Attributes:
        rows: the records.
        maker_at: returns the maker of the record at a place.
    """

    rows: Sequence[Any]
    maker_at: Callable[[int], Maker]

    def of(self, record: object) -> Maker | None:
        """The maker of a record; where several have made the very same object, the first of them."""
        return next((self.maker_at(place) for place, row in enumerate(self.rows) if row is record), None)


@dataclass(frozen=True, slots=True)
class OperatorRecordOrigin:
    """Tells the error about a record of the operator, and of the function, that made it.

    Attributes:
        context: the operator.
        function: the function, where all records are results of one.
        side_output: the side output that they were emitted to, if it is one.
        makers: the functions, where there are several; one entry for each batch that was emitted.
    """

    context: OperatorContext
    function: Maker | None = None
    side_output: str | None = None
    makers: tuple[RecordOrigins, ...] = ()

    def __call__(self, error: InvalidTypeError) -> BaseException:
        """The error to raise."""
        record = getattr(error, "record", NO_RECORD)
        function = self.function or next((found for makers in self.makers if (found := makers.of(record))), None)
        return user_error(error, self.context, function=function, side_output=self.side_output)

    def joined(self, others: Sequence[RecordOrigin | None]) -> "OperatorRecordOrigin | None":
        """The makers of records of several batches; None where not all are of the same output."""
        makers = [self.makers]
        for other in others:
            if not isinstance(other, OperatorRecordOrigin) or not self._is_of_same_output(other):
                return None
            makers.append(other.makers)
        known = tuple(dict.fromkeys(chain.from_iterable(makers)))  # slices of a batch have the same
        return self if known == self.makers else replace(self, makers=known)

    def _is_of_same_output(self, other: "OperatorRecordOrigin") -> bool:
        same_output = self.context is other.context and self.side_output == other.side_output
        return same_output and self.function is other.function


ONE_RECORD: Final = frozenset({str, bytes, bytearray, Row})
"""Types that can be iterated over, and that are one record all the same where a function returns one for its
results."""


def refuse_one_record(returned: object) -> NoReturn:
    """Refuse what a function has returned for all of its results: it would be emitted letter by letter, or by field."""
    parts = "fields" if isinstance(returned, Row) else "characters" if isinstance(returned, str) else "bytes"
    raise InvalidTypeError(
        f"a {type(returned).__name__} was returned for the results, and its {parts} are none: yield it, or return a "
        "list of records"
    )


def results_of(returned: Any, function: Any) -> Iterable[Any]:
    """The results that a function has returned all together, which are iterated over one by one.

    Raises:
        TypeError: when there is nothing to take; it is noted whose result that is.
    """
    if returned is None:
        return ()
    try:
        if type(returned) in ONE_RECORD:
            refuse_one_record(returned)
        results: Iterable[Any] = iter(returned)
    except TypeError as error:
        note_returned(error, function)
        raise
    return results


def _apart(side_rows: list[Any], rows: list[Any], context: OperatorContext) -> list[Any]:
    """The records of a side output; one that is in the main output, too, is copied: functions may change it there.

    Raises:
        FunctionRefusedError: when such a record cannot be copied; it names the operator and the record.
    """
    shared = set(map(id, rows))
    return [_copied(row, context) if id(row) in shared else row for row in side_rows]


def _copied(row: object, context: OperatorContext) -> Any:
    try:
        return copy_value(row)
    except Exception as error:
        refusal = InvalidTypeError(
            "a record was emitted to the main output and to a side output, so each gets a copy, and it cannot be "
            f"copied: {error}; make one for each"
        )
        raise user_error(refusal, context, row) from error


def _blamed(batch: Batch, makers: RecordOrigins | None, context: OperatorContext, tag_id: str | None = None) -> Batch:
    """A batch with the makers of its rows, where they are marked."""
    if makers is not None:
        batch.blame = OperatorRecordOrigin(context, side_output=tag_id, makers=(makers,))
    return batch


def _marked(rows: list[Any], marks: Marks) -> RecordOrigins | None:
    if not marks:
        return None
    return RecordOrigins(rows, lambda place: marks[bisect_right(marks, place, key=lambda known: known[0]) - 1][1])


class RowCollector:
    """Rows of the main output and of the side outputs, each with timestamp and output watermark.

    Args:
        output_type: the type of the main output.
        side_types: the types of the side outputs that are read, by tag id; what goes to others is dropped, as in Flink.

    Attributes:
        marks: said by an operator that calls several functions: where the rows of one begin, and which it is. It says
            so for the first row after each flush as well.
    """

    __slots__ = ("_output_type", "_side_types", "_sides", "marks", "rows", "timestamps", "watermarks")

    def __init__(self, output_type: TypeInformation, side_types: Mapping[str, TypeInformation]) -> None:
        self._output_type = output_type
        self._side_types = side_types
        self._sides: dict[str, tuple[list[Any], list[int], list[int], Marks]] = {}
        self.marks: Marks = []
        self.rows: list[Any] = []
        self.timestamps: list[int] = []
        self.watermarks: list[int] = []

    def collect(self, results: Iterable[object] | None, timestamp: int, watermark: int) -> None:
        """Take everything that a call of a user function yielded."""
        if results is None:
            return
        if type(results) in ONE_RECORD:
            refuse_one_record(results)
        for result in results:
            if type(result) is tuple and len(result) == 2 and type(result[0]) is OutputTag:
                self.collect_side(result[0], result[1], timestamp, watermark)
            else:
                self.rows.append(result)
                self.timestamps.append(timestamp)
                self.watermarks.append(watermark)

    def collect_changed(
        self, results: Iterable[object] | None, timestamp: int, watermark: int, change: Callable[[list[Any]], list[Any]]
    ) -> None:
        """The same, but what is for the main output is what ``change`` makes of all that was yielded for it."""
        start = len(self.rows)
        self.collect(results, timestamp, watermark)
        changed = change(self.rows[start:])
        self.rows[start:] = changed
        self.timestamps[start:] = [timestamp] * len(changed)
        self.watermarks[start:] = [watermark] * len(changed)

    def flush(self, output: Output, context: OperatorContext) -> None:
        """Hand everything on that an operator has made; errors as of :func:`_apart`."""
        sides = {tag_id: (_apart(side[0], self.rows, context), *side[1:]) for tag_id, side in self._sides.items()}
        made = self.rows[:]
        makers = _marked(made, self.marks)
        self._sides, self.marks = {}, []
        if made:
            batch = Batch.of_rows(self._output_type, made, self.timestamps, self.watermarks)
            # Emptied in place: an operator may hold on to the lists.
            self.rows.clear()
            self.timestamps.clear()
            self.watermarks.clear()
            output.emit(_blamed(batch, makers, context))
        for tag_id, (rows, timestamps, watermarks, marks) in sides.items():
            batch = Batch.of_rows(self._side_types[tag_id], rows, timestamps, watermarks)
            output.emit_side(tag_id, _blamed(batch, _marked(rows, marks), context, tag_id))

    def collect_side(self, tag: OutputTag, value: object, timestamp: int, watermark: int) -> None:
        """Take one record for a side output."""
        if tag.tag_id not in self._side_types:
            return
        rows, timestamps, watermarks, marks = self._sides.setdefault(tag.tag_id, ([], [], [], []))
        if self.marks and (not marks or marks[-1][1] is not self.marks[-1][1]):
            marks.append((len(rows), self.marks[-1][1]))
        rows.append(value)
        timestamps.append(timestamp)
        watermarks.append(watermark)


class ElementCollector:
    """Rows of the main output and of the side outputs, each with the element that it was made of.

    Args:
        output_type: the type of the main output.
        side_types: the types of the side outputs that are read, by tag id; what goes to others is dropped, as in Flink.
    """

    __slots__ = ("_output_type", "_rows", "_side_types", "_sides", "_sources")

    def __init__(self, output_type: TypeInformation, side_types: Mapping[str, TypeInformation]) -> None:
        self._output_type = output_type
        self._side_types = side_types
        self._begin()

    def collect(self, results: Iterable[object] | None, element: int) -> None:
        """Take everything that a call of a user function yielded for the element with this index in its batch."""
        if results is None:
            return
        if type(results) in ONE_RECORD:
            refuse_one_record(results)
        for result in results:
            if type(result) is tuple and len(result) == 2 and type(result[0]) is OutputTag:
                rows, sources = self._sides.setdefault(result[0].tag_id, ([], []))
                rows.append(result[1])
                sources.append(element)
            else:
                self._rows.append(result)
                self._sources.append(element)

    def flush(
        self, batch: Batch, output: Output, context: OperatorContext, maker_of: Callable[[int], Maker] | None = None
    ) -> None:
        """Hand everything on that an operator has made of ``batch``; errors as of :func:`_apart`.

        Args:
            batch: the elements.
            output: takes it.
            context: the operator.
            maker_of: which function was called for an element, where the operator calls several.
        """
        rows, sources, sides = self._rows, self._sources, self._sides
        self._begin()
        sides = {
            tag_id: (_apart(side[0], rows, context), side[1])
            for tag_id, side in sides.items()
            if tag_id in self._side_types
        }
        if rows:
            made = batch.replaced(self._output_type, rows=rows, sources=np.asarray(sources))
            output.emit(_blamed(made, _of_elements(rows, sources, maker_of), context))
        for tag_id, (side_rows, side_sources) in sides.items():
            made = batch.replaced(self._side_types[tag_id], rows=side_rows, sources=np.asarray(side_sources))
            makers = _of_elements(side_rows, side_sources, maker_of)
            output.emit_side(tag_id, _blamed(made, makers, context, tag_id))

    def _begin(self) -> None:
        self._rows: list[Any] = []
        self._sources: list[int] = []
        self._sides: dict[str, tuple[list[Any], list[int]]] = {}


def _of_elements(
    rows: list[Any], sources: Sequence[int], maker_of: Callable[[int], Maker] | None
) -> RecordOrigins | None:
    """The makers of rows, given the elements that the rows were made of."""
    return None if maker_of is None else RecordOrigins(rows, lambda place: maker_of(sources[place]))
