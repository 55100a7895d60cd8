"""Functions of JSON."""

from typing import Final

from headrace.common.logical_types import AtomicType, IntervalType, LogicalType, MapType, MultisetType
from headrace.table.functions.definitions import CallShape, FunctionDefinition, Signature, TypeRule
from headrace.table.functions.kernels import dispatch, json_values
from headrace.table.functions.kernels.kernel import Kernel
from headrace.table.functions.rules import A_TEXT, ANY, TEXT, always, gives, maybe, takes
from headrace.table.functions.types import BOOLEAN, STRING, R, with_nullability


def _define(name: str, rule: TypeRule, kernel: Kernel, usage: str) -> FunctionDefinition:
    return FunctionDefinition(name, rule, kernel=kernel, usage=usage)


def _returned(shape: CallShape) -> Signature | None:
    """The type that ``RETURNING`` says, ``STRING`` without it; defaults are brought to it."""
    if len(shape.operands) < 2 or any(TEXT(kind) is None for kind in shape.types[:2]):
        return None
    kind: LogicalType = dict(shape.options).get("returning", STRING)
    defaults = tuple(with_nullability(kind, default.nullable) for default in shape.types[2:])
    return Signature((*shape.types[:2], *defaults), kind.as_nullable())


_UNSPELLED: Final = frozenset({R.DATE, R.TIME})


def _value(kind: LogicalType) -> LogicalType | None:
    """The type, if its values have a form in JSON."""
    if isinstance(kind, MapType | MultisetType) and TEXT(kind.children[0]) is None:
        return None  # names in JSON are texts
    is_unspelled = isinstance(kind, IntervalType) or (isinstance(kind, AtomicType) and kind.root in _UNSPELLED)
    return None if is_unspelled or any(_value(part) is None for part in kind.children[-1:]) else kind


def _object(shape: CallShape) -> Signature | None:
    if any(TEXT(kind) is None for kind in shape.types[::2]) or any(_value(kind) is None for kind in shape.types[1::2]):
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
    _define("JSON_VALUE", _returned, json_values.json_value, "JSON_VALUE(text, path)"),
    _define("JSON_QUERY", _returned, json_values.json_query, "JSON_QUERY(text, path)"),
    _define_late("JSON_OBJECT", _object, json_values.json_object, "JSON_OBJECT([KEY] name VALUE value, ...)"),
    _define_late(
        "JSON_ARRAY",
        takes(_value, variadic=True, optional=1, result=always(STRING)),
        json_values.json_array,
        "JSON_ARRAY(value, ...)",
    ),
    _define_late("JSON_STRING", takes(_value, result=gives(STRING)), dispatch.json_string, "JSON_STRING(value)"),
    _define("JSON_QUOTE", takes(A_TEXT, result=gives(STRING)), json_values.json_quote, "JSON_QUOTE(text)"),
    _define("JSON_UNQUOTE", takes(A_TEXT, result=gives(STRING)), json_values.json_unquote, "JSON_UNQUOTE(text)"),
    _define(
        "JSON", takes(A_TEXT, result=gives(STRING)), json_values.json_text, "JSON(text), in JSON_OBJECT and JSON_ARRAY"
    ),
)
