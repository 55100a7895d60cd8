"""The physical node of ``MATCH_RECOGNIZE``: its pattern, conditions and measures for the operator, and its text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, ClassVar, Final

from headrace.cep.compiler import compile_pattern
from headrace.cep.pattern import Pattern
from headrace.common.configuration import Configuration
from headrace.common.errors import HeadraceError, UnsupportedOperationError
from headrace.common.logical_types import IntervalType, RowType, TypeRoot
from headrace.common.typeinfo.types import type_of_logical
from headrace.graph.pattern_specs import MatchSpec
from headrace.operators.aggregates.calls import AggregateOperation
from headrace.operators.pattern.automaton import Automaton, SkipPastLastEvent, SkipStrategy, SkipToNext, SkipToStage
from headrace.operators.pattern.conditions import And, Condition, EventExpression, Or
from headrace.operators.pattern.iterative_conditions import RowCondition
from headrace.operators.pattern.match_values import (
    AggregateOfMatch,
    MatchExpressions,
    NumberOfMatch,
    RowOfMatch,
    ShownRow,
    TimeOfMatch,
    ValueOfMatch,
    Variables,
)
from headrace.operators.record_times import RecordTime
from headrace.table.functions.python.aggregates import user_aggregate
from headrace.table.functions.types import INT, root_of, timestamp_ltz
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.match import (
    ALL_ROWS,
    SHOWN_ROW,
    LogicalMatch,
    MatchClauses,
    PatternAggregate,
    PatternExclusion,
    PatternGroup,
    PatternQuantity,
    PatternRef,
)
from headrace.table.logical.scalars import Call, Cast, InputRef, Literal, Scalar
from headrace.table.logical.schema import Field, Schema, TimeAttribute
from headrace.table.parse.tree.queries import AfterMatch
from headrace.table.physical.basic import Exchange
from headrace.table.physical.changelog_rules import ChangelogRule, Modify, never
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted
from headrace.table.physical.joins import Join
from headrace.table.physical.match_preferences import preferred_automaton
from headrace.table.physical.node import (
    Edges,
    PhysicalNode,
    ScalarText,
    Terms,
    names_text,
    order_text,
    with_unique_names,
)
from headrace.table.physical.scalar_text import CalciteText, infix_text
from headrace.table.physical.times import UsedTimes
from headrace.table.physical.translation import GraphBuilder, by_key, compiled_all, record_type, sort_fields


def variables_of(pattern: str | PatternGroup | PatternQuantity | PatternExclusion) -> Iterator[str]:
    """The variables of a pattern, in its order."""
    if isinstance(pattern, str):
        yield pattern
    else:
        for part in pattern.parts if isinstance(pattern, PatternGroup) else (pattern.part,):
            yield from variables_of(part)


@dataclass
class MatchValues:
    """The values of matches that scalars read, each once.

    Attributes:
        given: the columns of the rows.
        variables: the variables, by number.
        numbers: the numbers of variables, by their names and those of subsets.
        settings: the configuration of the session.
    """

    given: Schema
    variables: tuple[str, ...]
    numbers: Mapping[str, Variables]
    settings: Configuration
    found: dict[ValueOfMatch, Field] = field(default_factory=dict)

    @staticmethod
    def of(clauses: MatchClauses, given: Schema, settings: Configuration) -> MatchValues:
        """The values that the expressions of some clauses may read; none is there yet."""
        names = list(dict.fromkeys([*variables_of(clauses.pattern), *(each.variable for each in clauses.definitions)]))
        numbers: dict[str, Variables] = {ALL_ROWS: ()}
        numbers |= {name: (number,) for number, name in enumerate(names)}
        numbers |= {name: tuple(map(names.index, parts)) for name, parts in clauses.subsets}
        return MatchValues(given, tuple(names), numbers, settings)

    def expressions(
        self, scalars: Sequence[Scalar], *, all_rows: bool = False, with_empty: bool = True
    ) -> MatchExpressions:
        """Scalars as expressions over values of matches.

        Args:
            scalars: the scalars.
            all_rows: whether there is a result for each row of a match, or one for the match.
            with_empty: whether there is a result for a match without rows.

        Raises:
            PlanningError: when a scalar cannot be computed.
        """
        read = [self._read(scalar) for scalar in scalars]
        columns = Schema(tuple(self.found.values()))
        times = UsedTimes.of(read)
        if any(time is not RecordTime.PROCESSING_TIME for time in times.times):
            raise PlanningError("MATCH_RECOGNIZE has no random numbers, and no watermarks: compute them in a subquery")
        read = [times.read(scalar, columns) for scalar in read]
        named = Schema((*columns, *(Field(time.value, timestamp_ltz(6)) for time in times.times)))
        expressions = compiled_all(read, named, self.settings)
        clock = tuple(TimeOfMatch(is_clock=True) for _ in times.times)
        return MatchExpressions((*self.found, *clock), tuple(expressions), all_rows, with_empty)

    def _read(self, scalar: Scalar) -> Scalar:
        """A scalar over the columns of values."""
        if _is_clock(scalar):  # a column of processing times has no values
            return self._column(TimeOfMatch(is_clock=True), scalar)
        if isinstance(scalar, PatternRef):
            return self._column(self._row(scalar), scalar)
        if isinstance(scalar, PatternAggregate):
            return self._column(self._aggregate(scalar), scalar)
        if isinstance(scalar, Call) and scalar.function == "MATCH_NUMBER":
            return self._column(NumberOfMatch(), scalar)
        if isinstance(scalar, Call) and scalar.function == "MATCH_ROWTIME":
            return self._column(TimeOfMatch(is_clock=False, is_instant=_is_instant(scalar)), scalar)
        return scalar.with_parts(Scalar, [self._read(part) for part in scalar.children])

    def _column(self, value: ValueOfMatch, scalar: Scalar) -> InputRef:
        name = infix_text(scalar, self.given.names)
        self.found.setdefault(value, Field(name, scalar.type.as_nullable(), scalar.time))
        return InputRef(list(self.found).index(value), type=scalar.type.as_nullable(), time=scalar.time)

    def _row(self, ref: PatternRef) -> RowOfMatch | ShownRow:
        if ref.variable == SHOWN_ROW:
            return ShownRow(ref.index)
        is_first = ref.function == "FIRST"
        return RowOfMatch(self.numbers[ref.variable], ref.index, is_first, ref.offset, ref.physical, ref.is_final)

    def _aggregate(self, aggregate: PatternAggregate) -> AggregateOfMatch:
        over_rows = [of_row(operand) for operand in aggregate.operands]
        kinds = tuple(operand.type.as_nullable() for operand in aggregate.operands)
        columns = kinds or (INT,)  # a row has one at least
        names = tuple(map(str, range(len(columns))))
        literals = [(place, each.value) for place, each in enumerate(over_rows) if isinstance(each, Literal)]
        call = AggregateOperation(
            aggregate.function,
            tuple(range(len(kinds))),
            aggregate.type,
            infix_text(aggregate, self.given.names),
            constants=tuple((place, value) for place, value in literals if value is not None),
            options=aggregate.options,
            user=user_aggregate(aggregate.options),
        )
        operands = tuple(compiled_all(over_rows, self.given, self.settings))
        made = AggregateOfMatch(
            self.numbers[aggregate.variable],
            operands,
            call,
            type_of_logical(RowType(names, columns)),
            aggregate.is_final,
        )
        try:
            call.bind(made.operand_type)
        except UnsupportedOperationError as error:
            raise PlanningError(str(error)) from error
        return made


def of_row(scalar: Scalar) -> Scalar:
    """A scalar over columns of a row."""

    def column(node: Scalar) -> Scalar:
        return InputRef(node.index, type=node.type, time=node.time) if isinstance(node, PatternRef) else node

    return scalar.transform(column)


def _is_clock(scalar: Scalar) -> bool:
    if isinstance(scalar, PatternRef) and scalar.attribute is TimeAttribute.PROCTIME:
        return True
    return scalar.time is TimeAttribute.PROCTIME and not isinstance(scalar, Cast)


def _is_instant(scalar: Scalar) -> bool:
    return root_of(scalar.type) is TypeRoot.TIMESTAMP_LTZ


_text: Final = CalciteText(lambda index: f"${index}")

_TO_VARIABLE: Final = (AfterMatch.FIRST, AfterMatch.LAST)


def pattern_text(pattern: str | PatternGroup | PatternQuantity | PatternExclusion) -> str:
    """``((_UTF-16LE'A', PATTERN_QUANTIFIER(_UTF-16LE'B', 1, -1, false)), _UTF-16LE'C')``."""
    if isinstance(pattern, str):
        return variable_text(pattern)
    if isinstance(pattern, PatternQuantity):
        most = -1 if pattern.most is None else pattern.most
        flag = str(pattern.is_reluctant).lower()
        return f"PATTERN_QUANTIFIER({pattern_text(pattern.part)}, {pattern.least}, {most}, {flag})"
    if isinstance(pattern, PatternExclusion):
        return f"PATTERN_EXCLUDE({pattern_text(pattern.part)})"
    name = "|" if pattern.is_alternatives else ""
    return reduce(lambda left, right: f"{name}({left}, {right})", map(pattern_text, pattern.parts))


def variable_text(name: str) -> str:
    """A variable as plans show it: as a text."""
    return f"_UTF-16LE'{name}'"


def rows_text(clauses: MatchClauses) -> str:
    """Return which rows there are for a match."""
    if not clauses.all_rows:
        return "ONE ROW PER MATCH"
    return "ALL ROWS PER MATCH" if clauses.with_empty else "ALL ROWS PER MATCH OMIT EMPTY MATCHES"


def after_text(clauses: MatchClauses, *, is_logical: bool) -> str:
    """Return where the search goes on after a match."""
    after, variable = clauses.after, clauses.after_variable
    if after in _TO_VARIABLE and variable is not None:
        shown = variable_text(variable)
        return f"SKIP {after.value}({shown})" if is_logical else f"SKIP {after.value} {shown}"
    return f"FLAG(SKIP {after.value})" if is_logical else f"SKIP {after.value}"


def definition_texts(clauses: MatchClauses) -> dict[str, str]:
    """The conditions of variables, whose columns are numbered in all plans."""
    return {each.variable: _text(each.condition) for each in clauses.definitions}


def conditions_of(clauses: MatchClauses, given: Schema, settings: Configuration) -> dict[str, Condition]:
    """The conditions of the variables of a pattern, by name; a variable without one takes any row.

    Args:
        clauses: the clauses.
        given: the columns of the rows.
        settings: the configuration of the session.

    Raises:
        PlanningError: when a condition cannot be computed.
    """
    known = set(variables_of(clauses.pattern))
    return {
        each.variable: _VariableConditions(each.variable, clauses, given, settings).of(each.condition)
        for each in clauses.definitions
        if each.variable in known
    }


@dataclass(frozen=True)
class _VariableConditions:
    """Makes conditions of one variable."""

    variable: str
    clauses: MatchClauses
    given: Schema
    settings: Configuration

    def of(self, scalar: Scalar) -> Condition:
        """The condition that holds where a scalar is true."""
        if self._is_of_row(scalar):
            (expression,) = compiled_all((of_row(scalar),), self.given, self.settings)
            return EventExpression(expression)
        if isinstance(scalar, Call) and scalar.function in ("AND", "OR"):
            combine = And if scalar.function == "AND" else Or
            alone = [each for each in scalar.operands if self._is_of_row(each)]
            others = [self.of(each) for each in scalar.operands if not self._is_of_row(each)]
            first = [self.of(_joined(scalar, alone))] if alone else []
            return reduce(combine, [*first, *others])
        values = MatchValues.of(self.clauses, self.given, self.settings)
        (variable,) = values.numbers[self.variable]
        return RowCondition(values.expressions((scalar,)), variable, values.variables)

    def _is_of_row(self, scalar: Scalar) -> bool:
        """Return whether a scalar looks at the row alone."""
        if UsedTimes.of((scalar,)).times:
            return False
        return all(self._is_of_row_itself(node) for node in scalar.walk())

    def _is_of_row_itself(self, node: Scalar) -> bool:
        if isinstance(node, PatternRef):
            is_current = node.variable in (self.variable, ALL_ROWS) and node.function != "FIRST" and not node.offset
            is_current = is_current and not node.physical
            return is_current and TimeAttribute.PROCTIME not in (node.time, node.attribute)
        return not isinstance(node, PatternAggregate) and not (
            isinstance(node, Call) and node.function in ("MATCH_ROWTIME", "MATCH_PROCTIME")
        )


def _joined(call: Call, operands: list[Scalar]) -> Scalar:
    return operands[0] if len(operands) == 1 else Call(call.function, tuple(operands), type=call.type)


RowPattern = str | PatternGroup | PatternQuantity | PatternExclusion

_MICROS: Final = 1000


def automaton_of(clauses: MatchClauses, conditions: Mapping[str, Condition]) -> Automaton:
    """The automaton that looks for the pattern of some clauses.

    Args:
        clauses: the clauses.
        conditions: what a row has to satisfy to be mapped to a variable; any does where there is none.

    Raises:
        PlanningError: when no automaton looks for such a pattern.
    """
    try:
        if clauses.finds_preferred:
            window = 0 if clauses.within is None else _millis(clauses.within)
            return preferred_automaton(clauses, conditions, window, _skip_of(clauses))
        return compile_pattern(_pattern_of(clauses, conditions))
    except PlanningError:
        raise
    except HeadraceError as error:
        raise PlanningError(str(error)) from error


def _pattern_of(clauses: MatchClauses, conditions: Mapping[str, Condition]) -> Pattern[Any]:
    made: Pattern[Any] | None = None
    for name, quantity in _stages(clauses.pattern):
        made = Pattern.begin(name, _skip_of(clauses)) if made is None else made.next(name)
        condition: Any = conditions.get(name)
        if condition is not None:
            made = made.where(condition)
        if quantity is not None:
            made = _quantified(made, quantity)
    assert made is not None, "the parser refuses empty patterns"
    return made if clauses.within is None else made.within(_millis(clauses.within))


def _stages(pattern: RowPattern) -> Iterator[tuple[str, PatternQuantity | None]]:
    """The variables, each with its quantifier."""
    if isinstance(pattern, str):
        yield pattern, None
    elif isinstance(pattern, PatternQuantity):
        assert isinstance(pattern.part, str), "what repeats a group is not a pattern of Flink"
        yield pattern.part, pattern
    else:
        assert isinstance(pattern, PatternGroup), "exclusions are not patterns of Flink"
        for part in pattern.parts:
            yield from _stages(part)


def _quantified(stage: Pattern[Any], quantity: PatternQuantity) -> Pattern[Any]:
    least, most = quantity.least, quantity.most
    if (least, most) == (0, 1):
        return stage.optional()
    if most is not None:
        made = stage.times(least, most).consecutive()
    elif least == 0:
        made = stage.one_or_more().optional().consecutive()
    else:
        made = (stage.one_or_more() if least == 1 else stage.times_or_more(least)).consecutive()
    return made if quantity.is_reluctant or least == most else made.greedy()


def _skip_of(clauses: MatchClauses) -> SkipStrategy:
    if clauses.after is AfterMatch.NEXT_ROW:
        return SkipToNext()
    if clauses.after is AfterMatch.PAST_LAST_ROW:
        return SkipPastLastEvent()
    assert clauses.after_variable is not None, "SKIP TO FIRST and LAST name a variable"
    name = clauses.after_variable
    parts = dict(clauses.subsets).get(name, ())
    return SkipToStage(name, is_last=clauses.after is AfterMatch.LAST, fails_on_miss=True, parts=parts)


def _millis(within: Scalar) -> int:
    if not isinstance(within, Literal) or not isinstance(within.type, IntervalType) or within.type.unit.is_of_months:
        raise PlanningError("WITHIN takes an interval of days to seconds: WITHIN INTERVAL '5' MINUTE")
    return int(within.value) // _MICROS


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
        columns = [
            *self._row_columns(before),
            *(each.expression for each in clauses.measures),
            *self._row_columns(behind),
        ]
        first, *others = clauses.order_by
        spec = MatchSpec(
            automaton=automaton_of(clauses, conditions_of(clauses, given, builder.settings)),
            expressions=values.expressions(columns, all_rows=clauses.all_rows, with_empty=clauses.with_empty),
            variables=values.variables,
            result_type=record_type(self.schema),
            time_field=None if given[first.index].time is TimeAttribute.PROCTIME else first.index,
            order=sort_fields(others, given),
        )
        return builder.add(spec, self.name, by_key(inputs[0], given, clauses.partition_by))

    def _row_columns(self, columns: Sequence[int]) -> list[PatternRef]:
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
