"""Functions of arrays, maps, bitmaps, variants and structured objects, and of JSON."""

from dataclasses import replace
from typing import Final

from headrace.common.logical_types import (
    ArrayType,
    AtomicType,
    IntervalType,
    LogicalType,
    MapType,
    MultisetType,
    RowType,
    StructuredType,
)
from headrace.table.functions.definitions import CallShape, FunctionDefinition, Signature, TypeRule
from headrace.table.functions.kernels import collections, dispatch, json_values, variants
from headrace.table.functions.kernels.kernel import Kernel
from headrace.table.functions.rules import (
    A_STRING,
    A_TEXT,
    AN_INT,
    ANY,
    BINARY,
    CONDITION,
    DATETIME,
    INTEGER,
    NUMERIC,
    TEXT,
    TEXT_OR_BINARY,
    Result,
    a_map,
    a_multiset,
    always,
    an_array,
    an_interval,
    anyone_nullable,
    either,
    exactly,
    gives,
    like_argument,
    maybe,
    nullable,
    same_as,
    takes,
    uniform,
)
from headrace.table.functions.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    INT,
    STRING,
    R,
    common_type,
    is_in,
    root_of,
    with_nullability,
)
from headrace.table.logical.scalars import Literal

VARIANT: Final = AtomicType(R.VARIANT)
BITMAP: Final = AtomicType(R.BITMAP)


def _define(name: str, rule: TypeRule, kernel: Kernel, usage: str) -> FunctionDefinition:
    return FunctionDefinition(name, rule, kernel=kernel, usage=usage)


# --- arrays --------------------------------------------------------------------------------------------------------


def _fitting(element: LogicalType, wanted: LogicalType) -> LogicalType | None:
    """The type that a value is brought to as an element; None when it is none."""
    if root_of(element) is R.NULL:
        return wanted.as_nullable()
    if isinstance(wanted, AtomicType):
        found = exactly(wanted)(element)
        return None if found is None else with_nullability(found, element.nullable)
    return element if common_type([element, wanted]) is not None else None


def _with_element(result: Result) -> TypeRule:
    """A function of an array and a value that could be one of its elements."""

    def rule(shape: CallShape) -> Signature | None:
        if len(shape.operands) != 2 or not isinstance(shape.types[0], ArrayType):
            return None
        element = _fitting(shape.types[1], shape.types[0].element)
        if element is None:
            return None
        types = (shape.types[0], element)
        kind = result(shape, types)
        return None if kind is None else Signature(types, kind)

    return rule


def _array_with(shape: CallShape, types: tuple[LogicalType, ...]) -> LogicalType:
    """The array with NULL among its elements when the value may be NULL."""
    array, value = types
    assert isinstance(array, ArrayType)
    element = with_nullability(array.element, array.element.nullable or value.nullable)
    return ArrayType(element, nullable=anyone_nullable(shape))


def _arrays(shape: CallShape) -> Signature | None:
    """Arrays, which are brought to a common type."""
    if not all(isinstance(kind, ArrayType) for kind in shape.types):
        return None
    return uniform(lambda given, types: with_nullability(types[0], anyone_nullable(given)))(shape)


def _two_arrays(shape: CallShape) -> Signature | None:
    return _arrays(shape) if len(shape.operands) == 2 else None


def _element(shape: CallShape, types: tuple[LogicalType, ...]) -> LogicalType:
    return with_nullability(types[0].children[0], types[0].children[0].nullable or anyone_nullable(shape))


def _maybe_element(_: CallShape, types: tuple[LogicalType, ...]) -> LogicalType:
    return types[0].children[0].as_nullable()


def _item(shape: CallShape) -> Signature | None:
    if len(shape.operands) != 2:
        return None
    collection, index = shape.types
    if isinstance(collection, ArrayType) and INTEGER(index) is not None:
        return None if _is_too_small(shape) else Signature(shape.types, collection.element.as_nullable())
    if isinstance(collection, MapType) and root_of(index) is not R.NULL:
        key = _fitting(index, collection.key)
        return None if key is None else Signature((collection, key), collection.value.as_nullable())
    if root_of(collection) is R.VARIANT and either(INTEGER, TEXT)(index) is not None:
        return Signature(shape.types, VARIANT)
    return None


def _is_too_small(shape: CallShape) -> bool:
    index = shape.operands[1]
    return isinstance(index, Literal) and index.value is not None and index.value < 1


