"""Definitions by ``CREATE``, ``ALTER`` and ``DROP MATERIALIZED TABLE``. The jobs are those of the environment."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from headrace.common.configuration import Configuration
from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot
from headrace.table.bind.context import BindContext
from headrace.table.bind.errors import misspelt
from headrace.table.bind.types import BadLiteralError, literal
from headrace.table.catalog.materialization import (
    Freshness,
    FreshnessUnit,
    Materialization,
    StartMode,
    partition_formatters,
)
from headrace.table.catalog.objects import CatalogTable, CatalogView, Column, ColumnKind, ObjectPath
from headrace.table.ddl.alter import altered
from headrace.table.ddl.tables import is_taken, path_of, table_of_query, view_of
from headrace.table.functions.casts import is_implicitly_castable
from headrace.table.functions.kernels.zones import to_utc
from headrace.table.functions.types import CHARACTERS, is_in
from headrace.table.options import (
    CONTINUOUS_FRESHNESS,
    FRESHNESS_THRESHOLD,
    FULL_FRESHNESS,
    LOCAL_TIME_ZONE,
    START_MODE,
)
from headrace.table.parse.format import literal as quoted_literal
from headrace.table.parse.tree import definitions as sql
from headrace.table.parse.tree.definitions import RefreshMode, StartModeKind
from headrace.table.parse.tree.expressions import IntervalLiteral, SqlExpression, TemporalKind, TemporalLiteral
from headrace.table.parse.tree.node import Path
from headrace.table.parse.tree.types import TimeUnit

PLANNED_ACTIONS: Final = (
    sql.Suspend,
    sql.Resume,
    sql.Refresh,
    sql.SetOptions,
    sql.ResetOptions,
    sql.SetFreshness,
    sql.SetRefreshMode,
)
"""The actions of ``ALTER MATERIALIZED TABLE`` that are valid whether the table exists or not, as in Flink."""

_UNITS: Final = {unit.name: unit for unit in FreshnessUnit}


def materialized_table(context: BindContext, node: sql.CreateMaterializedTable) -> CatalogTable:
    """The table that ``CREATE MATERIALIZED TABLE`` defines.

    Raises:
        SqlValidationError: when its query, its columns or keys, its freshness, its start mode or an option is wrong.
    """
    freshness, mode = _refresh_of(context, node)
    start = _start_of(context, node, mode)
    view = view_of(context, node.query)
    known = {column.name: column for column in view.columns}
    for name in node.partitioned_by:
        if name.text not in known:
            raise context.error(name, f"partition column '{name}' is not in the query", misspelt(name.text, known))
    for element in node.elements:
        if isinstance(element, sql.PhysicalColumn) and str(element.name) not in known:
            reason = f"column '{element.name}' is defined, and is not in the query"
            raise context.error(element, reason, misspelt(str(element.name), known))
    table = table_of_query(context, _as_create_table(node), view.schema)
    _check_formatters(context, node.options, table)
    names = view.schema.names
    made = Materialization(view.query, view.original, names, freshness, mode, start=start)
    return replace(table, materialization=made)


def _as_create_table(node: sql.CreateMaterializedTable) -> sql.CreateTable:
    """The statement as ``CREATE TABLE ... AS``."""
    return sql.CreateTable(
        node.table,
        node.elements,
        node.comment,
        node.distribution,
        node.partitioned_by,
        node.options,
        query=node.query,
        start=node.start,
        end=node.end,
    )


def _refresh_of(context: BindContext, node: sql.CreateMaterializedTable) -> tuple[Freshness, RefreshMode]:
    """The freshness and the mode; what is not written follows from the other, and from settings."""
    settings = Configuration.from_dict(context.options)
    if node.freshness is not None:
        freshness = freshness_of(context, node.freshness)
    else:
        default = FULL_FRESHNESS if node.refresh_mode is RefreshMode.FULL else CONTINUOUS_FRESHNESS
        freshness = Freshness.of_milliseconds(settings.get(default))
    is_continuous = freshness.milliseconds < settings.get(FRESHNESS_THRESHOLD)
    mode = node.refresh_mode or (RefreshMode.CONTINUOUS if is_continuous else RefreshMode.FULL)
    _check_schedule(context, node.freshness or node.table, freshness, mode)
    return freshness, mode


def freshness_of(context: BindContext, node: SqlExpression) -> Freshness:
    """The freshness of an interval.

    Raises:
        SqlValidationError: when it is no positive number of seconds, minutes, hours or days.
    """
    if isinstance(node, IntervalLiteral):
        unit, text = _UNITS.get(node.qualifier.first.name), node.text.strip()
        if unit is not None and node.qualifier.last is None and text.isdecimal() and int(text) > 0:
            return Freshness(int(text), unit)
    raise context.error(node, "FRESHNESS takes a positive number of SECOND, MINUTE, HOUR or DAY")


def _check_schedule(context: BindContext, node: SqlExpression | Path, freshness: Freshness, mode: RefreshMode) -> None:
    reason = freshness.reason_against_schedule
    if mode is RefreshMode.FULL and reason is not None:
        raise context.error(node, reason)


def _check_formatters(context: BindContext, options: tuple[sql.Option, ...], table: CatalogTable) -> None:
    """Refuse a pattern for what is no partition column, or no text."""
    for option in options:
        for name in partition_formatters(((option.key, option.value),)):
            column = table.column(name) if name in table.partition_keys else None
            if column is None:
                known = ", ".join(table.partition_keys) or "none"
                reason = f"column '{name}' of '{option.key}' is no partition column"
                raise context.error(option, reason, f"The partition columns are {known}.")
            if not is_in(column.type, CHARACTERS):
                raise context.error(option, f"'{option.key}' is of columns of text, and '{name}' is {column.type}")


def new_materialized_table(
    context: BindContext, node: sql.CreateMaterializedTable
) -> tuple[ObjectPath, CatalogTable, CatalogTable | None]:
    """The path of ``CREATE [OR ALTER] MATERIALIZED TABLE``, its table, and the one that it alters, if there is one.

    Raises:
        SqlValidationError: when the definition is not valid, or a table exists that is not to be altered, or not a
            materialized one.
    """
    path = path_of(context, node.table)
    before = context.catalogs.permanent_table(path)
    if before is None or not node.or_alter:
        table = materialized_table(context, node)
        is_taken(context, node.table, path, is_temporary=False, if_not_exists=False)
        return path, table, None
    if isinstance(before, CatalogView) or before.materialization is None:
        raise context.error(node.table, f"'{path}' is no materialized table, and only these are created or altered")
    return path, _redefined(context, node, before), before


def _redefined(context: BindContext, node: sql.CreateMaterializedTable, before: CatalogTable) -> CatalogTable:
    """The table of ``OR ALTER``: its query, options, freshness and start change, and columns are added at its end."""
    assert before.materialization is not None
    if node.refresh_mode not in (None, before.materialization.mode):
        reason = f"the refresh mode of a materialized table stays {before.materialization.mode.value}"
        raise context.error(node, reason, "DROP it, and CREATE it anew.")
    wanted = materialized_table(context, replace(node, refresh_mode=before.materialization.mode))
    assert wanted.materialization is not None
    _check_kept(context, node, before, wanted)
    given = {column.name: column for column in wanted.columns}
    columns = _with_new_columns(context, node, before, [given[name] for name in wanted.materialization.columns])
    kept = replace(
        before.materialization,
        query=wanted.materialization.query,
        original=wanted.materialization.original,
        columns=wanted.materialization.columns,
        freshness=before.materialization.freshness if node.freshness is None else wanted.materialization.freshness,
        start=wanted.materialization.start,
    )
    return replace(before, columns=columns, options=wanted.options, comment=wanted.comment, materialization=kept)


def _check_kept(
    context: BindContext, node: sql.CreateMaterializedTable, before: CatalogTable, wanted: CatalogTable
) -> None:
    """Refuse other keys and another distribution than the table has."""
    if before.partition_keys != wanted.partition_keys:
        raise context.error(node, "the partition columns of a materialized table stay as they are")
    if before.distribution != wanted.distribution:
        raise context.error(node, "the distribution of a materialized table stays as it is")
    keys = [table.primary_key.columns if table.primary_key is not None else () for table in (before, wanted)]
    if keys[0] != keys[1]:
        raise context.error(node, "the primary key changes by ALTER MATERIALIZED TABLE ... ADD or DROP PRIMARY KEY")


# --- ALTER -----------------------------------------------------------------------------------------------------------


def existing_materialized(
    context: BindContext, node: Path, *, is_planned: bool = False
) -> tuple[ObjectPath, CatalogTable]:
    """The materialized table at a path.

    Args:
        context: the statement.
        node: the path.
        is_planned: whether the statement is valid without the table, as in Flink, and only cannot be executed.

    Raises:
        SqlValidationError: when there is none, or it is a table of another kind.
        SqlPlanError: likewise.
    """
    path = context.catalogs.qualify(node.texts)
    found = context.catalogs.table(path)
    if isinstance(found, CatalogTable) and found.materialization is not None:
        return path, found
    if found is None:
        missing = context.missing_table(node, path, "materialized table")
        raise context.unplanned(node, missing.reason, missing.advice) if is_planned else missing
    word = "view" if isinstance(found, CatalogView) else "table"
    refuse = context.unplanned if is_planned else context.error
    raise refuse(node, f"'{path}' is a {word}, and no materialized table", "Leave MATERIALIZED out.")


def altered_materialized(context: BindContext, node: sql.Alter, table: CatalogTable) -> CatalogTable:
    """A materialized table after an action that changes its definition.

    Raises:
        SqlValidationError: when it cannot be changed so.
    """
    action = node.action
    assert table.materialization is not None
    if isinstance(action, sql.SetQuery):
        return _with_query(context, action, table)
    if isinstance(action, sql.SetFreshness):
        freshness = freshness_of(context, action.freshness)
        _check_schedule(context, action.freshness, freshness, table.materialization.mode)
        return replace(table, materialization=replace(table.materialization, freshness=freshness))
    if isinstance(action, sql.SetRefreshMode):
        if action.mode is table.materialization.mode:
            return table
        reason = f"the refresh mode of a materialized table stays {table.materialization.mode.value}"
        raise context.error(action, reason, "DROP it, and CREATE it anew.")
    _refuse_stored(context, action, table)
    changed = altered(context, table, action)
    if isinstance(action, sql.SetOptions):
        _check_formatters(context, action.options, changed)
    return changed


def _refuse_stored(context: BindContext, action: sql.AlterAction, table: CatalogTable) -> None:
    """Refuse new columns that the query does not give, and to drop those that it does."""
    if isinstance(action, sql.ChangeSchema):
        for change in action.changes:
            element = change.element
            name = str(element.name) if isinstance(element, sql.ColumnDefinition) else ""
            is_stored = isinstance(element, sql.PhysicalColumn) or (
                isinstance(element, sql.MetadataColumn) and not element.is_virtual
            )
            if is_stored and action.is_add:
                advice = "Change the query: ALTER MATERIALIZED TABLE ... AS SELECT ..."
                raise context.error(element, f"column '{name}' is not in the query of the table", advice)
    elif isinstance(action, sql.DropColumns):
        for path in action.columns:
            column = table.column(str(path))
            if column is not None and column.is_persisted:
                advice = "Only computed and virtual columns are dropped."
                raise context.error(path, f"column '{path}' comes from the query of the table", advice)
    elif isinstance(action, sql.AddPartitions | sql.DropPartitions):
        advice = "Write REFRESH PARTITION (...) to compute one anew."
        raise context.error(action, "the partitions of a materialized table come from its query", advice)


def _with_query(context: BindContext, action: sql.SetQuery, table: CatalogTable) -> CatalogTable:
    """The table with another query, which may have further columns at its end."""
    view = view_of(context, action.query)
    columns = _with_new_columns(context, action, table, view.columns)
    assert table.materialization is not None
    changed = replace(table.materialization, query=view.query, original=view.original, columns=view.schema.names)
    return replace(table, columns=columns, materialization=changed)


def _with_new_columns(
    context: BindContext, node: sql.SetQuery | sql.CreateMaterializedTable, table: CatalogTable, given: Iterable[Column]
) -> tuple[Column, ...]:
    """The columns of a table whose query now gives others: those before stay, and new ones are nullable."""
    assert table.materialization is not None
    before_by_name = {column.name: column for column in table.columns}
    stored = [before_by_name[name] for name in table.materialization.columns]
    found = list(given)
    advice = "A changed query gives all columns as before, and may give more behind them."
    if len(found) < len(stored):
        reason = f"the table has {len(stored)} columns of its query, and the new query gives {len(found)}"
        raise context.error(node, f"{reason}: columns are not dropped", advice)
    for at, (before, now) in enumerate(zip(stored, found, strict=False)):
        if before.name != now.name or not is_implicitly_castable(now.type, before.type):
            reason = f"column {at + 1} is '{before.name}' {before.type}, and '{now.name}' {now.type} in the new query"
            raise context.error(node, f"{reason}: columns are not changed", advice)
    added = [
        Column(each.name, each.type.as_nullable(), ColumnKind.PHYSICAL, comment=each.comment)
        for each in found[len(stored) :]
    ]
    return (*table.columns, *added)


def check_altered_materialized(context: BindContext, node: sql.Alter) -> None:
    """Refuse ``ALTER MATERIALIZED TABLE`` of what is not a materialized table, and definitions that are not possible.

    Raises:
        SqlValidationError: when it is so.
    """
    if not isinstance(node.action, PLANNED_ACTIONS):
        _, table = existing_materialized(context, node.path)
        altered_materialized(context, node, table)


def refreshed_partition(context: BindContext, node: sql.Refresh, table: CatalogTable) -> dict[str, str]:
    """The partition of ``REFRESH PARTITION (...)``; empty for the whole table.

    Raises:
        SqlValidationError: when a column is not a partition column, or is not of text.
    """
    found = {}
    for each in node.partition:
        name, column = each.column.text, table.column(each.column.text)
        if column is None or name not in table.partition_keys:
            known = ", ".join(table.partition_keys) or "none"
            reason = f"'{name}' is no partition column of the table"
            raise context.error(each.column, reason, misspelt(name, table.partition_keys) or f"There are {known}.")
        if not is_in(column.type, CHARACTERS):
            reason = f"partition column '{name}' is {column.type}: only partitions by text are refreshed by themselves"
            raise context.error(each.column, reason, "REFRESH the whole table.")
        value = getattr(each.value, "value", None)
        if not isinstance(value, str):
            raise context.error(each, f"the value of partition column '{name}' is a text", f"Write {name} = '...'.")
        found[name] = value
    return found


_BEGINNINGS: Final = (StartModeKind.FROM_BEGINNING, StartModeKind.RESUME_OR_FROM_BEGINNING)
_TIMESTAMPS: Final = (StartModeKind.FROM_TIMESTAMP, StartModeKind.RESUME_OR_FROM_TIMESTAMP)
_OF_MONTHS: Final = (TimeUnit.YEAR, TimeUnit.QUARTER, TimeUnit.MONTH)


def _start_of(context: BindContext, node: sql.CreateMaterializedTable, mode: RefreshMode) -> StartMode:
    """The start of a table: the clause, or else the setting.

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
