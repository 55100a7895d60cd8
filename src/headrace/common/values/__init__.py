"""One handler for each type, with all that is done with its values: Arrow, coercion, checks, text, JSON, keys.

The rules of what fits a type, and what becomes of it, are in the documentation of
:class:`~headrace.common.typeinfo.Types`. Whatever fits comes back equal, of the class that the type stands for.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from headrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    CompositeTypeInfo,
    DataclassTypeInfo,
    DetachedTypeInfo,
    DictTypeInfo,
    MapTypeInfo,
    NamedTupleTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    SequenceTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from headrace.common.values.basic import (
    BasicHandler,
    BytesHandler,
    CharHandler,
    NullHandler,
    PickleHandler,
    StringHandler,
)
from headrace.common.values.handler import MapHandler, SequenceHandler, TypeHandler
from headrace.common.values.numbers import (
    BigDecHandler,
    BigIntHandler,
    BooleanHandler,
    DecimalHandler,
    DoubleHandler,
    FloatHandler,
    IntegerHandler,
)
from headrace.common.values.records import (
    DataclassHandler,
    DetachedHandler,
    DictHandler,
    NamedTupleHandler,
    RecordHandler,
    RowHandler,
    StreamRowHandler,
    TupleHandler,
)
from headrace.common.values.temporal import (
    DateHandler,
    InstantHandler,
    TimedeltaHandler,
    TimeHandler,
    TimestampHandler,
    TimestampLtzHandler,
    TimestampNanosHandler,
)

__all__ = ["TypeHandler", "basic_handler_of", "handler_of", "record_handler_of", "stream_handler_of"]

_BASIC: Final[dict[BasicType, type[BasicHandler]]] = {
    BasicType.STRING: StringHandler,
    BasicType.BYTE: IntegerHandler,
    BasicType.BOOLEAN: BooleanHandler,
    BasicType.SHORT: IntegerHandler,
    BasicType.INT: IntegerHandler,
    BasicType.LONG: IntegerHandler,
    BasicType.FLOAT: FloatHandler,
    BasicType.DOUBLE: DoubleHandler,
    BasicType.CHAR: CharHandler,
    BasicType.BIG_INT: BigIntHandler,
    BasicType.BIG_DEC: BigDecHandler,
    BasicType.BYTES: BytesHandler,
    BasicType.INSTANT: InstantHandler,
    BasicType.SQL_DATE: DateHandler,
    BasicType.SQL_TIME: TimeHandler,
    BasicType.SQL_TIMESTAMP: TimestampHandler,
    BasicType.TIMESTAMP_LTZ: TimestampLtzHandler,
    BasicType.DECIMAL: DecimalHandler,
    BasicType.TIMESTAMP_NANOS: TimestampNanosHandler,
    BasicType.MONTHS: IntegerHandler,
    BasicType.TIMEDELTA: TimedeltaHandler,
    BasicType.NULL: NullHandler,
}


_RECORDS: Final[dict[type[CompositeTypeInfo], Callable[[Any, list[TypeHandler]], RecordHandler]]] = {
    TupleTypeInfo: TupleHandler,
    NamedTupleTypeInfo: NamedTupleHandler,
    DataclassTypeInfo: DataclassHandler,
    DictTypeInfo: DictHandler,
    RowTypeInfo: RowHandler,
    DetachedTypeInfo: DetachedHandler,
}


@lru_cache(maxsize=1024)
def handler_of(info: TypeInformation) -> TypeHandler:
    """The handler of a type."""
    if isinstance(info, BasicTypeInfo):
        return basic_handler_of(info)
    if isinstance(info, CompositeTypeInfo):
        return record_handler_of(info)
    if isinstance(info, SequenceTypeInfo):
        element = info.element_type if info.nullable_elements else replace(info.element_type, nullable=False)
        return SequenceHandler(info, handler_of(element))
    if isinstance(info, MapTypeInfo):
        return MapHandler(info, handler_of(info.key_type), handler_of(info.value_type))
    assert isinstance(info, PickledBytesTypeInfo)
    return PickleHandler(info)


@lru_cache(maxsize=64)
def basic_handler_of(info: BasicTypeInfo) -> BasicHandler:
    """The handler of a basic type."""
    return _BASIC[info.basic_type](info)


@lru_cache(maxsize=1024)
def record_handler_of(info: CompositeTypeInfo) -> RecordHandler:
    """The handler of a composite type."""
    return _RECORDS[type(info)](info, [handler_of(field) for field in info.field_types])


@lru_cache(maxsize=1024)
def stream_handler_of(info: TypeInformation) -> TypeHandler:
    """The handler of the records of a stream: that of their type, but for the kinds of rows, which batches keep."""
    if isinstance(info, RowTypeInfo) and not info.changelog:
        return StreamRowHandler(info, [handler_of(field) for field in info.field_types])
    return handler_of(info)
