"""The pattern of ``MATCH_RECOGNIZE`` as an automaton.

What Flink takes is a pattern of ``headrace.cep``, with a stage for each variable, in strict order.
What it does not take finds the preferred match.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from headrace.cep.compiler import compile_pattern
from headrace.cep.pattern import Pattern
from headrace.common.errors import HeadraceError
from headrace.common.logical_types import IntervalType
from headrace.operators.pattern.automaton import Automaton
from headrace.operators.pattern.conditions import Condition
from headrace.operators.pattern.skip_strategies import SkipPastLastEvent, SkipStrategy, SkipToNext, SkipToStage
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.match import MatchClauses, PatternExclusion, PatternGroup, PatternQuantity
from headrace.table.logical.scalars import Literal, Scalar
from headrace.table.parse.tree.queries import AfterMatch
from headrace.table.physical.match_preferences import preferred_automaton

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
