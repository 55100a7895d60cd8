"""Records of two inputs as records of one type: one of either, with a tag that says of which; or one of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.typeinfo import Types
from headrace.operators.join.interval import LEFT
from headrace.operators.keyed import KeyedBatch

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.common.typeinfo import TypeInformation

    Mask = npt.NDArray[np.bool_]


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


def pair_type(left: TypeInformation, right: TypeInformation) -> TypeInformation:
    """Rows of a record of the left input and one of the right input; in an outer join one may be None."""
    return Types.ROW_NAMED(["left", "right"], [left, right])


def tagged(input_index: int, batch: KeyedBatch, type_: TypeInformation) -> KeyedBatch:
    """The records of one input, column by column."""
    schema, is_left = layout_of(type_).schema, input_index == LEFT
    records, nothing = batch.as_array(), pa.nulls(len(batch), schema[2 if is_left else 1].type)
    tags = pa.array(np.full(len(batch), is_left))
    columns = pa.RecordBatch.from_arrays(
        [tags, *((records, nothing) if is_left else (nothing, records))], schema=schema
    )
    made = Batch(type_, batch.timestamps, batch.watermarks, columns=columns, ordinals=batch.ordinals)
    return KeyedBatch.of(made, batch.keys)


def untagged(records: pa.Array) -> tuple[Mask, pa.Array, pa.Array]:
    """Of tagged records as one column: which are of the left input, the left records and the right ones."""
    tags, left, right = (pc.struct_field(records, [field]) for field in range(3))
    return tags.to_numpy(zero_copy_only=False), left, right
