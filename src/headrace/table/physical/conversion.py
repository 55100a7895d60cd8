"""Conversion of logical relations to physical nodes, with a rule for each kind of relation.

Of the conditions of a scan, those that compare columns and constants are given to its source.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final, TypeVar

import pyarrow as pa

from headrace.common.configuration import Configuration
from headrace.common.errors import HeadraceError
from headrace.common.logical_types import LogicalType, TypeRoot
from headrace.common.other_names import alike
from headrace.connectors.conditions import FLIPPED, Combination, Comparison, Condition, Negation, NullCheck
from headrace.formats.statistics import Statistics
from headrace.table.connectors import TABLE_CONNECTORS, ChangelogMode, TableContext
from headrace.table.connectors.table_sink import TableSink
from headrace.table.connectors.table_source import TableSource
from headrace.table.evaluation import ExpressionCompiler
from headrace.table.functions.casts import is_castable
from headrace.table.functions.types import DOUBLE, INT, root_of
from headrace.table.logical import relations as logical
from headrace.table.logical.errors import PlanningError, StartPositionError, TableDefinitionError
from headrace.table.logical.relations import LogicalWatermarkAssigner, Relation
from headrace.table.logical.scalars import Call, InputRef, Literal, Scalar, Subquery, input_refs
from headrace.table.logical.schema import Schema, TimeAttribute
from headrace.table.options import CDC_EVENTS_DUPLICATE, LOCAL_TIME_ZONE, START_POSITION, STATISTICS
from headrace.table.physical.basic import TableSourceScan, Union, ValuesScan, WatermarkAssigner, filtered, projected
from headrace.table.physical.changelog_rules import Modify, modify_kinds
from headrace.table.physical.node import PhysicalNode, with_unique_names
from headrace.table.physical.sinks import Sink
from headrace.table.rules.conditions import call
from headrace.table.rules.estimates import Estimates

R = TypeVar("R", bound=Relation)


@dataclass(frozen=True)
class ConversionContext:
    """The context of conversion rules.

    Attributes:
        is_batch: whether the statement runs in batch mode.
        settings: the configuration of the session.
        rules: conversion rules in place of the usual ones.
        sources: the sources of tables, by scan: equal scans have the same one.
        statistics: what is known of tables, which statements need again and again.
        estimates: estimates by which joins of batch mode are executed; None where plans are shown, or nothing is known.
        is_kept: whether the plan is kept, and executed when tables have other rows.
    """

    is_batch: bool
    settings: Configuration
    rules: ConversionRules = field(default_factory=dict, compare=False)
    sources: dict[logical.Scan, TableSource] = field(default_factory=dict, compare=False)
    statistics: dict[logical.Scan, Statistics | None] = field(default_factory=dict, compare=False)
    estimates: Estimates | None = field(default=None, compare=False)
    is_kept: bool = False

    @property
    def time_zone(self) -> str:
        """The time zone of the session."""
        return self.settings.get(LOCAL_TIME_ZONE)

    def does(self, node: PhysicalNode) -> Modify:
        """The kinds of changes that a node emits: insertions only in batch mode."""
        return Modify.INSERT if self.is_batch else modify_kinds(node)

    def is_normalized(self, scan: logical.Scan) -> bool:
        """Return whether a table's source gives upserts, or changes twice, of which a changelog is made first."""
        mode = table_source(scan, self).changelog_mode
        is_upsert = mode.takes_updates and not mode.takes_update_before
        return not self.is_batch and (is_upsert or self.has_duplicates(mode))

    def has_duplicates(self, mode: ChangelogMode) -> bool:
        """Return whether a source of these kinds may give a change twice."""
        return not mode.is_insert_only and self.settings.get(CDC_EVENTS_DUPLICATE)

    def can_project(self, scan: logical.Scan) -> bool:
        """Return whether a table's source can read a subset of its columns."""
        return not scan.metadata and table_source(scan, self).can_project


Rule = Callable[[Any, ConversionContext], PhysicalNode]
ConversionRules = Mapping[type[Relation], Rule]

RULES: Final[dict[type[Relation], Rule]] = {}
"""Conversion rules by class of relation; modules of rules add theirs."""


def conversion_rule(kind: type[Relation]) -> Callable[[Rule], Rule]:
    """Register the conversion rule of a class of relations."""

    def register(rule: Rule) -> Rule:
        RULES[kind] = rule
        return rule

    return register


_STREAMS: Final = "make streams of the tables (StreamTableEnvironment.to_data_stream), and join() or enrich() those"

