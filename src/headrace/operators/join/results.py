"""The kinds of joins, and their results: from pairs, by expressions over columns, or by a ``ProcessJoinFunction``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.batch import Batch
from headrace.common.columns import array_to_values, layout_of
from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import refused
from headrace.common.other_names import names_explained
from headrace.common.typeinfo import TupleTypeInfo, TypeInformation, Types
from headrace.expressions import Bound
from headrace.operators.base import KeyedBatch, OperatorContext, Output
from headrace.operators.collector import RowCollector
from headrace.operators.functions import OTHER_NAMES_FOR_EMITTING, results_made_by
from headrace.operators.join.find_pairs import LEFT, RIGHT, Pairs
from headrace.operators.stateless import computed
from headrace.operators.user_code import user_error
from headrace.operators.waiting import TakenBatches
from headrace.state.keys import KeyColumn

Mask = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Outer:
    """The outer sides of a join, whose records are emitted without a match as well.

    Attributes:
        left: whether the left stream is one.
        right: whether the right stream is one.
    """

    left: bool
    right: bool


INNER: Final = Outer(left=False, right=False)
"""Neither side is outer."""

NO_MATCH: Final = -1
"""The position of a missing match."""


class JoinType(Enum):
    """The kinds of joins; a cross join is an inner one whose condition is true."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"

    @property
    def outer(self) -> Outer:
        """The outer sides, whose rows are emitted with NULLs if they have no match."""
        return Outer(left=self.right_is_optional, right=self.left_is_optional)

    @property
    def left_is_optional(self) -> bool:
        """Return whether columns of the left input are NULL without a match."""
        return self in (JoinType.RIGHT, JoinType.FULL)

    @property
    def right_is_optional(self) -> bool:
        """Return whether columns of the right input are NULL without a match."""
        return self in (JoinType.LEFT, JoinType.FULL)

    @property
    def gives_left_rows(self) -> bool:
        """Return whether results are rows of the left input, not pairs."""
        return self in (JoinType.SEMI, JoinType.ANTI)


def tagged_type(left: TypeInformation, right: TypeInformation) -> TypeInformation:
    """Tuples of whether it is a record of the left input, that record, and that of the right one; one is None."""
    return Types.TUPLE([Types.BOOLEAN(), left, right])


def tagged_types(type_: TypeInformation) -> tuple[TypeInformation, TypeInformation]:
    """The types of the records of both inputs, given the type of tagged ones."""
    assert isinstance(type_, TupleTypeInfo), "tagged records are tuples"
    _, left, right = type_.types
    return left, right


def pair_type(left: TypeInformation, right: TypeInformation) -> TypeInformation:
    """Rows of a record of the left input and one of the right input; in an outer join one may be None."""
    return Types.ROW_NAMED(["left", "right"], [left, right])


def tagged(taken: TakenBatches[KeyedBatch], type_: TypeInformation) -> KeyedBatch:
    """Records of both inputs, of which there is at least one, in the order in which they came; column by column."""
    schema, batches = layout_of(type_).schema, taken.batches
    is_left = taken.sides == LEFT
    left, right = (
        _placed(taken.of(side), taken.sides == side, schema[column].type) for side, column in ((LEFT, 1), (RIGHT, 2))
    )
    columns = pa.RecordBatch.from_arrays([pa.array(is_left), left, right], schema=schema)
    ordinals = [batch.ordinals for batch in batches if batch.ordinals is not None]
    known = np.concatenate(ordinals) if len(ordinals) == len(batches) else None
    made = Batch(type_, taken.timestamps, taken.watermarks, columns=columns, ordinals=known)
    return KeyedBatch.of(made, KeyColumn.concat([batch.keys for batch in batches]))


def _placed(records: KeyedBatch | None, is_own: Mask, type_: pa.DataType) -> pa.Array:
    """The records of one input at their places, nulls at the others."""
    if records is None:
        return pa.nulls(len(is_own), type_)
    if len(records) == len(is_own):
        return records.as_array()
    return records.as_array().take(pa.array(np.cumsum(is_own) - 1, mask=~is_own))


def untagged(records: pa.Array) -> tuple[Mask, pa.Array, pa.Array]:
    """Of tagged records as one column: which are of the left input, the left records and the right ones."""
    tags, left, right = (pc.struct_field(records, [field]) for field in range(3))
    return tags.to_numpy(zero_copy_only=False), left, right