def _item_before_first(shape: CallShape) -> Signature | None:
    """An element of an array at a constant place below 1."""
    if len(shape.operands) != 2 or not isinstance(shape.types[0], ArrayType) or INTEGER(shape.types[1]) is None:
        return None
    return Signature(shape.types, shape.types[0].element.as_nullable())


def _texts(kind: LogicalType) -> LogicalType | None:
    return kind if isinstance(kind, ArrayType) and TEXT(kind.element) is not None else None


def _sortable(kind: LogicalType) -> LogicalType | None:
    """An array of elements that have an order."""
    return kind if isinstance(kind, ArrayType) and _ORDERED(kind.element) is not None else None


_ORDERED: Final = either(TEXT_OR_BINARY, NUMERIC, DATETIME, an_interval)
_FLAG: Final = nullable(CONDITION, BOOLEAN)


def _known(_: CallShape, types: tuple[LogicalType, ...]) -> LogicalType:
    """NULL when the array is: an element that is NULL is looked for like others."""
    return with_nullability(BOOLEAN, types[0].nullable)


_SAME: Final = like_argument()

_ARRAYS: Final = (
    replace(
        _define("ITEM", _item, dispatch.item, "array[index from 1], map[key], variant[index or name]"),
        late=_item_before_first,
    ),
    _define(
        "ELEMENT", takes(either(an_array, a_multiset), result=_element), collections.element, "ELEMENT(collection)"
    ),
    _define(
        "CARDINALITY",
        takes(either(an_array, a_map, a_multiset), result=gives(INT)),
        collections.cardinality,
        "CARDINALITY(array), CARDINALITY(map)",
    ),
    _define("ARRAY_CONTAINS", _with_element(_known), collections.array_contains, "ARRAY_CONTAINS(array, value)"),
    _define("ARRAY_POSITION", _with_element(gives(INT)), collections.array_position, "ARRAY_POSITION(array, value)"),
    _define("ARRAY_APPEND", _with_element(_array_with), collections.array_append, "ARRAY_APPEND(array, value)"),
    _define("ARRAY_PREPEND", _with_element(_array_with), collections.array_prepend, "ARRAY_PREPEND(array, value)"),
    _define("ARRAY_REMOVE", _with_element(same_as()), collections.array_remove, "ARRAY_REMOVE(array, value)"),
    _define("ARRAY_DISTINCT", takes(an_array, result=_SAME), collections.array_distinct, "ARRAY_DISTINCT(array)"),
    _define("ARRAY_REVERSE", takes(an_array, result=_SAME), collections.array_reverse, "ARRAY_REVERSE(array)"),
    _define("ARRAY_CONCAT", _arrays, collections.array_concat, "ARRAY_CONCAT(array, ...)"),
    _define("ARRAY_UNION", _two_arrays, collections.array_union, "ARRAY_UNION(array, array)"),
    _define("ARRAY_INTERSECT", _two_arrays, collections.array_intersect, "ARRAY_INTERSECT(array, array)"),
    _define("ARRAY_EXCEPT", _two_arrays, collections.array_except, "ARRAY_EXCEPT(array, array)"),
    _define("ARRAY_MAX", takes(_sortable, result=_maybe_element), collections.array_max, "ARRAY_MAX(array)"),
    _define("ARRAY_MIN", takes(_sortable, result=_maybe_element), collections.array_min, "ARRAY_MIN(array)"),
    _define(
        "ARRAY_SORT",
        takes(_sortable, _FLAG, _FLAG, optional=2, result=_SAME),
        collections.array_sort,
        "ARRAY_SORT(array[, ascending[, nulls first]])",
    ),
    _define(
        "ARRAY_SLICE",
        takes(an_array, AN_INT, AN_INT, optional=1, result=_SAME),
        collections.array_slice,
        "ARRAY_SLICE(array, start[, end])",
    ),
    _define(
        "ARRAY_JOIN",
        takes(_texts, A_TEXT, A_TEXT, optional=1, result=gives(STRING)),
        collections.array_join,
        "ARRAY_JOIN(array of texts, delimiter[, text for NULL])",
    ),
)


# --- maps ----------------------------------------------------------------------------------------------------------


def _keys(shape: CallShape, types: tuple[LogicalType, ...]) -> LogicalType:
    return ArrayType(types[0].children[0], nullable=anyone_nullable(shape))


def _values(shape: CallShape, types: tuple[LogicalType, ...]) -> LogicalType:
    return ArrayType(types[0].children[1], nullable=anyone_nullable(shape))