_MISSING: Final[dict[type[Relation], str]] = {
    logical.Snapshot: f"FOR SYSTEM_TIME AS OF cannot be executed yet: {_STREAMS}",
}


def converted(relation: Relation, context: ConversionContext) -> PhysicalNode:
    """The physical tree of a relation.

    Raises:
        PlanningError: when no operator can compute it.
    """
    rule = context.rules.get(type(relation)) or RULES.get(type(relation))
    if rule is None:
        raise PlanningError(_MISSING.get(type(relation), f"{type(relation).__name__} cannot be executed yet"))
    return rule(relation, context)


@conversion_rule(logical.Scan)
def _scan(scan: logical.Scan, context: ConversionContext) -> PhysicalNode:
    source = table_source(scan, context)
    mode, name = source.changelog_mode, ".".join(scan.path)
    if context.is_batch and not mode.is_insert_only:
        raise PlanningError(
            f"batch mode reads tables of insertions alone, and table {name} gives updates or deletions ({mode}): use "
            "streaming mode"
        )
    if mode.takes_updates and not mode.takes_update_before and not scan.primary_key:
        raise PlanningError(
            f"table {name} gives updates without what was before them ({mode}), and has no primary key by which to "
            "find that: add PRIMARY KEY (...) NOT ENFORCED to its definition"
        )
    if not context.is_batch and context.has_duplicates(mode) and not scan.primary_key:
        raise PlanningError(
            f"{CDC_EVENTS_DUPLICATE.key} requires tables of changes to have a primary key, and {name} has none: add "
            "PRIMARY KEY (...) NOT ENFORCED to its definition"
        )
    return TableSourceScan(scan, _started(source, name, context))


def _started(source: TableSource, name: str, context: ConversionContext) -> TableSource:
    """The source that begins where the job of a materialized table is to begin."""
    start = context.settings.get(START_POSITION)
    if start is None:
        return source
    if (found := source.starting_at(start)) is not None:
        return found
    can_be_now = not start.is_now and source.starting_at(replace(start, is_now=True)) is not None
    advice = "START_MODE = FROM_NOW can" if can_be_now else "only FROM_BEGINNING can be said of it"
    place = "the present" if start.is_now else "a time"
    raise StartPositionError(f"table {name}: its connector, {source.summary}, cannot begin at {place}: {advice}")


@conversion_rule(logical.Sample)
def _sample(sample: logical.Sample, context: ConversionContext) -> PhysicalNode:
    """A filter by a random number for each row, whether the sample is of rows or of blocks."""
    source, share = converted(sample.input, context), Decimal(sample.percentage) / 100
    if share == 1:
        return source
    if context.does(source):
        raise PlanningError("TABLESAMPLE takes rows that are not updated: sample the table that the rows come from")
    seed = [] if sample.seed is None else [Literal(sample.seed, type=INT.not_null())]
    return filtered(source, call("<", call("RAND", *seed), Literal(float(share), type=DOUBLE.not_null())))


def table_source(scan: logical.Scan, context: ConversionContext) -> TableSource:
    """The source of a table.

    Raises:
        PlanningError: when the table has no connector.
        ConfigurationError: when there is no such connector, or options are wrong.
    """
    if isinstance(scan.inline, TableSource):
        return scan.inline
    if (known := context.sources.get(scan)) is not None:
        return known
    table = _scan_context(scan, context)
    source = context.sources[scan] = TABLE_CONNECTORS.load(_connector(table, scan.options)).create_source(table)
    _check_metadata(table, scan.columns, scan.metadata, source.readable_metadata, "reads")
    return source


def statistics_of(scan: logical.Scan, context: ConversionContext) -> Statistics | None:
    """The statistics of a table, whichever of its columns are read, and under which conditions."""
    if scan.inline is not None:
        return table_source(scan, context).statistics
    declared = scan.declared or scan.columns
    whole = replace(scan, columns=declared, declared=None, is_projected=False, primary_key=(), hints=())
    whole = replace(whole, filters=(), limit=None, expectations=())
    if whole not in context.statistics:
        context.statistics[whole] = table_source(scan, context).statistics
    return context.statistics[whole]


def known_statistics(scan: logical.Scan, context: ConversionContext) -> Statistics | None:
    """The statistics of a table; None where there are none, or it cannot be read in batch mode."""
    try:
        return statistics_of(scan, context)
    except HeadraceError:
        return None


