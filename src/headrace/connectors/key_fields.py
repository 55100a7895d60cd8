"""Keys of messages that are some fields of their records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.common.errors import InvalidTypeError
from headrace.common.metadata import row_type
from headrace.common.other_names import alike
from headrace.common.serialization import SerializationSchema
from headrace.common.typeinfo import CompositeTypeInfo, Types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation


class KeyFields(SerializationSchema):
    """Writes some fields of records.

    Args:
        fields: their names.
        schema: writes rows of these fields; without one a single field is written as it is, if it is text or bytes.
    """

    def __init__(self, fields: Sequence[str], schema: SerializationSchema | None) -> None:
        self._fields = tuple(fields)
        self._schema = schema

    def serialize(self, element: Any) -> bytes:
        """Not to be called: which fields a record has is known of batches."""
        raise TypeError("keys of some fields are written for batches, not for single records")

    def serialize_batch(self, batch: Batch) -> pa.Array:
        kind = self._key_type(batch.type)
        places = [batch.type.field_names.index(name) for name in self._fields]
        arrays = [batch.columns.column(place) for place in places]
        if self._schema is None:
            return arrays[0].cast(pa.binary())
        columns = pa.RecordBatch.from_arrays(arrays, names=list(self._fields))
        return self._schema.serialize_batch(batch.replaced(kind, columns=columns))

    def validate(self, input_type: TypeInformation) -> None:
        kind = self._key_type(input_type)
        if self._schema is not None:
            self._schema.validate(kind)
        elif list(kind.field_types) not in ([Types.STRING()], [Types.BYTES()]):
            raise InvalidTypeError(
                f"a key is one field of text or bytes, not {kind}: say how it is written, with a schema of the key"
            )

    def _key_type(self, input_type: TypeInformation) -> TypeInformation:
        if not isinstance(input_type, CompositeTypeInfo):
            raise InvalidTypeError(
                f"keys are fields of records, and records are {input_type}: declare a type with fields"
            )
        known = dict(zip(input_type.field_names, input_type.field_types, strict=True))
        for name in self._fields:
            if name not in known:
                told = alike(name, known) or f": there are {', '.join(known)}"
                raise InvalidTypeError(f"records have no field {name!r} for the key{told}")
        return row_type([(name, known[name]) for name in self._fields], "name each field once", changelog=False)