def _entries(shape: CallShape, types: tuple[LogicalType, ...]) -> LogicalType:
    entry = RowType(("key", "value"), types[0].children)
    return ArrayType(entry, nullable=anyone_nullable(shape))


def _of_arrays(shape: CallShape, types: tuple[LogicalType, ...]) -> LogicalType:
    return MapType(types[0].children[0], types[1].children[0], nullable=anyone_nullable(shape))


def _maps(shape: CallShape) -> Signature | None:
    if not all(isinstance(kind, MapType) for kind in shape.types):
        return None
    return uniform(lambda given, types: with_nullability(types[0], anyone_nullable(given)))(shape)


_MAPS: Final = (
    _define("MAP_KEYS", takes(a_map, result=_keys), collections.map_keys, "MAP_KEYS(map)"),
    _define("MAP_VALUES", takes(a_map, result=_values), collections.map_values, "MAP_VALUES(map)"),
    _define("MAP_ENTRIES", takes(a_map, result=_entries), collections.map_entries, "MAP_ENTRIES(map)"),
    _define("MAP_UNION", _maps, collections.map_union, "MAP_UNION(map, ...)"),
    _define(
        "MAP_FROM_ARRAYS",
        takes(an_array, an_array, result=_of_arrays),
        collections.map_from_arrays,
        "MAP_FROM_ARRAYS(keys, values)",
    ),
)


# --- bitmaps, variants, structured objects -------------------------------------------------------------------------


def _bitmap(kind: LogicalType) -> LogicalType | None:
    return kind if root_of(kind) is R.BITMAP else None


def _integers(kind: LogicalType) -> LogicalType | None:
    if not isinstance(kind, ArrayType) or not is_in(kind.element, frozenset({R.TINYINT, R.SMALLINT, R.INTEGER})):
        return None
    return ArrayType(with_nullability(INT, kind.element.nullable), nullable=kind.nullable)


def _of_bitmap(name: str, kind: LogicalType, kernel: Kernel) -> FunctionDefinition:
    return _define(name, takes(_bitmap, result=gives(kind)), kernel, f"{name}(bitmap)")


def _of_bitmaps(name: str, kernel: Kernel) -> FunctionDefinition:
    return _define(name, takes(_bitmap, _bitmap, result=gives(BITMAP)), kernel, f"{name}(bitmap, bitmap)")


def _names(shape: CallShape, first: int) -> tuple[str, ...] | None:
    """The names among names and values in turn, which have to be constants, and different ones."""
    names = [operand.value if isinstance(operand, Literal) else None for operand in shape.operands[first::2]]
    is_known = all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
    return tuple(map(str, names)) if is_known else None


def _object_of(shape: CallShape) -> Signature | None:
    if not shape.operands or len(shape.operands) % 2 == 0:
        return None
    names, words = _names(shape, 1), _names(CallShape(shape.operands[:1]), 0)
    if names is None or words is None:
        return None
    return Signature(shape.types, StructuredType(words[0], names, shape.types[2::2]))


def _object_update(shape: CallShape) -> Signature | None:
    kind = shape.types[0] if shape.types else None
    names = _names(shape, 1)
    if not isinstance(kind, StructuredType) or names is None or not set(names) <= set(kind.names):
        return None
    types = {**dict(zip(kind.names, kind.types, strict=True)), **dict(zip(names, shape.types[2::2], strict=True))}
    return Signature(shape.types, StructuredType(kind.class_name, kind.names, tuple(types.values())))


_OTHERS: Final = (
    _define("BITMAP_BUILD", takes(_integers, result=gives(BITMAP)), collections.bitmap_build, "BITMAP_BUILD(array)"),
    _of_bitmap("BITMAP_CARDINALITY", BIGINT, collections.bitmap_cardinality),
    _of_bitmap("BITMAP_TO_ARRAY", ArrayType(INT), collections.bitmap_to_array),
    _of_bitmap("BITMAP_TO_STRING", STRING, collections.bitmap_to_string),
    _of_bitmap("BITMAP_TO_BYTES", BYTES, collections.bitmap_to_bytes),
    _define(
        "BITMAP_FROM_BYTES",
        takes(BINARY, result=gives(BITMAP)),
        collections.bitmap_from_bytes,
        "BITMAP_FROM_BYTES(bytes)",
    ),
    _of_bitmaps("BITMAP_AND", collections.bitmap_and),
    _of_bitmaps("BITMAP_OR", collections.bitmap_or),
    _of_bitmaps("BITMAP_XOR", collections.bitmap_xor),
    _of_bitmaps("BITMAP_ANDNOT", collections.bitmap_andnot),
    _define("OBJECT_OF", _object_of, variants.object_of, "OBJECT_OF(class, name, value, ...)"),
    _define("OBJECT_UPDATE", _object_update, variants.object_update, "OBJECT_UPDATE(object, name, value, ...)"),
    _define(
        "PARSE_JSON",
        takes(A_STRING, CONDITION, optional=1, result=gives(VARIANT)),
        variants.parse_json,
        "PARSE_JSON(text[, allows repeated names])",
    ),
    _define(
        "TRY_PARSE_JSON",
        takes(A_STRING, CONDITION, optional=1, result=maybe(VARIANT)),
        variants.try_parse_json,
        "TRY_PARSE_JSON(text[, allows repeated names])",
    ),
)