def _check_metadata(
    table: TableContext,
    columns: Schema,
    reads: Sequence[logical.MetadataRead],
    known: Mapping[str, LogicalType],
    verb: str,
) -> None:
    """Refuse metadata that a connector does not have, or whose type does not fit the column."""
    for read in reads:
        if read.key not in known:
            hint = alike(read.key, known) or f": there are {', '.join(known)}" if known else ", nor any other"
            raise TableDefinitionError(f"table {table.name}: its connector {verb} no metadata {read.key!r}{hint}")
        column, kind = columns[read.index], known[read.key]
        source, target = (kind, column.type) if verb == "reads" else (column.type, kind)
        if not is_castable(source, target):
            raise TableDefinitionError(
                f"table {table.name}: column {column.name!r} is {column.type}, and the metadata {read.key!r} that its "
                f"connector {verb} is {kind}: declare the column with that type, and cast it in a computed column"
            )


def _context(
    path: tuple[str, str, str], table: logical.Scan | logical.Sink, context: ConversionContext
) -> TableContext:
    names = table.columns.names
    metadata = {read.index for read in table.metadata}
    physical = Schema(tuple(each for index, each in enumerate(table.columns) if index not in metadata))
    return TableContext(
        path=path,
        columns=physical.row_type(),
        primary_key=tuple(names[index] for index in table.primary_key),
        partition_keys=table.partition_keys,
        options={key: value for key, value in table.options if key != "connector"},
        settings=context.settings,
        is_batch=context.is_batch,
        takes_statistics=context.is_batch and context.settings.get(STATISTICS),
    )


def _scan_context(scan: logical.Scan, context: ConversionContext) -> TableContext:
    table = _context(scan.path, scan, context)
    stored = set(table.columns.names) - set(scan.partition_keys)
    of_stored = [each for each in scan.filters if {scan.columns.names[index] for index in input_refs(each)} <= stored]
    filters = source_conditions(of_stored, scan.columns, context.time_zone)
    declared = None if scan.declared is None else scan.declared.row_type()
    return replace(table, partitions=scan.partitions, filters=filters, limit=scan.limit, declared=declared)


def _connector(table: TableContext, options: tuple[tuple[str, Any], ...]) -> str:
    for key, value in options:
        if key == "connector":
            return str(value)
    close = difflib.get_close_matches("connector", [key for key, _ in options], 1)
    advice = f"write it instead of {close[0]!r}" if close else "give it one"
    raise TableDefinitionError(f"table {table.name} has no option 'connector', which says where its rows are: {advice}")


@conversion_rule(logical.Values)
def _values(values: logical.Values, _: ConversionContext) -> PhysicalNode:
    return ValuesScan(values.rows, with_unique_names(values.columns))


@conversion_rule(LogicalWatermarkAssigner)
def _watermark(assigner: LogicalWatermarkAssigner, context: ConversionContext) -> PhysicalNode:
    return WatermarkAssigner(converted(assigner.input, context), assigner.rowtime, assigner.watermark, assigner.options)


@conversion_rule(logical.Project)
def _project(project: logical.Project, context: ConversionContext) -> PhysicalNode:
    _refuse_subqueries(project.expressions)
    source = converted(project.input, context)
    times = [field.time for field in source.schema]  # fewer than in the query: joins and aggregates end them
    expressions = [
        replace(each, time=times[each.index]) if isinstance(each, InputRef) else each for each in project.expressions
    ]
    return projected(source, expressions, project.names)


@conversion_rule(logical.Filter)
def _filter(relation: logical.Filter, context: ConversionContext) -> PhysicalNode:
    _refuse_subqueries((relation.condition,))
    return filtered(converted(relation.input, context), relation.condition)


def _refuse_subqueries(scalars: Sequence[Scalar]) -> None:
    for node in (node for each in scalars for node in each.walk()):
        if isinstance(node, Subquery):
            raise PlanningError(f"a subquery in an expression ({node.kind.name}) cannot be executed yet: {_STREAMS}")


@conversion_rule(logical.SetOperation)
def _set_operation(operation: logical.SetOperation, context: ConversionContext) -> PhysicalNode:
    if operation.operator is not logical.SetOperator.UNION or not operation.is_all:
        raise PlanningError(f"{operation.operator.name} cannot be executed yet")
    arms = tuple(converted(arm, context) for arm in operation.arms)
    return Union(arms, with_unique_names(operation.columns))


def _overwriting(target: TableSink, table: TableContext, context: ConversionContext) -> TableSink:
    if (found := target.overwriting()) is None:
        raise PlanningError(
            f"INSERT OVERWRITE and full refreshes replace rows, and the connector of table {table.name} only adds to "
            "them: write INSERT INTO, or REFRESH_MODE = CONTINUOUS for a materialized table, or choose a connector "
            "that replaces them, such as 'filesystem'"
        )
    if not context.is_batch:
        raise PlanningError(
            "INSERT OVERWRITE runs in batch mode alone, since it replaces rows when the query has ended: set "
            "'execution.runtime-mode' = 'BATCH', or create the environment with EnvironmentSettings.in_batch_mode()"
        )
    return found


