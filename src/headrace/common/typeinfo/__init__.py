"""Type information: what headrace knows about values, and so how they are stored, compared and moved."""

from __future__ import annotations

from headrace.common.public_module import public_module
from headrace.common.typeinfo.base import DeclaredType, Json, TypeInformation
from headrace.common.typeinfo.basic import BasicType, BasicTypeInfo, PickledBytesTypeInfo
from headrace.common.typeinfo.collection import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    SequenceTypeInfo,
)
from headrace.common.typeinfo.composite import (
    ROW_KIND_COLUMN,
    CompositeTypeInfo,
    DataclassTypeInfo,
    DetachedTypeInfo,
    DictTypeInfo,
    NamedCompositeTypeInfo,
    NamedTupleTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from headrace.common.typeinfo.describe import type_from_json
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
