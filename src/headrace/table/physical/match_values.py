"""Compilation of ``MEASURES`` and ``DEFINE`` to expressions over the rows of matches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.common.configuration import Configuration
from headrace.common.errors import UnsupportedOperationError
from headrace.common.logical_types import RowType, TypeRoot
from headrace.common.typeinfo.types import type_of_logical
from headrace.operators.aggregates.calls import AggregateOperation
from headrace.operators.pattern.matched_rows import (
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
    MatchClauses,
    PatternAggregate,
    PatternExclusion,
    PatternGroup,
    PatternQuantity,
    PatternRef,
)
from headrace.table.logical.scalars import Call, Cast, InputRef, Literal, Scalar
from headrace.table.logical.schema import Field, Schema, TimeAttribute
from headrace.table.physical.compilation import compiled_all
from headrace.table.physical.scalar_text import infix_text
from headrace.table.physical.times import UsedTimes


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
