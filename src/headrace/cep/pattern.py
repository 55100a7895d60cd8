"""Patterns: sequences of stages, each with a condition, a quantifier and what may lie before it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Self

from headrace.cep.conditions import Given, condition_of
from headrace.cep.definition import (
    NOT_AFTER_OPTIONAL,
    ConsumingStrategy,
    PatternStructure,
    Quantifier,
    QuantifierProperty,
    Times,
    WithinType,
)
from headrace.cep.notation import drawing_of, parse_pattern, pattern_from_json, pattern_to_json, text_of
from headrace.common.constants import MAX_WATERMARK
from headrace.common.errors import InvalidTypeError, UnsupportedOperationError, expect, refused, shown
from headrace.common.notebooks import framed, preformatted
from headrace.common.time import Duration, Time, to_millis
from headrace.common.type_variables import T
from headrace.operators.pattern.automaton import NoSkip, SkipStrategy
from headrace.operators.pattern.conditions import And, Condition, EventType, Or

Span = Duration | Time | timedelta | int
"""A length of time; a number is milliseconds."""


@dataclass(frozen=True, eq=False, repr=False)
class Pattern(PatternStructure[T]):
    """A sequence of stages that events are matched to.

    A pattern is never changed: each method returns another one. Methods about a stage (``where``, ``times`` and so on)
    are about the last one.

    Examples:
        >>> from headrace.cep import Pattern
        >>> from headrace.common import Duration
        >>> from headrace.expressions import col
        >>> pattern = (
        ...     Pattern.begin("small").where(col("amount") < 1.0)
        ...     .followed_by("large").where(col("amount") > 500.0)
        ...     .within(Duration.of_minutes(1))
        ... )
        >>> print(pattern)
        small followed_by large within 1 min
    """

    # --- stages ------------------------------------------------------------------------------------------------------

    @classmethod
    def begin(cls, name: str | Pattern[T], after_match_skip_strategy: SkipStrategy | None = None) -> Pattern[T]:
        """Begin a pattern with a stage, or with a group of stages.

        Type checkers know the events of ``Pattern[Payment].begin("small")``.

        Args:
            name: the name of the stage, or the pattern that is the group.
            after_match_skip_strategy: which other matches are dropped when one has been found; by default none are.
        """
        skip = NoSkip() if after_match_skip_strategy is None else after_match_skip_strategy
        expect(skip, SkipStrategy, "begin()")
        return _stage("begin", name, None, ConsumingStrategy.STRICT, skip)

    @staticmethod
    def parse(text: str, conditions: Mapping[str, Given[Any]] | None = None) -> Pattern[Any]:
        """Make a pattern of a text, as ``str()`` gives one.

        Args:
            text: stages and what stands between them: ``start:small followed_by+ end:large within 10 min``.
            conditions: the conditions that it names. A stage without a condition has the one of its own name; if there
                is none, it takes any event.

        Raises:
            InvalidProgramError: when it is no pattern; the message shows where.

        Examples:
            >>> from headrace.cep import Pattern
            >>> from headrace.expressions import col
            >>> failed, ok = col("outcome") == "failed", col("outcome") == "ok"
            >>> pattern = Pattern.parse("failed{3} consecutive next ok within 10 s", {"failed": failed, "ok": ok})
        """
        return parse_pattern(text, conditions or {}, Pattern.begin)

    @staticmethod
    def from_json(source: str | Mapping[str, Any] | Sequence[Any]) -> Pattern[Any]:
        """Make a pattern of JSON, as :meth:`to_json` gives it.

        Args:
            source: the text, or what it stands for: an object with ``stages`` and ``skip``, or the list of stages.
                Conditions are texts of expressions, methods may have Flink's names.

        Raises:
            InvalidProgramError: when it is no pattern.

        Examples:
            >>> from headrace.cep import Pattern
            >>> stages = [
            ...     {"op": "begin", "name": "small", "calls": [["where", "amount < 1.0"]]},
            ...     {"op": "followedBy", "name": "large", "calls": [["where", "amount > 500"], ["within", 60000]]},
            ... ]
            >>> print(Pattern.from_json(stages))
            small followed_by large within 1 min
        """
        if isinstance(source, str):
            try:
                source = json.loads(source)
            except ValueError as error:
                raise refused(f"from_json(): this is no JSON: {error}") from None
        return pattern_from_json(source, Pattern.begin)

    def to_json(self) -> str:
        r"""The pattern as JSON; conditions have to be expressions.

        Raises:
            InvalidProgramError: when one is not.

        Examples:
            >>> from headrace.cep import Pattern
            >>> from headrace.expressions import col
            >>> Pattern.begin("a").where(col("x") > 1).to_json()
            '{"stages": [{"op": "begin", "name": "a", "calls": [["where", "col(\"x\") > 1"]]}]}'
        """
        return json.dumps(pattern_to_json(self), ensure_ascii=False)

    def next(self, name: str | Pattern[T]) -> Pattern[T]:
        """Add a stage, or a group, whose event follows directly: no other event of the key lies between."""
        return self._append("next", name, ConsumingStrategy.STRICT)

    def followed_by(self, name: str | Pattern[T]) -> Pattern[T]:
        """Add a stage, or a group, that takes the next event that satisfies it; others before that one are ignored."""
        return self._append("followed_by", name, ConsumingStrategy.SKIP_TILL_NEXT)

    def followed_by_any(self, name: str | Pattern[T]) -> Pattern[T]:
        """Add a stage, or a group, that takes each later event that satisfies it, in a match of its own."""
        return self._append("followed_by_any", name, ConsumingStrategy.SKIP_TILL_ANY)

    def not_next(self, name: str) -> Pattern[T]:
        """Add a stage that the next event must not satisfy."""
        return self._append_not("not_next", name, ConsumingStrategy.NOT_NEXT)

    def not_followed_by(self, name: str) -> Pattern[T]:
        """Add a stage that no event may satisfy until the next stage; at the end of a pattern, within its window."""
        return self._append_not("not_followed_by", name, ConsumingStrategy.NOT_FOLLOW)

    def _append(self, method: str, name: str | Pattern[T], strategy: ConsumingStrategy) -> Pattern[T]:
        return _stage(method, name, self, strategy, self._skip)

    def _append_not(self, method: str, name: str, strategy: ConsumingStrategy) -> Pattern[T]:
        if isinstance(name, Pattern):
            raise refused(f"{method}() takes the name of a stage, not a group", InvalidTypeError)
        if self._quantifier.is_optional:
            raise refused(NOT_AFTER_OPTIONAL, UnsupportedOperationError)
        return self._append(method, name, strategy)

    # --- conditions --------------------------------------------------------------------------------------------------

    def where(self, condition: Given[T]) -> Self:
        """Add a condition to the stage: an event has to satisfy all that was said so far, and this.

        Args:
            condition: an expression over the columns of the events, or its text; a function of the event, or one of the
                event and the context, which knows the events that the partial match has taken.
        """
        return self._satisfying(And, condition_of(condition, "where()"))

    def or_(self, condition: Given[T]) -> Self:
        """Add another way to satisfy the stage: all that was said so far, or this."""
        return self._satisfying(Or, condition_of(condition, "or_()"))

    def subtype(self, subtype_class: type[Any]) -> Pattern[Any]:
        """Require instances of a class beside all that was said so far."""
        expect(subtype_class, type, "subtype()")
        return self._satisfying(And, EventType(subtype_class))

    def _satisfying(self, combine: type[And | Or], condition: Condition) -> Self:
        whole = condition if self._condition is None else combine(self._condition, condition)
        return replace(self, _condition=whole)

    def until(self, until_condition: Given[T]) -> Self:
        """Let a looping stage end at an event, which is not taken by it and may be by the next stage."""
        condition = condition_of(until_condition, "until()")
        if self._until is not None:
            raise refused("Only one until condition can be applied.")
        if self._quantifier.kind is not QuantifierProperty.LOOPING:
            raise refused(
                "The until condition is only applicable to looping states. Call it after one_or_more() or "
                "times_or_more()"
            )
        return replace(self, _until=condition)

    # --- quantifiers -------------------------------------------------------------------------------------------------

    def one_or_more(self, window_time: Span | None = None) -> Self:
        """Let the stage take one or more events.

        Args:
            window_time: how long after the event before it the first event may come.
        """
        return self._repeated(Quantifier.looping, 1, 1, window_time, "one_or_more")

    def times(self, times: int, to: int | None = None, window_time: Span | None = None) -> Self:
        """Let the stage take a number of events, or from ``times`` to ``to``.

        Args:
            times: how many, or how many at least; from 0 on the stage is optional.
            to: how many at most.
            window_time: how long after the event before it an event may come, for all but the last.
        """
        expect(times, int, "times()")
        if isinstance(to, Duration | Time | timedelta):
            raise refused(
                f"times() takes an int as its second argument, not {shown(to)}: write times({times}, window_time=...)",
                InvalidTypeError,
            )
        if to is None:
            if times == 0:
                raise refused(
                    "You should give a positive number greater than 0. A stage that may take no event is times(0, n)"
                )
            return self._repeated(Quantifier.times, times, times, window_time, "times")
        expect(to, int, "times()")
        repeated = self._repeated(Quantifier.times, max(times, 1) if times == 0 else times, to, window_time, "times")
        return replace(repeated, _quantifier=repeated._quantifier.optional()) if times == 0 else repeated

    def times_or_more(self, times: int, window_time: Span | None = None) -> Self:
        """Let the stage take a number of events or more.

        Args:
            times: how many at least.
            window_time: how long after the event before it each of the first ``times`` events may come.
        """
        expect(times, int, "times_or_more()")
        return self._repeated(Quantifier.looping, times, times, window_time, "times_or_more")

    def _repeated(self, kind: Any, at_least: int, at_most: int, window_time: Span | None, method: str) -> Self:
        self._check_no_not()
        quantifier = self._quantifier
        if quantifier.kind is not QuantifierProperty.SINGLE:
            raise refused(f"Already applied quantifier to this Pattern. Current quantifier is: {quantifier}")
        if quantifier.is_optional:
            raise refused(f"optional() before {method}() would be lost: call it after {method}()")
        gap = None if window_time is None else to_millis(window_time, f"{method}()")
        return replace(self, _quantifier=kind(quantifier.consuming_strategy), _times=Times(at_least, at_most, gap))

    def optional(self) -> Self:
        """Let matches do without the stage."""
        if self._previous is not None and self._previous._quantifier.is_greedy:
            raise refused("Optional pattern cannot be preceded by greedy pattern")
        return replace(self, _quantifier=self._quantifier.optional())

    def greedy(self) -> Self:
        """Let the stage take as many events as it can: the next stage gets none that it could have taken."""
        self._check_no_not()
        return replace(self, _quantifier=self._quantifier.greedy())

    def consecutive(self) -> Self:
        """Allow no events between those of the stage."""
        return replace(self, _quantifier=self._quantifier.consecutive())

    def allow_combinations(self) -> Self:
        """Allow any events between those of the stage, also such as satisfy it."""
        return replace(self, _quantifier=self._quantifier.combinations())

    def _check_no_not(self) -> None:
        if self._quantifier.consuming_strategy.is_not:
            raise refused("Option not applicable to NOT pattern")

    # --- time --------------------------------------------------------------------------------------------------------

    def within(self, window_time: Span | None, within_type: WithinType = WithinType.FIRST_AND_LAST) -> Self:
        """Allow a match only so much time; a partial match times out when that has passed.

        Args:
            window_time: the time, exclusive; of several on one pattern the smallest counts.
            within_type: between which events: the first and the last of the match, or the first of this stage and the
                one before it.

        Raises:
            InvalidProgramError: when it is negative, or longer than all time.
        """
        expect(within_type, WithinType, "within()")
        if window_time is None:
            return self
        millis = to_millis(window_time, "within()")
        if not 0 <= millis <= MAX_WATERMARK:
            raise refused(f"within() takes 0 to 2^63 - 1 ms, not {millis} ms")
        windows = dict(self._windows) | {within_type: millis}
        return replace(self, _windows=tuple(windows.items()))

    # --- how it is shown ----------------------------------------------------------------------------------------------

    def explain(self) -> str:
        """The pattern as a drawing: its stages with their conditions, and what may lie between them.

        Examples:
            >>> from headrace.cep import Pattern
            >>> from headrace.expressions import col
            >>> print(Pattern.begin("a").where(col("x") > 1).times(2, 3).next("b").within(1500).explain())
            ● a {2,3}: col("x") > 1
            │   directly
            ● b: any event
            within 1500 ms of the first event
            after a match: no_skip()
        """
        return drawing_of(self)

    def _repr_html_(self) -> str:
        return framed("Pattern", {}, preformatted(self.explain()))

    def __str__(self) -> str:
        return text_of(self)

    def __repr__(self) -> str:
        return f"Pattern({text_of(self)})"


@dataclass(frozen=True, eq=False, repr=False)
class GroupPattern(Pattern[T]):
    """A group of stages, which is repeated and left out as a whole.

    Examples:
        >>> from headrace.cep import GroupPattern, Pattern
        >>> pair = Pattern.begin("up").next("down")
        >>> isinstance(Pattern.begin("start").followed_by(pair).times(2), GroupPattern)
        True
    """

    _group: PatternStructure[Any] | None = None

    @property
    def group(self) -> PatternStructure[Any] | None:
        return self._group

    def where(self, condition: Given[T]) -> Self:
        """Refuse: the stages of the group have conditions.

        Raises:
            UnsupportedOperationError: always.
        """
        raise refused("GroupPattern does not support where clause.", UnsupportedOperationError)

    def or_(self, condition: Given[T]) -> Self:
        """Refuse: the stages of the group have conditions.

        Raises:
            UnsupportedOperationError: always.
        """
        raise refused("GroupPattern does not support or clause.", UnsupportedOperationError)

    def subtype(self, subtype_class: type[Any]) -> Pattern[Any]:
        """Refuse: the stages of the group have conditions.

        Raises:
            UnsupportedOperationError: always.
        """
        raise refused("GroupPattern does not support subtype clause.", UnsupportedOperationError)

    def greedy(self) -> Self:
        """Refuse: a group is never greedy.

        Raises:
            InvalidProgramError: always.
        """
        self._check_no_not()
        raise refused("Option not applicable to group pattern")


def _stage(
    method: str,
    name: str | Pattern[T],
    previous: Pattern[T] | None,
    strategy: ConsumingStrategy,
    skip: SkipStrategy,
) -> Pattern[T]:
    quantifier = Quantifier.one(strategy)
    if isinstance(name, Pattern):
        if not isinstance(name._skip, NoSkip):
            raise refused(
                f"the skip strategy {name._skip} of a group would be lost: give it to the begin() of the whole pattern"
            )
        return GroupPattern(None, previous, quantifier, skip, _group=name)
    expect(name, str, f"{method}()")
    if not name or "\0" in name:
        raise refused(f"{method}() takes the name of a stage, which is not empty and has no null character")
    return Pattern(name, previous, quantifier, skip)
