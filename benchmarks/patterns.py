"""Patterns of events that headrace and Flink's library look for: as headrace states them, with two kinds of conditions.

``programs/FlinkPatterns.java`` states the same ones under the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from headrace.cep import AfterMatchSkipStrategy, ConditionContext, Pattern
from headrace.common import Duration
from headrace.expressions import Expression, col, last

_WITHIN = Duration.of_seconds(10)


class PricedEvent(Protocol):
    """The fields of an event that conditions look at."""

    @property
    def price(self) -> float:
        """From 0 to 100, at random."""

    @property
    def ok(self) -> bool:
        """True for seven events of ten, at random."""


_Condition = Expression | Callable[[PricedEvent], bool]
_Iterative = Expression | Callable[[PricedEvent, ConditionContext], bool]


def is_small(event: PricedEvent) -> bool:
    """Accept a price that one event in ten has."""
    return event.price < 10.0


def is_large(event: PricedEvent) -> bool:
    """Accept a price that one event in ten has."""
    return event.price >= 90.0


def is_ok(event: PricedEvent) -> bool:
    """Accept a success."""
    return event.ok


def is_not_ok(event: PricedEvent) -> bool:
    """Accept a failure."""
    return not event.ok


def falls(event: PricedEvent, context: ConditionContext) -> bool:
    """Accept a price below the one that was taken last."""
    return bool(event.price < (context.events("down") or context.events("start"))[-1].price)


def rises(event: PricedEvent, context: ConditionContext) -> bool:
    """Accept a price above the one that was taken last."""
    down = context.events("down")
    return bool(down) and event.price > down[-1].price


def _small_then_large(small: _Condition, large: _Condition) -> Pattern[PricedEvent]:
    begun: Pattern[PricedEvent] = Pattern.begin("small")
    return begun.where(small).followed_by("large").where(large).within(_WITHIN)


def _falling_then_rising(fall: _Iterative, rise: _Iterative) -> Pattern[PricedEvent]:
    begun: Pattern[PricedEvent] = Pattern.begin("start", AfterMatchSkipStrategy.skip_past_last_event())
    return begun.next("down").where(fall).one_or_more().consecutive().next("up").where(rise)


def _failures_then_success(fails: _Condition, succeeds: _Condition) -> Pattern[PricedEvent]:
    begun: Pattern[PricedEvent] = Pattern.begin("fail")
    return begun.where(fails).times(3).followed_by("success").where(succeeds).within(_WITHIN)


EXPRESSIONS: dict[str, Callable[[], Pattern[PricedEvent]]] = {
    "small-large": lambda: _small_then_large(col("price") < 10.0, col("price") >= 90.0),
    "falling": lambda: _falling_then_rising(
        col("price") < last("start", "down").price, col("price") > last("down").price
    ),
    "failures": lambda: _failures_then_success(~col("ok"), col("ok")),
    "rare": lambda: _small_then_large(col("price") < 0.1, col("price") >= 90.0),
}
"""Patterns whose conditions are expressions, by name."""

FUNCTIONS: dict[str, Callable[[], Pattern[PricedEvent]]] = {
    "small-large": lambda: _small_then_large(is_small, is_large),
    "falling": lambda: _falling_then_rising(falls, rises),
    "failures": lambda: _failures_then_success(is_not_ok, is_ok),
}
"""Patterns whose conditions are Python functions, by name; those of ``falling`` look at what was taken before."""
