"""The structure of a pattern: stages, each with its quantifier, from the last to the first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, Generic

from headrace.common.call_site import CallSite, caller
from headrace.common.errors import refused
from headrace.common.type_variables import T
from headrace.operators.pattern.automaton import SkipStrategy
from headrace.operators.pattern.conditions import ALWAYS, Condition


class WithinType(Enum):
    """Between which events of a match the time is measured that ``within`` allows.

    Examples:
        >>> from headrace.cep import Pattern, WithinType
        >>> from headrace.common import Duration
        >>> pattern = Pattern.begin("a").followed_by("b")
        >>> soon = pattern.within(Duration.of_seconds(5), WithinType.PREVIOUS_AND_CURRENT)
    """

    PREVIOUS_AND_CURRENT = "previous and current"
    """From the event before the stage to the first event of the stage."""

    FIRST_AND_LAST = "first and last"
    """From the first event of the match to its last one."""


NOT_AFTER_OPTIONAL: Final = (
    "Specifying a pattern with an optional path to NOT condition is not supported yet. You can simulate such pattern "
    "with two independent patterns, one with and the other without the optional part."
)
"""The reason why negation is refused behind what may be empty."""


class ConsumingStrategy(Enum):
    """The contiguity of a stage: which events may lie between those before it and its own."""

    STRICT = "strict"
    """No event: ``next``."""

    SKIP_TILL_NEXT = "relaxed"
    """Events that do not satisfy the stage: ``followed_by``."""

    SKIP_TILL_ANY = "relaxed, any"
    """Any events: ``followed_by_any``."""

    NOT_FOLLOW = "must not follow"
    """The stage takes none, and no event may satisfy it until the next stage: ``not_followed_by``."""

    NOT_NEXT = "must not be next"
    """The stage takes none, and the next event may not satisfy it: ``not_next``."""

    @property
    def is_not(self) -> bool:
        """True if events must not satisfy the stage."""
        return self in (ConsumingStrategy.NOT_FOLLOW, ConsumingStrategy.NOT_NEXT)


class QuantifierProperty(Enum):
    """The properties of a quantifier: it has one of the first three, and any of the others."""

    SINGLE = "single"
    LOOPING = "looping"
    TIMES = "times"
    OPTIONAL = "optional"
    GREEDY = "greedy"


@dataclass(frozen=True, slots=True)
class Times:
    """The number of times that a stage is repeated.

    Attributes:
        from_times: at least.
        to_times: at most; a looping stage repeats on from there.
        gap: milliseconds that may lie between repetitions; None for any.
    """

    from_times: int
    to_times: int
    gap: int | None = None

    def __post_init__(self) -> None:
        if self.from_times <= 0:
            raise refused("The from should be a positive number greater than 0.")
        if self.to_times < self.from_times:
            raise refused(f"The to should be a number greater than or equal to from: {self.from_times}.")


@dataclass(frozen=True, slots=True)
class Quantifier:
    """The number of events that a stage takes, and what may lie between them.

    Attributes:
        kind: one event, a fixed number or range, or any number.
        consuming_strategy: what may lie before the first event.
        inner_consuming_strategy: what may lie between the events.
        is_optional: whether the stage may take none.
        is_greedy: whether it takes as many as it can.
    """

    kind: QuantifierProperty
    consuming_strategy: ConsumingStrategy
    inner_consuming_strategy: ConsumingStrategy = ConsumingStrategy.SKIP_TILL_NEXT
    is_optional: bool = False
    is_greedy: bool = False

    @staticmethod
    def one(consuming_strategy: ConsumingStrategy) -> Quantifier:
        """One event."""
        return Quantifier(QuantifierProperty.SINGLE, consuming_strategy)

    @staticmethod
    def looping(consuming_strategy: ConsumingStrategy) -> Quantifier:
        """Any number of events."""
        return Quantifier(QuantifierProperty.LOOPING, consuming_strategy)

    @staticmethod
    def times(consuming_strategy: ConsumingStrategy) -> Quantifier:
        """A number of events, or one of a range."""
        return Quantifier(QuantifierProperty.TIMES, consuming_strategy)

    def has_property(self, wanted: QuantifierProperty) -> bool:
        """Return whether it has a property."""
        return wanted in self.properties

    @property
    def properties(self) -> tuple[QuantifierProperty, ...]:
        """Its properties."""
        more = {QuantifierProperty.OPTIONAL: self.is_optional, QuantifierProperty.GREEDY: self.is_greedy}
        return self.kind, *(one for one, is_set in more.items() if is_set)

    def combinations(self) -> Quantifier:
        """A quantifier between whose events any others may lie, those that fit as well."""
        self._check_repeats("Combinations")
        self._check_inner("Combinations", ConsumingStrategy.STRICT, ConsumingStrategy.SKIP_TILL_ANY)
        return replace(self, inner_consuming_strategy=ConsumingStrategy.SKIP_TILL_ANY)

    def consecutive(self) -> Quantifier:
        """A quantifier whose events directly follow one another."""
        self._check_repeats("Consecutive")
        self._check_inner("Consecutive", ConsumingStrategy.SKIP_TILL_ANY, ConsumingStrategy.STRICT)
        return replace(self, inner_consuming_strategy=ConsumingStrategy.STRICT)

    def optional(self) -> Quantifier:
        """A quantifier that may take no event."""
        if self.is_optional:
            raise refused("Optional already applied!")
        if self.consuming_strategy.is_not:
            raise refused("NOT pattern cannot be optional")
        return replace(self, is_optional=True)

    def greedy(self) -> Quantifier:
        """A quantifier that takes as many events as it can."""
        if self.inner_consuming_strategy is ConsumingStrategy.SKIP_TILL_ANY:
            raise refused(
                "Option not applicable to FollowedByAny pattern: greedy() and allow_combinations() exclude each other"
            )
        if self.kind is QuantifierProperty.SINGLE:
            raise refused("Option not applicable to singleton quantifier: call greedy() after times() or one_or_more()")
        return replace(self, is_greedy=True)

    def _check_repeats(self, option: str) -> None:
        if self.kind is QuantifierProperty.SINGLE:
            raise refused(f"{option} not applicable to {self}! Call it after times() or one_or_more()")

    def _check_inner(self, option: str, opposite: ConsumingStrategy, same: ConsumingStrategy) -> None:
        if self.inner_consuming_strategy is opposite:
            raise refused("You can apply either combinations or consecutive, not both!")
        if self.inner_consuming_strategy is same:
            raise refused(f"{option} already applied!")

    def __str__(self) -> str:
        properties = ", ".join(one.name for one in self.properties)
        return (
            f"Quantifier{{properties=[{properties}], consumingStrategy={self.consuming_strategy.name}, "
            f"innerConsumingStrategy={self.inner_consuming_strategy.name}}}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class PatternStructure(Generic[T]):
    """The stages of a pattern; :class:`headrace.cep.Pattern` adds the methods that define them."""

    _name: str | None
    _previous: PatternStructure[Any] | None
    _quantifier: Quantifier
    _skip: SkipStrategy
    _condition: Condition | None = None
    _until: Condition | None = None
    _times: Times | None = None
    _windows: tuple[tuple[WithinType, int], ...] = ()
    _site: CallSite = field(default_factory=caller)

    def get_name(self) -> str:
        """The name of the stage."""
        return self._name or "GroupPattern"

    def get_previous(self) -> PatternStructure[Any] | None:
        """The pattern without its last stage; None when it has but one."""
        return self._previous

    def get_quantifier(self) -> Quantifier:
        """The quantifier of the stage."""
        return self._quantifier

    def get_times(self) -> Times | None:
        """Return how often the stage is repeated; None when it is not."""
        return self._times

    def get_condition(self) -> Condition:
        """The condition that an event has to satisfy to be taken by the stage."""
        return ALWAYS if self._condition is None else self._condition

    def get_until_condition(self) -> Condition | None:
        """The condition that ends a looping stage."""
        return self._until

    def get_window_size(self, within_type: WithinType = WithinType.FIRST_AND_LAST) -> int | None:
        """The milliseconds that were said at this stage for ``within``; None when none were."""
        return dict(self._windows).get(within_type)

    def get_after_match_skip_strategy(self) -> SkipStrategy:
        """Return which other matches are dropped when one has been found."""
        return self._skip

    @property
    def group(self) -> PatternStructure[Any] | None:
        """The pattern that stands here as a group; None for a stage."""
        return None

    @property
    def site(self) -> CallSite:
        """The line of the program that added the stage."""
        return self._site

    def stages(self) -> Iterator[PatternStructure[Any]]:
        """The pattern as of each of its stages and groups, from the first on."""
        if self._previous is not None:
            yield from self._previous.stages()
        yield self