class ColumnResults:
    """A row of expressions for each pair.

    Attributes:
        function: there is none.

    Args:
        columns: an expression over the pair for each field.
        input_types: the types of both inputs.
        output_type: the type of the rows.
    """

    function: Any = None
    maker: Callable[..., Any] | None = None

    def __init__(
        self, columns: Sequence[Bound], input_types: Sequence[TypeInformation], output_type: TypeInformation
    ) -> None:
        self._columns = columns
        self._pair_type = pair_type(*input_types)
        self._output_type = output_type

    def emit(self, pairs: Pairs, context: OperatorContext, output: Output) -> None:
        """Computes the expressions."""
        schema = layout_of(self._pair_type).schema
        records = pa.RecordBatch.from_arrays([pairs.left, pairs.right], schema=schema)
        batch = Batch(self._pair_type, pairs.times, pairs.watermarks, columns=records)
        made = computed(self._columns, batch, context)
        columns = pa.RecordBatch.from_arrays(made, schema=layout_of(self._output_type).schema)
        output.emit(batch.replaced(self._output_type, columns=columns))


@names_explained("ProcessJoinFunction.Context", OTHER_NAMES_FOR_EMITTING)
class JoinContext:
    """The context of ``process_element``, about the pair at hand; the same object for all calls."""

    __slots__ = ("_left_timestamp", "_right_timestamp", "_timestamp")

    def __init__(self) -> None:
        self._left_timestamp = self._right_timestamp = self._timestamp = 0

    def get_left_timestamp(self) -> int:
        """The event time of the left record, in milliseconds.

        Raises:
            InvalidProgramError: when there is no such record, in an outer join.
        """
        return _time_of(self._left_timestamp, "left")

    def get_right_timestamp(self) -> int:
        """The event time of the right record, in milliseconds.

        Raises:
            InvalidProgramError: as :meth:`get_left_timestamp`.
        """
        return _time_of(self._right_timestamp, "right")

    def get_timestamp(self) -> int:
        """The event time of the result: the later one of both; of an unmatched record that until which it was kept."""
        return self._timestamp


def _time_of(timestamp: int, side: str) -> int:
    if timestamp == NO_TIMESTAMP:
        raise refused(f"there is no {side} record, so it has no timestamp: look whether it is None first")
    return timestamp


class FunctionResults:
    """Calls a ``ProcessJoinFunction`` for each pair.

    Args:
        function: the function.
        input_types: the types of both inputs.
        output_type: the type of what it yields.
        side_types: the types of the side outputs that are read, by tag id.
    """

    def __init__(
        self,
        function: Any,
        input_types: Sequence[TypeInformation],
        output_type: TypeInformation,
        side_types: Mapping[str, TypeInformation],
    ) -> None:
        self.function = function
        self._left_type, self._right_type = input_types
        self._collector = RowCollector(output_type, side_types)
        self._context = JoinContext()

    @property
    def maker(self) -> Callable[..., Any] | None:
        """The method that is called."""
        return results_made_by(self.function, "process_element")

    def emit(self, pairs: Pairs, context: OperatorContext, output: Output) -> None:
        """Calls the function for each pair, in order."""
        argument, collect, process = self._context, self._collector.collect, self.function.process_element
        lefts = array_to_values(self._left_type, pairs.left)
        rights = array_to_values(self._right_type, pairs.right)
        stamps = (pairs.left_times, pairs.right_times, pairs.times, pairs.watermarks)
        times = zip(*(column.tolist() for column in stamps), strict=True)
        pair = None
        try:
            for *pair, (left_time, right_time, time, watermark) in zip(lefts, rights, times, strict=True):
                argument._left_timestamp, argument._right_timestamp, argument._timestamp = left_time, right_time, time
                collect(process(*pair, argument), time, watermark)
        except BaseException as error:
            record = None if pair is None else tuple(pair)
            raise user_error(error, context, record, function=self.maker) from error
        self._collector.flush(output, context)


class JoinResults(Protocol):
    """The results of pairs."""

    @property
    def function(self) -> Any:
        """The user's function; None if there is none."""

    @property
    def maker(self) -> Callable[..., Any] | None:
        """The method of the user whose results are emitted."""

    def emit(self, pairs: Pairs, context: OperatorContext, output: Output) -> None:
        """Emits the results of pairs."""