COLLECTION_FUNCTIONS: Final = (*_ARRAYS, *_MAPS, *_OTHERS)


# --- JSON ----------------------------------------------------------------------------------------------------------


def _json_returned(shape: CallShape) -> Signature | None:
    """The type that ``RETURNING`` says, ``STRING`` without it; defaults are brought to it."""
    if len(shape.operands) < 2 or any(TEXT(kind) is None for kind in shape.types[:2]):
        return None
    kind: LogicalType = dict(shape.options).get("returning", STRING)
    defaults = tuple(with_nullability(kind, default.nullable) for default in shape.types[2:])
    return Signature((*shape.types[:2], *defaults), kind.as_nullable())


_UNSPELLED: Final = frozenset({R.DATE, R.TIME})


def _json_value(kind: LogicalType) -> LogicalType | None:
    """The type, if its values have a form in JSON."""
    if isinstance(kind, MapType | MultisetType) and TEXT(kind.children[0]) is None:
        return None  # names in JSON are texts
    is_unspelled = isinstance(kind, IntervalType) or (isinstance(kind, AtomicType) and kind.root in _UNSPELLED)
    return None if is_unspelled or any(_json_value(part) is None for part in kind.children[-1:]) else kind


def _json_object(shape: CallShape) -> Signature | None:
    names, values = shape.types[::2], shape.types[1::2]
    if any(TEXT(kind) is None for kind in names) or any(_json_value(kind) is None for kind in values):
        return None
    return Signature(shape.types, STRING.not_null())


def _define_late(name: str, rule: TypeRule, kernel: Kernel, usage: str) -> FunctionDefinition:
    """A function that takes every value as far as Flink's validator knows."""
    late = takes(ANY, variadic=True, result=always(STRING))
    return FunctionDefinition(name, rule, kernel=kernel, usage=usage, late=late)


_IS_JSON: Final = tuple(
    _define(
        f"IS {word}JSON{kind and ' '}{kind}",
        takes(TEXT, result=always(BOOLEAN)),
        json_values.is_json(kind or "VALUE", negated=bool(word)),
        f"text IS {word}JSON {kind}".rstrip(),
    )
    for word in ("", "NOT ")
    for kind in ("", "VALUE", "OBJECT", "ARRAY", "SCALAR")
)

JSON_FUNCTIONS: Final = (
    *_IS_JSON,
    _define(
        "JSON_EXISTS", takes(TEXT, TEXT, result=maybe(BOOLEAN)), json_values.json_exists, "JSON_EXISTS(text, path)"
    ),
    _define("JSON_VALUE", _json_returned, json_values.json_value, "JSON_VALUE(text, path)"),
    _define("JSON_QUERY", _json_returned, json_values.json_query, "JSON_QUERY(text, path)"),
    _define_late("JSON_OBJECT", _json_object, json_values.json_object, "JSON_OBJECT([KEY] name VALUE value, ...)"),
    _define_late(
        "JSON_ARRAY",
        takes(_json_value, variadic=True, optional=1, result=always(STRING)),
        json_values.json_array,
        "JSON_ARRAY(value, ...)",
    ),
    _define_late("JSON_STRING", takes(_json_value, result=gives(STRING)), dispatch.json_string, "JSON_STRING(value)"),
    _define("JSON_QUOTE", takes(A_TEXT, result=gives(STRING)), json_values.json_quote, "JSON_QUOTE(text)"),
    _define("JSON_UNQUOTE", takes(A_TEXT, result=gives(STRING)), json_values.json_unquote, "JSON_UNQUOTE(text)"),
    _define(
        "JSON", takes(A_TEXT, result=gives(STRING)), json_values.json_text, "JSON(text), in JSON_OBJECT and JSON_ARRAY"
    ),
)
