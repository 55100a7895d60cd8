"""Writing changes as messages of JSON, in the formats of those who watch databases.

As in Flink, each row is a message of its own: what was before an update is written as a deletion, and what is after it
as an insertion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.constants import MIN_WATERMARK, NO_TIMESTAMP
from headrace.common.row import RowKind
from headrace.common.serialization import SerializationSchema
from headrace.common.typeinfo import RowTypeInfo, TypeInformation
from headrace.formats.cdc.images import changelog_type
from headrace.formats.columnar_messages import columns_as, refuse_other_fields
from headrace.formats.encoders import join_text
from headrace.formats.json.writer import json_texts

if TYPE_CHECKING:
    import numpy.typing as npt

_REMOVED = (RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value)


def are_removed(batch: Batch) -> npt.NDArray[np.bool_]:
    """Which records are rows that are not there any more."""
    kinds = batch.kinds
    return np.zeros(len(batch), np.bool_) if kinds is None else np.isin(kinds, _REMOVED)


def one_row(kind: TypeInformation, element: Any) -> Batch:
    """A batch of one record."""
    return Batch.of_rows(kind, [element], [NO_TIMESTAMP], [MIN_WATERMARK])


class ChangesSerializationSchema(SerializationSchema):
    """Writes rows of any kind, each with what it does.

    Args:
        type_info: the type of the rows.
    """

    takes_changes = True

    templates: ClassVar[tuple[str, str]]
    """The message of a row that is there from now on, and of one that is not there any more; ``%`` is the row."""

    def __init__(self, type_info: TypeInformation) -> None:
        changes = changelog_type(type_info)
        self._type = RowTypeInfo(changes.types, changes.names)

    def serialize(self, element: Any) -> bytes:
        """The message of one row."""
        written: bytes = self.serialize_batch(one_row(self._type, element))[0].as_py()
        return written

    def serialize_batch(self, batch: Batch) -> pa.Array:
        rows = json_texts(columns_as(batch, self._type), self._type)
        removed = are_removed(batch).astype(np.int64)
        around = zip(*(template.split("%") for template in self.templates), strict=True)
        before, after = (pa.array(texts).take(pa.array(removed)) for texts in around)
        return join_text([before, rows, after]).cast(pa.binary())

    def validate(self, input_type: TypeInformation) -> None:
        refuse_other_fields(self._type, input_type)


class DebeziumJsonSerializationSchema(ChangesSerializationSchema):
    """Writes changes as Debezium does, without a schema in each message.

    Examples:
        >>> from headrace.common import Row, RowKind, Types
        >>> from headrace.datastream.formats.cdc import DebeziumJsonSerializationSchema
        >>> schema = DebeziumJsonSerializationSchema(Types.ROW_NAMED(["id"], [int]))
        >>> schema.serialize(Row.of_kind(RowKind.DELETE, 7))
        b'{"before":{"id":7},"after":null,"op":"d"}'
    """

    templates = ('{"before":null,"after":%,"op":"c"}', '{"before":%,"after":null,"op":"d"}')


class CanalJsonSerializationSchema(ChangesSerializationSchema):
    """Writes changes as Canal does, a row in each message.

    Examples:
        >>> from headrace.common import Row, Types
        >>> from headrace.datastream.formats.cdc import CanalJsonSerializationSchema
        >>> CanalJsonSerializationSchema(Types.ROW_NAMED(["id"], [int])).serialize(Row(id=7))
        b'{"data":[{"id":7}],"type":"INSERT"}'
    """

    templates = ('{"data":[%],"type":"INSERT"}', '{"data":[%],"type":"DELETE"}')


class MaxwellJsonSerializationSchema(ChangesSerializationSchema):
    """Writes changes as Maxwell does.

    Examples:
        >>> from headrace.common import Row, Types
        >>> from headrace.datastream.formats.cdc import MaxwellJsonSerializationSchema
        >>> MaxwellJsonSerializationSchema(Types.ROW_NAMED(["id"], [int])).serialize(Row(id=7))
        b'{"data":{"id":7},"type":"insert"}'
    """

    templates = ('{"data":%,"type":"insert"}', '{"data":%,"type":"delete"}')


class OggJsonSerializationSchema(ChangesSerializationSchema):
    """Writes changes as Oracle GoldenGate does.

    Examples:
        >>> from headrace.common import Row, Types
        >>> from headrace.datastream.formats.cdc import OggJsonSerializationSchema
        >>> OggJsonSerializationSchema(Types.ROW_NAMED(["id"], [int])).serialize(Row(id=7))
        b'{"before":null,"after":{"id":7},"op_type":"I"}'
    """

    templates = ('{"before":null,"after":%,"op_type":"I"}', '{"before":%,"after":null,"op_type":"D"}')
