"""The strategies by which other matches are dropped when one has been found, under Flink's names."""

from __future__ import annotations

from headrace.common.errors import expect
from headrace.operators.pattern.automaton import (
    NoSkip,
    SkipPastLastEvent,
    SkipStrategy,
    SkipToNext,
    SkipToStage,
)


class AfterMatchSkipStrategy:
    """A strategy by which other matches are dropped when one has been found; given to ``Pattern.begin``.

    With any strategy but ``no_skip``, a match is emitted when no partial match that began before it is left: it may be
    dropped because of one that began earlier and ends later.

    Examples:
        >>> from headrace.cep import AfterMatchSkipStrategy, Pattern
        >>> pattern = Pattern.begin("fall", AfterMatchSkipStrategy.skip_past_last_event()).one_or_more()
    """

    @staticmethod
    def no_skip() -> NoSkip:
        """Every match is emitted."""
        return NoSkip()

    @staticmethod
    def skip_to_next() -> SkipToNext:
        """Drop every other match that began with the same event."""
        return SkipToNext()

    @staticmethod
    def skip_past_last_event() -> SkipPastLastEvent:
        """Drop every match that began between the first and the last event of the match."""
        return SkipPastLastEvent()

    @staticmethod
    def skip_to_first(pattern_name: str) -> SkipToStage:
        """Drop every match that began before the first event of a stage."""
        expect(pattern_name, str, "skip_to_first()")
        return SkipToStage(pattern_name, is_last=False)

    @staticmethod
    def skip_to_last(pattern_name: str) -> SkipToStage:
        """Drop every match that began before the last event of a stage."""
        expect(pattern_name, str, "skip_to_last()")
        return SkipToStage(pattern_name, is_last=True)


__all__ = ["AfterMatchSkipStrategy", "SkipStrategy"]
