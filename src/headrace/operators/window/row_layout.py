"""What a window with functions of the user consists of; put together when the job is planned."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.common.errors import InvalidProgramError
from headrace.common.typeinfo import Types
from headrace.operators.window.folds import AggregateFold, Fold, ReduceFold
from headrace.operators.window.window_functions import window_call

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.window.window_functions import WindowCall
    from headrace.state.keys import KeyCodec
    from headrace.windowing.intervals import AlignedWindows


@dataclass(frozen=True)
class RowWindowLayout:
    """Functions of the user over aligned windows of event time.

    Attributes:
        assigner: puts records into windows.
        codec: how keys are stored.
        input_type: the type of the elements.
        output_type: the type of what is emitted.
        reduce_function: folds two elements into one, if the window is reduced.
        aggregate_function: an ``AggregateFunction``, if the window is aggregated.
        window_function: a ``WindowFunction`` or ``ProcessWindowFunction`` over the contents, if there is one.
        accumulator_type: the type of the accumulators of ``aggregate_function``; None pickles them.
        lateness: how long after its end a window still takes records, in milliseconds.
        late_tag: the id of the side output for records that come too late; without one they are dropped and counted.
        side_types: the types of the side outputs that the window function writes, by tag id.
    """

    assigner: AlignedWindows
    codec: KeyCodec
    input_type: TypeInformation
    output_type: TypeInformation
    reduce_function: Any = None
    aggregate_function: Any = None
    window_function: Any = None
    accumulator_type: TypeInformation | None = None
    lateness: int = 0
    late_tag: str | None = None
    side_types: Mapping[str, TypeInformation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = (self.reduce_function, self.aggregate_function, self.window_function)
        if all(function is None for function in given):
            raise InvalidProgramError("a window needs a function: reduce, aggregate, apply or process")
        if self.reduce_function is not None and self.aggregate_function is not None:
            raise InvalidProgramError("a window is either reduced or aggregated, not both")

    def new_fold(self) -> Fold | None:
        """Folds elements into one value a key and window; None keeps all elements."""
        if self.reduce_function is not None:
            return ReduceFold(self.reduce_function, self.input_type)
        return None if self.aggregate_function is None else AggregateFold(self.aggregate_function, self.contents_type)

    def new_call(self) -> WindowCall:
        """Calls the window function."""
        return window_call(self.window_function)

    @property
    def contents_type(self) -> TypeInformation:
        """The type of what is kept: of elements, or of folded values."""
        if self.aggregate_function is None:
            return self.input_type
        return self.accumulator_type or Types.PICKLED_BYTE_ARRAY()

    @cached_property
    def state_schema(self) -> pa.Schema:
        """The columns of contents in state."""
        types = {"window_end": pa.int64(), "hash": pa.uint64(), "key": self.codec.arrow_type}
        return pa.schema({**types, "value": self.contents_type.storage_type})