def table_sink(sink: logical.Sink, context: ConversionContext) -> TableSink:
    """The sink of a table.

    Raises:
        PlanningError: when the table has no connector, or its rows cannot be replaced.
        ConfigurationError: when there is no such connector, or options are wrong.
    """
    table = _context(sink.path, sink, context)
    target: TableSink | None = sink.inline
    if target is None:
        target = TABLE_CONNECTORS.load(_connector(table, sink.options)).create_sink(table)
    if sink.is_overwrite:
        target = _overwriting(target, table, context)
    _check_metadata(table, sink.columns, sink.metadata, target.writable_metadata, "writes")
    return target


@conversion_rule(logical.Sink)
def _sink(sink: logical.Sink, context: ConversionContext) -> PhysicalNode:
    target, is_staged = table_sink(sink, context), False
    if sink.staging is not None and context.is_batch:
        staged = target.staged(sink.staging)
        target, is_staged = staged or target, staged is not None
    source = converted(sink.input, context)
    _check_times(source.schema, _context(sink.path, sink, context), context)
    return Sink(source, sink, target, is_staged=is_staged)


def _check_times(schema: Schema, table: TableContext, context: ConversionContext) -> None:
    names = [field.name for field in schema if field.time is TimeAttribute.ROWTIME]
    if len(names) > 1 and not context.is_batch:
        raise PlanningError(
            f"The query contains more than one rowtime attribute column [{', '.join(names)}] for writing into table "
            f"'{table.name}': CAST(... AS TIMESTAMP(3)) makes those plain columns that are not the time of the rows"
        )


_FLOATS: Final = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_COMPARED: Final = (
    *(TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT, TypeRoot.DECIMAL),
    *(*_FLOATS, TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.DATE, TypeRoot.TIMESTAMP),
)


def source_conditions(conditions: Sequence[Scalar], columns: Schema, time_zone: str) -> tuple[Condition, ...]:
    """The conditions that sources can use: comparisons of columns and constants.

    Args:
        conditions: the conditions.
        columns: those of the table.
        time_zone: the session time zone.
    """
    translation = _ConditionTranslator(columns, ExpressionCompiler(lambda _: "a condition", time_zone))
    found = map(translation.condition, conditions)
    return tuple(each for each in found if each is not None)


class _ConditionTranslator:
    def __init__(self, columns: Schema, compiler: ExpressionCompiler) -> None:
        self._columns = columns
        self._compiler = compiler

    def condition(self, scalar: Scalar) -> Condition | None:
        """The condition for sources; None where there is none."""
        if not isinstance(scalar, Call):
            return None
        if scalar.function in ("AND", "OR"):
            parts = [self.condition(each) for each in scalar.operands]
            known = tuple(each for each in parts if each is not None)
            return Combination(scalar.function, known) if len(known) == len(parts) else None
        if scalar.function in ("IS NULL", "IS NOT NULL") and isinstance(scalar.operands[0], InputRef):
            return NullCheck(self._name(scalar.operands[0]), scalar.function == "IS NULL")
        if scalar.function == "NOT":
            inner = None if self._reads_floats(scalar) else self.condition(scalar.operands[0])
            return None if inner is None else Negation(inner)
        return self._comparison(scalar) if scalar.function in FLIPPED else None

    def _comparison(self, call: Call) -> Condition | None:
        """A comparison of a column and a constant. What is unequal may be NaN, which statistics do not count."""
        left, right = call.operands
        if {type(left), type(right)} != {InputRef, Literal}:
            return None
        roots = {root_of(each.type) for each in (left, right)}
        if not roots <= set(_COMPARED) or (call.function == "<>" and self._reads_floats(call)):
            return None
        if isinstance(left, InputRef):
            return Comparison(self._name(left), call.function, self._constant(right), right.type)
        assert isinstance(right, InputRef)
        return Comparison(self._name(right), FLIPPED[call.function], self._constant(left), left.type)

    def _reads_floats(self, scalar: Scalar) -> bool:
        return any(root_of(self._columns.types[index]) in _FLOATS for index in input_refs(scalar))

    def _constant(self, scalar: Scalar) -> pa.Scalar:
        row = pa.record_batch([pa.nulls(1, pa.int8())], names=["row"])
        return self._compiler.compile(scalar).column(row)[0]

    def _name(self, ref: InputRef) -> str:
        return self._columns.names[ref.index]
