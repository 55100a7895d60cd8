"""Type information: what headrace knows about values, and so how they are stored, compared and moved."""

from headrace.common.logical_types import ROW_KIND_COLUMN
from headrace.common.public_module import public_module
from headrace.common.typeinfo.base import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DeclaredType,
    Json,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    SequenceTypeInfo,
    TypeInformation,
)
from headrace.common.typeinfo.composite import (
    CompositeTypeInfo,
    DataclassTypeInfo,
    DetachedTypeInfo,
    DictTypeInfo,
    NamedCompositeTypeInfo,
    NamedTupleTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    type_from_json,
)
from headrace.common.typeinfo.types import Types

__all__ = [
    "ROW_KIND_COLUMN",
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "CompositeTypeInfo",
    "DataclassTypeInfo",
    "DeclaredType",
    "DetachedTypeInfo",
    "DictTypeInfo",
    "Json",
    "ListTypeInfo",
    "MapTypeInfo",
    "NamedCompositeTypeInfo",
    "NamedTupleTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "SequenceTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
    "type_from_json",
]

public_module(__name__)
