"""``START_MODE`` of materialized tables: from where their streaming jobs read."""

from typing import Final

import numpy as np

from headrace.common.configuration import Configuration
from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot
from headrace.table.bind.context import BindContext
from headrace.table.bind.types import BadLiteralError, literal
from headrace.table.catalog.materialization import StartMode
from headrace.table.functions.kernels.zones import to_utc
from headrace.table.options import LOCAL_TIME_ZONE, START_MODE
from headrace.table.parse.format import literal as quoted_literal
from headrace.table.parse.tree import definitions as sql
from headrace.table.parse.tree.definitions import RefreshMode, StartModeKind
from headrace.table.parse.tree.expressions import IntervalLiteral, SqlExpression, TemporalKind, TemporalLiteral
from headrace.table.parse.tree.types import TimeUnit

_BEGINNINGS: Final = (StartModeKind.FROM_BEGINNING, StartModeKind.RESUME_OR_FROM_BEGINNING)
_TIMESTAMPS: Final = (StartModeKind.FROM_TIMESTAMP, StartModeKind.RESUME_OR_FROM_TIMESTAMP)
_OF_MONTHS: Final = (TimeUnit.YEAR, TimeUnit.QUARTER, TimeUnit.MONTH)


def start_of(context: BindContext, node: sql.CreateMaterializedTable, mode: RefreshMode) -> StartMode:
    """Where a table begins: as is written, or as the setting says.

    Args:
        context: the statement.
        node: its tree.
        mode: how the table is refreshed.

    Raises:
        SqlValidationError: when the argument is none of its kind, or the table is refreshed as a whole.
    """
    if node.start_mode is None:
        kind = StartModeKind(Configuration.from_dict(context.options).get(START_MODE))
        return StartMode(kind) if mode is RefreshMode.CONTINUOUS else StartMode()
    found = _start_mode(context, node.start_mode)
    if mode is RefreshMode.FULL and not found.is_timeless:
        reason = f"START_MODE = {found.kind.value} is of continuous refreshes: a full refresh computes all rows anew"
        advice = "Add REFRESH_MODE = CONTINUOUS, or let the query have a condition on the time of its rows."
        raise context.error(node.start_mode, reason, advice)
    return found


def _start_mode(context: BindContext, node: sql.StartModeClause) -> StartMode:
    kind, argument = node.kind, node.argument
    if kind in _TIMESTAMPS:
        if not isinstance(argument, TemporalLiteral) or argument.kind in (TemporalKind.DATE, TemporalKind.TIME):
            advice = f"Write {kind.value}(TIMESTAMP '2026-01-31 12:00:00')."
            raise context.error(argument or node, f"{kind.value} takes a TIMESTAMP", advice)
        return _from_timestamp(context, kind, argument)
    if argument is None:
        return StartMode(kind)
    if kind in _BEGINNINGS:
        raise context.error(argument, f"{kind.value} takes nothing in parentheses")
    if not isinstance(argument, IntervalLiteral):
        raise context.error(argument, f"{kind.value} takes an interval", f"Write {kind.value}(INTERVAL '7' DAY).")
    return _before_now(context, kind, argument)


def _value(context: BindContext, node: SqlExpression) -> tuple[int, LogicalType]:
    """The number that a literal stands for, and its type."""
    try:
        found = literal(node, context.text(node))
    except BadLiteralError as error:
        raise context.error(node, str(error)) from None
    return int(found.value), found.type


def _from_timestamp(context: BindContext, kind: StartModeKind, node: TemporalLiteral) -> StartMode:
    """A time of UTC, or of the time zone of the session where the literal says so; as Flink keeps it."""
    value, given = _value(context, node)
    assert isinstance(given, AtomicType)
    micros = value // 1000 if given.has_nanoseconds else value
    if given.root is TypeRoot.TIMESTAMP_LTZ:
        zone = Configuration.from_dict(context.options).get(LOCAL_TIME_ZONE)
        micros = int(to_utc(np.array([micros]), zone)[0])
    return StartMode(kind, f"{node.kind.value} {quoted_literal(node.text)}", milliseconds=micros // 1000)


def _before_now(context: BindContext, kind: StartModeKind, node: IntervalLiteral) -> StartMode:
    value, _ = _value(context, node)
    if value <= 0 or node.qualifier.last is not None:
        reason = f"{kind.value} takes a positive interval of one unit: SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR"
        raise context.error(node, reason, f"Write {kind.value}(INTERVAL '7' DAY).")
    argument = " ".join(context.text(node).split())
    if node.qualifier.first in _OF_MONTHS:
        return StartMode(kind, argument, months=value)
    return StartMode(kind, argument, milliseconds=value // 1000)
