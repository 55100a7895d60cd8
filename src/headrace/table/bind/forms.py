"""Functions with a syntax of their own: ``TRIM``, and those of JSON."""

from collections.abc import Sequence
from typing import Final

from headrace.common.logical_types import ArrayType, AtomicType, LogicalType
from headrace.table.bind.calls import CallBinder
from headrace.table.functions.types import STRING, R, is_in, root_of
from headrace.table.logical.scalars import Call, Literal, Options, Scalar
from headrace.table.parse.tree import expressions as sql
from headrace.table.parse.tree import json

_SPACE: Final = Literal(" ", type=AtomicType(R.CHAR, 1, nullable=False))

_MAKES_JSON: Final = frozenset({"JSON_OBJECT", "JSON_ARRAY", "JSON"})
"""Functions whose result is embedded as JSON in an enclosing JSON function, and not as a string."""


def trim(binder: CallBinder, node: sql.Trim) -> Scalar:
    """``TRIM``: the characters, spaces by default, and the text."""
    characters = _SPACE if node.characters is None else binder.bind(node.characters)
    return binder.call("TRIM", (characters, binder.bind(node.operand)), node, (("side", node.side),))


def json_path_call(binder: CallBinder, node: json.JsonPathCall) -> Scalar:
    """``JSON_EXISTS``, ``JSON_VALUE`` and ``JSON_QUERY``: defaults are operands after the path."""
    options: list[tuple[str, object]] = []
    operands = [binder.bind(node.operand), binder.bind(node.path)]
    if node.returning is not None:
        options.append(("returning", _returned(binder, node, binder.context.types.bind(node.returning))))
    if node.wrapper is not None:
        options.append(("wrapper", node.wrapper))
    for name, behavior in (("on_empty", node.on_empty), ("on_error", node.on_error)):
        if behavior is not None:
            options.append((name, behavior.kind))
            operands.extend(() if behavior.default is None else (_default(binder, behavior.default),))
    return binder.call(node.function.value, tuple(operands), node, tuple(options))


def _default(binder: CallBinder, node: sql.SqlExpression) -> Scalar:
    found = binder.bind(node)
    if root_of(found.type) is R.NULL:
        raise binder.context.error(
            node, "a NULL without a type cannot be used here", "Write NULL ON EMPTY or NULL ON ERROR."
        )
    return found


def _returned(binder: CallBinder, node: json.JsonPathCall, kind: LogicalType) -> LogicalType:
    if node.function is json.JsonFunction.QUERY:
        fits = kind in (STRING, ArrayType(STRING)) or is_in(kind, frozenset({R.VARCHAR}))
    else:
        fits = root_of(kind) in (R.VARCHAR, R.BOOLEAN, R.INTEGER, R.DOUBLE)
    if not fits:
        wanted = (
            "STRING or ARRAY<STRING>"
            if node.function is json.JsonFunction.QUERY
            else "STRING, BOOLEAN, INTEGER or DOUBLE"
        )
        binder.context.defer(node, f"{node.function.value} cannot return {kind}", f"It returns {wanted}.")
    return kind


def on_null(*, absent: bool) -> Options:
    """The option of ``NULL ON NULL`` and ``ABSENT ON NULL``."""
    return (("on_null", "ABSENT" if absent else "NULL"),)


def json_object(binder: CallBinder, node: json.JsonObject) -> Scalar:
    """``JSON_OBJECT``: names and values in turn."""
    parts = [part for entry in node.entries for part in (entry.key, entry.value)]
    operands = _parts(binder, parts)
    for operand, entry in zip(operands[::2], node.entries, strict=True):
        if operand.type.nullable:
            raise binder.context.error(entry.key, "a key of JSON must not be NULL", "Write COALESCE(key, '').")
    return _json(binder, node, "JSON_OBJECT", operands, node.absent_on_null, is_absent=False)


def json_array(binder: CallBinder, node: json.JsonArray) -> Scalar:
    """``JSON_ARRAY``."""
    return _json(binder, node, "JSON_ARRAY", _parts(binder, node.items), node.absent_on_null, is_absent=True)


def _parts(binder: CallBinder, nodes: Sequence[sql.SqlExpression]) -> tuple[Scalar, ...]:
    """The values in JSON, where ``JSON(text)`` is allowed; it is allowed nowhere else."""
    return tuple(
        binder.call("JSON", binder.bind_all(node.arguments), node)
        if isinstance(node, sql.SqlCall) and node.name == "JSON"
        else binder.bind(node)
        for node in nodes
    )


def _json(
    binder: CallBinder,
    node: sql.SqlExpression,
    name: str,
    operands: tuple[Scalar, ...],
    said: bool | None,
    *,
    is_absent: bool,
) -> Scalar:
    places = tuple(
        place for place, each in enumerate(operands) if isinstance(each, Call) and each.function in _MAKES_JSON
    )
    options: Options = (*on_null(absent=is_absent if said is None else said), ("json", places))
    return binder.call(name, operands, node, options)
