"""The definition of a join: its kind, its inputs, how their rows are stored, its output, and when two rows match."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import gather
from headrace.common.batch import Batch, Kinds
from headrace.common.typeinfo.composite import schema_of
from headrace.operators.join.find_pairs import LEFT, RIGHT
from headrace.operators.join.results import NO_MATCH, JoinType
from headrace.operators.stateless import computed, user_code_of

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.expressions import Bound
    from headrace.operators.base import OperatorContext, UserCode

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Rows(Protocol):
    """Columns of rows by their positions."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""

    def column(self, index: int) -> pa.Array:
        """One column."""


class Uniqueness(Enum):
    """The uniqueness of an input's rows with one join key."""

    ONE_ROW = "one row"
    """At most one row: the join key contains a unique key."""
    UNIQUE_KEY = "unique key"
    """Rows differ in the columns of a unique key."""
    NONE = "none"
    """Rows may be equal."""


@dataclass(frozen=True, slots=True)
class SideState:
    """The layout in which the rows of one input are stored.

    Attributes:
        uniqueness: the uniqueness of rows with one join key.
        unique_key: the positions of the columns of the unique key.
        ttl: the time to live of a row after it was last written, in milliseconds of processing time; 0 for ever.
    """

    uniqueness: Uniqueness = Uniqueness.NONE
    unique_key: tuple[int, ...] = ()
    ttl: int = 0


@dataclass(frozen=True)
class JoinDefinition:
    """The definition of a join.

    Attributes:
        join_type: the kind of join.
        input_types: the types of both inputs.
        pair_type: the type of a row with the columns of both.
        output_type: the type of the emitted rows.
        condition: the condition on pairs besides equal keys; None for no condition.
        strict_keys: for each input, the key columns that are compared by ``=``, so that NULL matches nothing.
    """

    join_type: JoinType
    input_types: tuple[TypeInformation, TypeInformation]
    pair_type: TypeInformation
    output_type: TypeInformation
    condition: Bound | None
    strict_keys: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        """The callers of user functions in the condition."""
        return user_code_of((self.condition,))

    def has_matches(self, side: int, rows: Rows) -> Mask:
        """True for each row of an input whose key can match: no strict key column is NULL."""
        found = np.ones(rows.num_rows, np.bool_)
        for index in self.strict_keys[side]:
            column = rows.column(index)
            if column.null_count:
                found &= np.asarray(pc.is_valid(column))
        return found

    def results(
        self,
        lefts: Longs,
        rights: Longs,
        sides: tuple[pa.RecordBatch, pa.RecordBatch],
        times: tuple[Longs, Longs],
        kinds: Kinds | None = None,
    ) -> Batch:
        """The rows to emit.

        Args:
            lefts: the row of the left input in each; ``NO_MATCH`` for a missing partner.
            rights: the row of the right input.
            sides: the rows of both inputs.
            times: the timestamps and the watermarks.
            kinds: the row kinds; None for insertions.
        """
        columns = rows_at(sides[LEFT], lefts)
        if not self.join_type.gives_left_rows:
            columns += rows_at(sides[RIGHT], rights)
        made = pa.RecordBatch.from_arrays(columns, schema=schema_of(self.output_type))
        return Batch(self.output_type, *times, columns=made, kinds=kinds)


def rows_at(rows: pa.RecordBatch, places: Longs) -> list[pa.Array]:
    """The columns of rows by their positions, with NULL for ``NO_MATCH``."""
    is_missing = places == NO_MATCH
    if not is_missing.any():
        return [gather(column, places) for column in rows.columns]
    indices = pa.array(places, mask=is_missing)
    return [column.take(indices) for column in rows.columns]


class JoinCondition:
    """The condition on pairs besides equal keys.

    Args:
        definition: the join.
        context: the operator.
    """

    def __init__(self, definition: JoinDefinition, context: OperatorContext) -> None:
        self._condition, self._type, self._context = definition.condition, definition.pair_type, context

    @property
    def is_always_true(self) -> bool:
        """Return whether there is no condition."""
        return self._condition is None

    def filtered(
        self, sides: tuple[pa.RecordBatch, pa.RecordBatch], lefts: Longs, rights: Longs
    ) -> tuple[Longs, Longs]:
        """The pairs of rows for which it is true."""
        if self.is_always_true or not len(lefts):
            return lefts, rights
        found = self.holds(*sides, lefts, rights)
        return lefts[found], rights[found]

    def holds(self, left: pa.RecordBatch, right: pa.RecordBatch, lefts: Longs, rights: Longs) -> Mask:
        """True for each pair of rows that meets it."""
        assert self._condition is not None, "a join without a condition has no pairs to check"
        columns = [gather(column, lefts) for column in left.columns]
        columns += [gather(column, rights) for column in right.columns]
        zeros = np.zeros(len(lefts), np.int64)
        pairs = pa.RecordBatch.from_arrays(columns, schema=schema_of(self._type))
        found = computed((self._condition,), Batch(self._type, zeros, zeros, columns=pairs), self._context)[0]
        return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)
