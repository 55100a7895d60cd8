"""The codec of every type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from headrace.common.columns.codec import Codec, NestedCodec, WrongValueError
from headrace.common.columns.collections import MapCodec, SequenceCodec
from headrace.common.columns.pickles import PickleCodec
from headrace.common.columns.scalars import scalar_codec
from headrace.common.columns.shapes import Shape, shape_of
from headrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    CompositeTypeInfo,
    MapTypeInfo,
    PickledBytesTypeInfo,
    SequenceTypeInfo,
    TypeInformation,
)

_KIND_CODEC: Final = scalar_codec(BasicTypeInfo(BasicType.BYTE))


@dataclass(frozen=True, slots=True)
class RecordCodec(NestedCodec):
    """Encodes records as structs, or as the separate columns of a batch."""

    info: CompositeTypeInfo
    fields: tuple[pa.Field, ...]
    shape: Shape
    codecs: tuple[Codec, ...]

    @property
    def storage(self) -> pa.DataType:
        return pa.struct(self.fields)

    def encode_columns(self, records: Sequence[Any]) -> list[pa.Array]:
        """One array per field, of records none of which is ``None``."""
        columns = self.shape.columns(records)
        return [
            _encode_field(field.name, codec, column)
            for field, codec, column in zip(self.fields, self.codecs, columns, strict=True)
        ]

    def decode_columns(self, arrays: Sequence[pa.Array]) -> list[Any]:
        """The records of one array per field."""
        return self.shape.records([codec.decode(array) for codec, array in zip(self.codecs, arrays, strict=True)])

    def encode_present(self, values: Sequence[Any]) -> pa.Array:
        return pa.StructArray.from_arrays(self.encode_columns(values), fields=self.fields)

    def decode_present(self, array: pa.Array) -> list[Any]:
        return self.decode_columns(array.flatten())


def _encode_field(name: str, codec: Codec, column: Sequence[Any]) -> pa.Array:
    try:
        return codec.encode(column)
    except WrongValueError as error:
        raise error.inside(f", field {name!r}") from error


def _record_codec(info: CompositeTypeInfo) -> RecordCodec:
    fields = tuple(info.arrow_fields)
    codecs = [codec_of(kind) for kind in info.field_types]
    codecs += [_KIND_CODEC] * (len(fields) - len(codecs))
    return RecordCodec(info, fields, shape_of(info), tuple(codecs))


def _sequence_codec(info: SequenceTypeInfo) -> Codec:
    return SequenceCodec(info, codec_of(info.element_type))


def _map_codec(info: MapTypeInfo) -> Codec:
    return MapCodec(info, codec_of(info.key_type), codec_of(info.value_type))


_BUILDERS: Final[tuple[tuple[type[TypeInformation], Callable[[Any], Codec]], ...]] = (
    (BasicTypeInfo, scalar_codec),
    (PickledBytesTypeInfo, lambda info: PickleCodec()),
    (SequenceTypeInfo, _sequence_codec),
    (MapTypeInfo, _map_codec),
    (CompositeTypeInfo, _record_codec),
)


@lru_cache(maxsize=1024)
def codec_of(info: TypeInformation) -> Codec:
    """The codec of a type."""
    build = next(builder for kind, builder in _BUILDERS if isinstance(info, kind))
    return build(info)
