"""Records of two inputs as records of one type, tagged with their input; and in the order of the log of a join."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.typeinfo import TupleTypeInfo, Types
from headrace.operators.base import KeyedBatch
from headrace.operators.join.find_pairs import LEFT, RIGHT
from headrace.state.keys import KeyColumn

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.waiting_batches import TakenBatches

    Mask = npt.NDArray[np.bool_]
    Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Outer:
    """Of which streams records without a partner are shown as well.

    Attributes:
        left: whether those of the left stream are.
        right: whether those of the right stream are.
    """

    left: bool
    right: bool


INNER: Final = Outer(left=False, right=False)
"""Of none."""


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
