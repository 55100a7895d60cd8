"""User-defined functions as entries of the function table, with type rules from their declarations."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from headrace.common.logical_types import ArrayType, AtomicType, LogicalType, RowType
from headrace.common.typeinfo import Types
from headrace.table.bind.types import TypeBinder
from headrace.table.functions.definitions import CallShape, Determinism, FunctionDefinition, Signature, TypeRule
from headrace.table.functions.kinds import FunctionKind
from headrace.table.functions.python.classes import UserDefinedFunction
from headrace.table.functions.python.decorators import DataType, UserFunction, as_user_function
from headrace.table.functions.rules import exactly
from headrace.table.functions.types import with_nullability
from headrace.table.parse import parse_type
from headrace.table.parse.source import SqlSource


@lru_cache(maxsize=1024)
def definition_of(given: Any, path: tuple[str, ...]) -> FunctionDefinition:
    """The function table's entry for a user-defined function, given where it is registered.

    Raises:
        InvalidProgramError: when it is not a function, or its types are unknown.
    """
    name = path[-1]
    user = as_user_function(given, name)
    result = _result_type(user)
    accumulator = None if user.accumulator_type is None else logical_type(user.accumulator_type)
    user = replace(user, name=name, result_type=result, accumulator_type=accumulator)
    inputs = None if user.input_types is None else tuple(map(logical_type, user.input_types))
    determinism = Determinism.ALWAYS if user.is_deterministic else Determinism.NEVER
    counts = _counts(user) if inputs is None else (len(inputs), len(inputs))
    return FunctionDefinition(
        name,
        _rule(inputs, counts, result),
        user.kind,
        counts,
        determinism,
        user=user,
        usage=_usage(name, inputs, counts),
        path=path,
    )


def logical_type(given: DataType) -> LogicalType:
    """The logical type of a declaration: SQL text, one of ``Types``, or a class."""
    if isinstance(given, LogicalType):
        return given
    if isinstance(given, str):
        return TypeBinder(SqlSource(given)).bind(parse_type(given))
    return Types.of(given).logical_type


def _result_type(user: UserFunction) -> LogicalType:
    if user.kind is not FunctionKind.TABLE:
        return logical_type(user.result_type)
    given = user.result_type
    if isinstance(given, list | tuple):
        kinds = tuple(map(logical_type, given))
        return ArrayType(RowType(tuple(f"f{place}" for place in range(len(kinds))), kinds))
    kind = logical_type(given)
    return ArrayType(kind if isinstance(kind, RowType) else RowType(("f0",), (kind,)))


def _rule(inputs: tuple[LogicalType, ...] | None, counts: tuple[int, int | None], result: LogicalType) -> TypeRule:
    def rule(shape: CallShape) -> Signature | None:
        least, most = counts
        if len(shape.operands) < least or (most is not None and len(shape.operands) > most):
            return None
        if inputs is None:
            return Signature(shape.types, result)
        found = [_taken(wanted, given) for wanted, given in zip(inputs, shape.types, strict=True)]
        kinds = tuple(kind for kind in found if kind is not None)
        return Signature(kinds, result) if len(kinds) == len(found) else None

    return rule


def _taken(wanted: LogicalType, given: LogicalType) -> LogicalType | None:
    """The type to which an argument is cast; None when there is no implicit cast."""
    if isinstance(wanted, AtomicType):
        return exactly(wanted)(given)
    return with_nullability(wanted, given.nullable) if wanted.as_nullable() == given.as_nullable() else None


def _counts(user: UserFunction) -> tuple[int, int | None]:
    """The minimum and maximum number of arguments, from a function's parameters."""
    called, skipped = user.function, 0
    if isinstance(called, UserDefinedFunction):
        is_aggregate = user.kind is FunctionKind.AGGREGATE
        called, skipped = (called.accumulate, 1) if is_aggregate else (called.eval, 0)  # type: ignore[attr-defined]
    try:
        parameters = list(inspect.signature(called).parameters.values())[skipped:]
    except (TypeError, ValueError):
        return 0, None
    places = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    least = sum(each.default is each.empty for each in places)
    is_open = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    return least, None if is_open else len(places)


def _usage(name: str, inputs: Sequence[LogicalType] | None, counts: tuple[int, int | None]) -> str:
    least, most = counts
    if inputs is not None:
        shown = ", ".join(map(str, inputs))
    elif most is None:
        shown = ", ".join([*["value"] * least, "..."])
    else:
        shown = ", ".join(["value"] * least + ["[value]"] * (most - least))
    return f"{name}({shown})"
