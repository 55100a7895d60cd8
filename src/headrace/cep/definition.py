"""What a pattern is made of: its last stage, and the pattern before that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Generic

from headrace.cep.quantifier import Quantifier, Times
from headrace.cep.within_type import WithinType
from headrace.common.call_site import CallSite, caller
from headrace.common.type_variables import T
from headrace.operators.pattern.automaton import SkipStrategy
from headrace.operators.pattern.conditions import ALWAYS, Condition


@dataclass(frozen=True, eq=False, repr=False)
class PatternStructure(Generic[T]):
    """What a pattern is made of; :class:`headrace.cep.Pattern` adds how it is written."""

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
        """What an event has to satisfy to be taken by the stage."""
        return ALWAYS if self._condition is None else self._condition

    def get_until_condition(self) -> Condition | None:
        """What ends a looping stage."""
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
