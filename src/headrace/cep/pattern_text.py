"""Patterns as text, and as drawings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from headrace.cep.definition import PatternStructure
from headrace.cep.quantifier import ConsumingStrategy, QuantifierProperty
from headrace.cep.within_type import WithinType
from headrace.operators.pattern.conditions import ALWAYS, And, Or

CONNECTORS: Final = {
    ConsumingStrategy.STRICT: "next",
    ConsumingStrategy.SKIP_TILL_NEXT: "followed_by",
    ConsumingStrategy.SKIP_TILL_ANY: "followed_by_any",
    ConsumingStrategy.NOT_NEXT: "not_next",
    ConsumingStrategy.NOT_FOLLOW: "not_followed_by",
}
"""What stands before a stage."""

UNITS: Final = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1000, "ms": 1}
"""Milliseconds of the units of time that texts are written with, the largest first."""

INNER: Final = {
    ConsumingStrategy.STRICT: "consecutive",
    ConsumingStrategy.SKIP_TILL_ANY: "combinations",
}
"""What may lie between the events of a stage, where it is not the usual."""

_ARROWS: Final = {
    ConsumingStrategy.STRICT: "│   directly",
    ConsumingStrategy.SKIP_TILL_NEXT: "┊   at the next event that fits",
    ConsumingStrategy.SKIP_TILL_ANY: "┊   at any later event that fits",
    ConsumingStrategy.NOT_NEXT: "│   directly not",
    ConsumingStrategy.NOT_FOLLOW: "┊   until the next stage never",
}


def text_of(pattern: PatternStructure[Any]) -> str:
    """A pattern in one line, without its conditions: ``small followed_by large+ within 10 min``."""
    parts = [_sequence_text(pattern)]
    window = _window(pattern)
    if window is not None:
        parts.append(f"within {time_text(window)}")
    skip = pattern.get_after_match_skip_strategy()
    if skip.skips:
        name = [] if skip.named_stage is None else [skip.named_stage]
        parts.append(" ".join([str(skip).partition("(")[0], *name]))
    return " ".join(parts)


def _sequence_text(pattern: PatternStructure[Any]) -> str:
    parts = []
    for stage in pattern.stages():
        if stage.get_previous() is not None:
            parts.append(CONNECTORS[stage.get_quantifier().consuming_strategy])
        name = stage.get_name() if stage.group is None else f"({_sequence_text(stage.group)})"
        parts.append(name + " ".join(_quantity(stage)))
    return " ".join(parts)


def drawing_of(pattern: PatternStructure[Any]) -> str:
    """A pattern as a drawing: a line for each stage with its condition, and what may lie between."""
    lines = [*_drawn(pattern, "")]
    window = _window(pattern)
    if window is not None:
        lines.append(f"within {time_text(window)} of the first event")
    lines.append(f"after a match: {pattern.get_after_match_skip_strategy()}")
    return "\n".join(lines)


def time_text(milliseconds: int) -> str:
    """A length of time in the largest unit that needs no fraction."""
    unit = next((unit for unit, size in UNITS.items() if milliseconds % size == 0 and milliseconds), "ms")
    return f"{milliseconds // UNITS[unit]} {unit}"


def _quantity(stage: PatternStructure[Any]) -> list[str]:
    """The quantifier of a stage: ``+``, ``{2,3}?``, and words."""
    quantifier, times = stage.get_quantifier(), stage.get_times()
    sign = ""
    if times is not None and quantifier.kind is QuantifierProperty.LOOPING:
        sign = "+" if times.from_times == 1 else f"{{{times.from_times},}}"
    elif times is not None:
        is_exact = times.from_times == times.to_times
        sign = f"{{{times.from_times}}}" if is_exact else f"{{{times.from_times},{times.to_times}}}"
    if quantifier.is_optional:
        sign = "*" if sign == "+" else sign + "?"
    words = [sign]
    if quantifier.is_greedy:
        words.append("greedy")
    if quantifier.inner_consuming_strategy in INNER:
        words.append(INNER[quantifier.inner_consuming_strategy])
    gap = stage.get_window_size(WithinType.PREVIOUS_AND_CURRENT) if times is None else times.gap
    if gap is not None:
        words.append(f"gap {time_text(gap)}")
    return words


def _drawn(pattern: PatternStructure[Any], indent: str) -> Iterator[str]:
    for stage in pattern.stages():
        if stage.get_previous() is not None:
            yield f"{indent}{_ARROWS[stage.get_quantifier().consuming_strategy]}"
        quantity = " ".join(_quantity(stage)).strip()
        if stage.group is not None:
            yield f"{indent}● group {quantity}".rstrip()
            yield from _drawn(stage.group, indent + "    ")
        else:
            condition = stage.get_condition()
            told = "any event" if condition is ALWAYS else str(condition)
            if isinstance(condition, And | Or):
                told = told.removeprefix("(").removesuffix(")")
            yield f"{indent}● {stage.get_name()}{' ' if quantity else ''}{quantity}: {told}"
        until = stage.get_until_condition()
        if until is not None:
            yield f"{indent}  until {until}"


def _window(pattern: PatternStructure[Any]) -> int | None:
    """The smallest window of the stages, those in groups included."""
    windows = [stage.get_window_size() for stage in pattern.stages()]
    windows += [_window(stage.group) for stage in pattern.stages() if stage.group is not None]
    return min((window for window in windows if window is not None), default=None)
