"""Literals, types, calls of models and arguments of functions of JSON as Calcite writes them in plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

from headrace.common.logical_types import (
    ArrayType,
    AtomicType,
    IntervalType,
    LogicalType,
    MapType,
    MultisetType,
    RawType,
    RowType,
    TypeRoot,
)
from headrace.common.masking import masked
from headrace.table.logical.models import ModelCall
from headrace.table.logical.scalars import Call, Literal
from headrace.table.logical.schema import TimeAttribute
from headrace.table.parse.tree.json import JsonWrapper

_TEXTS: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_CHARSET: Final = ' CHARACTER SET "UTF-16LE"'


def literal_text(literal: Literal) -> str:
    """A literal without its type."""
    value, kind = literal.value, literal.type
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "_UTF-16LE'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return _number_text(value, kind)


def _number_text(value: Any, kind: LogicalType) -> str:
    if isinstance(kind, IntervalType):
        return str(value if kind.unit.is_of_months else value // 1000)
    if isinstance(kind, AtomicType) and kind.root in _TEMPORAL:
        return _temporal_text(value, kind)
    if isinstance(value, float):
        return _scientific(value)
    return str(value)


def _scientific(value: float) -> str:
    """``1.5E0``: all digits, of which one stands before the point."""
    if not value:
        return "0E0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    shown = "".join(map(str, digits))
    point = f"{shown[0]}.{shown[1:]}" if len(shown) > 1 else shown
    return f"{'-' * sign}{point}E{int(exponent) + len(shown) - 1}"


_TEMPORAL: Final = (TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def _temporal_text(value: int, kind: AtomicType) -> str:
    from numpy import datetime64

    if kind.root is TypeRoot.DATE:
        return str(datetime64(value, "D"))
    moment = str(datetime64(value, "ns" if kind.has_nanoseconds else "us"))
    day, _, clock = moment.partition("T")
    seconds, _, fraction = clock.partition(".")
    fraction = fraction.rstrip("0")
    clock = f"{seconds}.{fraction}" if fraction else seconds
    return clock if kind.root is TypeRoot.TIME else f"{day} {clock}"


def calcite_type(kind: LogicalType, *, nullability: bool = False, time: TimeAttribute | None = None) -> str:
    """A type as Calcite writes it."""
    text = _type_text(kind)
    if time is not None:
        text += f" {time.value}"
    return f"{text} NOT NULL" if nullability and not kind.nullable else text


def _type_text(kind: LogicalType) -> str:
    return _TYPE_TEXTS[type(kind)](kind)


def _parts(kinds: Sequence[LogicalType]) -> list[str]:
    return [calcite_type(kind, nullability=True) for kind in kinds]


def _atomic_text(kind: AtomicType) -> str:
    if kind.root in _TEXTS:
        return f"{kind.root.value}({kind.size}){_CHARSET}"
    if kind.root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
        return f"{kind.root.value}({kind.size})"
    return "INTEGER" if kind.root is TypeRoot.INTEGER else str(kind.as_nullable())


def _row_text(kind: RowType) -> str:
    fields = zip(_parts(kind.types), kind.names, strict=True)
    return f"RecordType:peek_no_expand({', '.join(f'{part} {name}' for part, name in fields)})"


_TYPE_TEXTS: Final[dict[type[LogicalType], Callable[[Any], str]]] = {
    AtomicType: _atomic_text,
    IntervalType: lambda kind: f"INTERVAL {kind.unit.name.replace('_', ' ')}",
    ArrayType: lambda kind: f"{_parts([kind.element])[0]} ARRAY",
    MultisetType: lambda kind: f"{_parts([kind.element])[0]} MULTISET",
    MapType: lambda kind: f"({', '.join(_parts([kind.key, kind.value]))}) MAP",
    RowType: _row_text,
    RawType: str,
}


def cast_type(kind: LogicalType) -> str:
    """A type in ``CAST(... AS ...)``."""
    return _type_text(kind).removesuffix(_CHARSET)


def model_call_text(call: ModelCall, names: Sequence[str]) -> str:
    """A call of ``ML_PREDICT`` over columns."""
    columns = ", ".join(f"_UTF-16LE'{names[index]}'" for index in call.features)
    config = config_text(call.config) if call.config else "DEFAULT()"
    return f"ML_PREDICT(TABLE(#0), Model(MODEL {'.'.join(call.path)}), DESCRIPTOR({columns}), {config})"


def config_text(config: Sequence[tuple[str, str]]) -> str:
    """The configuration of a call."""
    pairs = [(key, masked(key, value)) for key, value in config]
    keys, values = (_texts([pair[place] for pair in pairs]) for place in (0, 1))
    return f"MAP({', '.join(text for pair in zip(keys, values, strict=True) for text in pair)})"


def _texts(texts: Sequence[str]) -> list[str]:
    """Literal texts of a common type, which is shown if they have different lengths."""
    lengths = {len(text) for text in texts}
    kind = f":VARCHAR({max(lengths)}){_CHARSET}" if len(lengths) > 1 else ""
    return [f"_UTF-16LE'{text}'{kind}" for text in texts]


def record_type_text(names: Sequence[str], kinds: Sequence[LogicalType], times: Sequence[TimeAttribute | None]) -> str:
    """``RecordType(INTEGER id, ...)``: the columns of a relation."""
    fields = (
        f"{calcite_type(kind, time=time).replace(_CHARSET, '').replace(' NOT NULL', '')} {name}"
        for name, kind, time in zip(names, kinds, times, strict=True)
    )
    return f"RecordType({', '.join(fields)})"


_WRAPPERS: Final = {
    JsonWrapper.WITHOUT: "WITHOUT_ARRAY",
    JsonWrapper.CONDITIONAL: "WITH_CONDITIONAL_ARRAY",
    JsonWrapper.UNCONDITIONAL: "WITH_UNCONDITIONAL_ARRAY",
}


def json_arguments(call: Call, operands: Sequence[str], flag: Callable[[str], str]) -> list[str] | None:
    """The arguments of a function of JSON; None for another function.

    Args:
        call: the call.
        operands: the texts of its operands.
        flag: the text of a keyword.
    """
    rule = _JSON_RULES.get(call.function)
    return None if rule is None else list(rule(dict(call.options), operands, flag))


def _json_made(options: dict[str, Any], operands: Sequence[str], flag: Callable[[str], str]) -> Iterator[str]:
    yield flag(f"{options['on_null']}_ON_NULL")
    yield from operands


def _json_value(options: dict[str, Any], operands: Sequence[str], flag: Callable[[str], str]) -> Iterator[str]:
    defaults = iter(operands[2:])
    yield from operands[:2]
    for name, clause in (("on_empty", "ON EMPTY"), ("on_error", "ON ERROR")):
        if name in options:
            yield flag(options[name].name)
            if options[name].name == "DEFAULT":
                yield next(defaults)
            yield flag(clause)


def _json_query(options: dict[str, Any], operands: Sequence[str], flag: Callable[[str], str]) -> Iterator[str]:
    yield from operands
    yield flag(_WRAPPERS[options.get("wrapper", JsonWrapper.WITHOUT)])
    for name in ("on_empty", "on_error"):
        kind = options[name].name if name in options else "NULL"
        yield flag(f"SqlJsonQueryEmptyOrErrorBehavior[{kind}]")


def _json_exists(options: dict[str, Any], operands: Sequence[str], flag: Callable[[str], str]) -> Iterator[str]:
    yield from operands
    if "on_error" in options:
        yield flag(options["on_error"].name)


_JSON_RULES: Final = {
    "JSON_OBJECT": _json_made,
    "JSON_ARRAY": _json_made,
    "JSON_VALUE": _json_value,
    "JSON_QUERY": _json_query,
    "JSON_EXISTS": _json_exists,
}
