"""Patterns and events of the conformance cases, made of their JSON."""

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

from headrace.cep import AfterMatchSkipStrategy, Pattern, SkipStrategy, WithinType
from headrace.expressions import Expression, coalesce, col, count_of, first, last, lit, sum_of
from headrace.operators.pattern.conditions import (
    And,
    Condition,
    ConditionContext,
    EventCall,
    IterativeCall,
    Not,
    Or,
)

_COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_OF_EVENT = {"true", "false", "name", "name_in", "price", "fail"}
_TOGETHER = {"and": And, "or": Or}
_METHODS = {
    "followedBy": "followed_by",
    "followedByAny": "followed_by_any",
    "notNext": "not_next",
    "notFollowedBy": "not_followed_by",
    "or": "or_",
    "oneOrMore": "one_or_more",
    "timesOrMore": "times_or_more",
    "allowCombinations": "allow_combinations",
}


@dataclass(frozen=True)
class Event:
    key: str
    id: str
    name: str
    price: float


class SubEvent(Event):
    pass


class SubSubEvent(SubEvent):
    pass


KINDS: dict[str, type[Event]] = {"Sub": SubEvent, "SubSub": SubSubEvent}


class Boom(Exception):
    """What the condition ``fail`` raises."""


def condition(told: list[Any]) -> Condition:
    kind, *parts = told
    if kind in _TOGETHER:
        whole = condition(parts[0])
        for part in parts[1:]:
            whole = _TOGETHER[kind](whole, condition(part))
        return whole
    if kind == "not":
        return Not(condition(parts[0]))
    if kind in _OF_EVENT:
        return EventCall(lambda event: _of_event(told, event))
    return IterativeCall(lambda event, context: _of_match(told, event, context))


def _of_event(told: list[Any], event: Event) -> bool:
    match told:
        case ["true"]:
            return True
        case ["false"]:
            return False
        case ["name", name]:
            return event.name == name
        case ["name_in", names]:
            return event.name in names
        case ["price", compare, value]:
            return bool(_COMPARE[compare](event.price, value))
    raise Boom("boom")


def _of_match(told: list[Any], event: Event, context: ConditionContext) -> bool:
    match told:
        case ["sum", stage, compare, value]:
            return bool(_COMPARE[compare](sum(one.price for one in context.events(stage)) + event.price, value))
        case ["last" | "first" as which, stage, compare, default]:
            events = context.events(stage)
            if not events:
                return bool(default)
            return bool(_COMPARE[compare](event.price, events[-1 if which == "last" else 0].price))
        case ["count", stage, compare, value]:
            return bool(_COMPARE[compare](len(context.events(stage)), value))
        case ["ts", compare, value]:
            return bool(_COMPARE[compare](context.timestamp(), value))
        case ["proctime", compare, value]:
            return bool(_COMPARE[compare](context.current_processing_time(), value))
    raise ValueError(told)


def expression(told: list[Any]) -> Expression:
    """The condition as an expression over the columns of the event and of those that were taken."""
    kind, *parts = told
    if kind in ("and", "or"):
        return reduce(operator.and_ if kind == "and" else operator.or_, map(expression, parts))
    if kind == "not":
        return ~expression(parts[0])
    return _EXPRESSIONS[kind](*parts)


def _compared(one: Expression, compare: str, other: Any) -> Expression:
    made: Expression = _COMPARE[compare](one, other)
    return made


_EXPRESSIONS: dict[str, Callable[..., Expression]] = {
    "true": lambda: lit(True),
    "false": lambda: lit(False),
    "name": lambda name: col("name") == name,
    "name_in": lambda names: col("name").is_in(names),
    "price": lambda compare, value: _compared(col("price"), compare, value),
    "sum": lambda stage, compare, value: _compared(sum_of(stage, "price") + col("price"), compare, value),
    "last": lambda stage, compare, default: coalesce(_compared(col("price"), compare, last(stage).price), default),
    "first": lambda stage, compare, default: coalesce(_compared(col("price"), compare, first(stage).price), default),
    "count": lambda stage, compare, value: _compared(count_of(stage), compare, value),
}
_NO_EXPRESSIONS = ("ts", "proctime", "fail", "subtype")


def are_all_expressions(case: dict[str, Any]) -> bool:
    """Return whether all conditions of a case can be expressions, and its events columns of one type."""
    said = [*_lists(case["pattern"])]
    names = {stage["name"] for stage in _stages(case["pattern"])}
    asked = {one[1] for one in said if one and one[0] in ("sum", "last", "first", "count")}
    is_of_one_type = all(item[-1] not in KINDS for item in case["input"])
    return is_of_one_type and asked <= names and not any(one and one[0] in _NO_EXPRESSIONS for one in said)


def _lists(told: Any) -> Iterator[list[Any]]:
    """All lists in what a case says."""
    if isinstance(told, list):
        yield told
    for each in told.values() if isinstance(told, dict) else told if isinstance(told, list) else ():
        yield from _lists(each)


def _stages(stages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for stage in stages:
        yield from _stages(stage["group"]) if "group" in stage else (stage,)


def skip_strategy(told: list[Any] | None) -> SkipStrategy | None:
    match told:
        case None:
            return None
        case ["skipToFirst" | "skipToLast" as kind, name, *throws]:
            make = (
                AfterMatchSkipStrategy.skip_to_first if kind == "skipToFirst" else AfterMatchSkipStrategy.skip_to_last
            )
            return make(name).throw_exception_on_miss() if throws else make(name)
        case [kind]:
            simple = {"noSkip": "no_skip", "skipToNext": "skip_to_next", "skipPastLastEvent": "skip_past_last_event"}
            return getattr(AfterMatchSkipStrategy, simple[kind])()
    raise ValueError(told)


def pattern(
    stages: list[dict[str, Any]],
    skip: SkipStrategy | None,
    condition: Callable[[list[Any]], Condition | Expression] = condition,
) -> Pattern[Any]:
    made: Pattern[Any] | None = None
    for stage in stages:
        name = stage.get("name")
        if "group" in stage:
            name = pattern(stage["group"], skip_strategy(stage.get("group_skip")), condition)
        if made is None:
            made = Pattern.begin(name, skip)
        else:
            made = getattr(made, _METHODS.get(stage["op"], stage["op"]))(name)
        for call in stage.get("calls", ()):
            made = _called(made, call, condition)
    assert made is not None
    return made


def _called(
    made: Pattern[Any], call: list[Any], condition: Callable[[list[Any]], Condition | Expression]
) -> Pattern[Any]:
    method, *arguments = call
    gap = arguments.pop()["gap"] if arguments and isinstance(arguments[-1], dict) else None
    called = getattr(made, _METHODS.get(method, method))
    if method in ("where", "or", "until"):
        return called(condition(arguments[0]))
    if method == "subtype":
        return made.subtype(KINDS.get(arguments[0], Event))
    if method == "within":
        return called(arguments[0], *(WithinType[one] for one in arguments[1:]))
    return called(*arguments, **({} if gap is None else {"window_time": gap}))
