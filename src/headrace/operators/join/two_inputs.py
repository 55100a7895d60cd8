"""Records of two inputs in one form: columns of both, of which those of the other input are null."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.columns import schema_of
from headrace.common.typeinfo import RowTypeInfo, Types
from headrace.operators.base import KeyedBatch
from headrace.operators.join.find_pairs import LEFT
from headrace.operators.join.regular.definition import JoinDefinition

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_TAGS: Final = 2


@dataclass(frozen=True)
class TaggedRows:
    """A common form of the records of two inputs.

    Attributes:
        definition: the join of both.
    """

    definition: JoinDefinition

    @property
    def type(self) -> RowTypeInfo:
        """The type: whether a record is of the left input, whether its key can match, and the columns of both."""
        pairs = self.definition.pair_type
        types = (Types.BOOLEAN(), Types.BOOLEAN(), *pairs.field_types)
        return RowTypeInfo(types, ("$is_left", "$may_match", *pairs.field_names))

    def tagged(self, side: int, batch: KeyedBatch) -> KeyedBatch:
        """The records of one input in this form."""
        schema, own = schema_of(self.type), batch.columns.columns
        may_match = self.definition.has_matches(side, batch)
        others = [pa.nulls(len(batch), field.type) for field in self._columns(schema, 1 - side)]
        columns = own + others if side == LEFT else others + own
        tags = [pa.array(np.full(len(batch), side == LEFT)), pa.array(may_match)]
        made = pa.RecordBatch.from_arrays([*tags, *columns], schema=schema)
        plain = Batch(self.type, batch.timestamps, batch.watermarks, columns=made, ordinals=batch.ordinals)
        return KeyedBatch.of(plain, batch.keys)

    def sides(self, rows: pa.RecordBatch) -> tuple[Mask, Mask, tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Which rows are of the left input, which can match, and the columns of each input, over all rows."""
        is_left, may_match = (np.asarray(rows.column(place)) for place in range(_TAGS))
        width = len(self.definition.input_types[LEFT].field_types)
        columns = rows.columns[_TAGS:]
        left, right = (
            pa.RecordBatch.from_arrays(part, schema=schema_of(type_))
            for part, type_ in zip((columns[:width], columns[width:]), self.definition.input_types, strict=True)
        )
        return is_left, may_match, (left, right)

    def _columns(self, schema: pa.Schema, side: int) -> list[pa.Field]:
        width = len(self.definition.input_types[LEFT].field_types)
        return list(schema)[_TAGS : _TAGS + width] if side == LEFT else list(schema)[_TAGS + width :]
