"""The physical node of ``MATCH_RECOGNIZE``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from headrace.graph.pattern_specs import MatchSpec
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.match import SHOWN_ROW, MatchClauses, PatternRef
from headrace.table.logical.match import Match as LogicalMatch
from headrace.table.logical.scalars import Call, Cast, Scalar
from headrace.table.logical.schema import Schema, TimeAttribute
from headrace.table.physical.basic import Exchange
from headrace.table.physical.changelog_rules import ChangelogRule, Modify, never
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted
from headrace.table.physical.joins import Join
from headrace.table.physical.match_conditions import conditions_of
from headrace.table.physical.match_pattern import automaton_of
from headrace.table.physical.match_text import after_text, definition_texts, pattern_text, rows_text
from headrace.table.physical.match_values import MatchValues
from headrace.table.physical.node import (
    Edges,
    PhysicalNode,
    ScalarText,
    Terms,
    names_text,
    order_text,
    with_unique_names,
)
from headrace.table.physical.translation import GraphBuilder, by_key, record_type, sort_fields


@dataclass(frozen=True)
class Match(PhysicalNode):
    """One row for each match of a pattern in the rows of a partition, or for each row of it."""

    name: ClassVar[str] = "Match"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(never, takes=Modify.INSERT)
    input: PhysicalNode
    clauses: MatchClauses

    @cached_property
    def schema(self) -> Schema:
        return with_unique_names(self.clauses.schema(self.input.schema))

    @property
    def requires_watermark(self) -> bool:
        return any(column.time is TimeAttribute.ROWTIME for column in self.input.schema)

    def terms(self, text: ScalarText) -> Terms:
        clauses, names = self.clauses, self.input.schema.names
        if clauses.partition_by:
            yield "partitionBy", names_text([names[index] for index in clauses.partition_by])
        if clauses.order_by:
            yield "orderBy", order_text(clauses.order_by, self.input.schema)
        if clauses.measures:
            final = _unmarked if clauses.all_rows else _final
            shown = [f"{text(final(each.expression), names)} AS {each.name}" for each in clauses.measures]
            yield "measures", names_text(shown)
        yield "rowsPerMatch", rows_text(clauses)
        yield "after", after_text(clauses, is_logical=False)
        yield "pattern", pattern_text(clauses.pattern)
        if clauses.subsets:
            yield "subset", names_text([f"{name} = ({names_text(parts)})" for name, parts in clauses.subsets])
        definitions = [f"{name}={shown}" for name, shown in definition_texts(clauses).items()]
        yield "define", f"{{{names_text(definitions)}}}"

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        given, clauses = self.input.schema, self.clauses
        values = MatchValues.of(clauses, given, builder.settings)
        before, behind = clauses.columns(given)
        columns = [*self._shown(before), *(each.expression for each in clauses.measures), *self._shown(behind)]
        first, *others = clauses.order_by
        spec = MatchSpec(
            automaton=automaton_of(clauses, conditions_of(clauses, given, builder.settings)),
            expressions=values.expressions(columns, all_rows=clauses.all_rows, with_empty=clauses.with_empty),
            variables=values.variables,
            result_type=record_type(self.schema),
            time_field=None if given[first.index].time is TimeAttribute.PROCTIME else first.index,
            order=sort_fields(others),
        )
        return builder.add(spec, self.name, by_key(inputs[0], given, clauses.partition_by))

    def _shown(self, columns: Sequence[int]) -> list[PatternRef]:
        """Columns of the rows themselves; in one row for a match those of the partition, which all rows have."""
        made = []
        for index in columns:
            column = self.input.schema[index]
            attribute = column.time if self.clauses.all_rows else None
            made.append(PatternRef(SHOWN_ROW, index, column.name, attribute=attribute, type=column.type))
        return made


def _unmarked(measure: Scalar) -> Scalar:
    return measure


def _final(measure: Scalar) -> Scalar:
    return Call("FINAL", (measure,), type=measure.type)


@conversion_rule(LogicalMatch)
def _match(match: LogicalMatch, context: ConversionContext) -> PhysicalNode:
    clauses = match.clauses
    measures = tuple(replace(each, expression=_measure(each.expression)) for each in clauses.measures)
    definitions = tuple(replace(each, condition=_with_plain_times(each.condition)) for each in clauses.definitions)
    source = Exchange(converted(match.input, context), clauses.partition_by)
    if not context.is_batch and not _has_time(source, clauses.order_by[0].index):
        raise PlanningError(
            "MATCH_RECOGNIZE orders rows by a time attribute first, which they no longer have behind a regular join or "
            "an aggregation without windows"
        )
    return Match(source, replace(clauses, measures=measures, definitions=definitions))


def _has_time(source: PhysicalNode, index: int) -> bool:
    """Return whether a column is a time attribute; rows of a regular join are no longer in the order of time."""
    is_joined = any(type(node) is Join for node in source.walk())
    return not is_joined and source.schema[index].time is not None


def _measure(scalar: Scalar) -> Scalar:
    """A measure, whose times are plain ones, unless it is the time of the match itself."""
    is_time = isinstance(scalar, Call) and scalar.function in ("MATCH_ROWTIME", "MATCH_PROCTIME")
    return scalar if is_time else _with_plain_times(scalar)


def _with_plain_times(scalar: Scalar) -> Scalar:
    """A scalar that reads time attributes as plain times."""
    if isinstance(scalar, PatternRef) and scalar.time is not None:
        return replace(scalar, attribute=scalar.time, time=None)
    if isinstance(scalar, Call) and scalar.function in ("MATCH_ROWTIME", "MATCH_PROCTIME"):
        return Cast(scalar, type=scalar.type)
    return scalar.with_parts(Scalar, [_with_plain_times(part) for part in scalar.children])
