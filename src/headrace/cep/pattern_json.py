"""Patterns as JSON: the calls that make them, stage by stage, with conditions as the text of expressions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final, TypeVar

from headrace.cep.after_match_skip_strategy import AfterMatchSkipStrategy
from headrace.cep.definition import PatternStructure
from headrace.cep.pattern_parser import Begin
from headrace.cep.pattern_text import CONNECTORS
from headrace.cep.quantifier import ConsumingStrategy, QuantifierProperty
from headrace.cep.within_type import WithinType
from headrace.common.errors import refused
from headrace.common.other_names import alike
from headrace.expressions import Expression
from headrace.operators.pattern.conditions import ALWAYS, And, Condition, EventExpression, Or, TakenExpression
from headrace.operators.pattern.skip_strategies import NoSkip, SkipStrategy, SkipToStage

P = TypeVar("P", bound=PatternStructure[Any])
Json = dict[str, Any]

_GAP: Final = "gap"
_TIMES: Final = "times"
_THROW: Final = "throw"
_BEGINNINGS_OF_WORDS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_CONDITIONS: Final = {"where": "where", "or": "or_", "or_": "or_", "until": "until"}
_QUANTIFIERS: Final = frozenset({"one_or_more", "times", "times_or_more"})
_OTHERS: Final = frozenset({"optional", "greedy", "consecutive", "allow_combinations", "within"})
_CALLS: Final = frozenset({*_CONDITIONS, *_QUANTIFIERS, *_OTHERS})
_OPS: Final = frozenset({"begin", *CONNECTORS.values()})
_SKIPS: Final = frozenset({"no_skip", "skip_to_next", "skip_past_last_event", "skip_to_first", "skip_to_last"})


def pattern_to_json(pattern: PatternStructure[Any]) -> Json:
    """A pattern as JSON.

    Raises:
        InvalidProgramError: when a condition is no expression.
    """
    skip = pattern.get_after_match_skip_strategy()
    told: Json = {"stages": [_stage_to_json(stage) for stage in pattern.stages()]}
    return told if isinstance(skip, NoSkip) else {**told, "skip": _skip_to_json(skip)}


def _stage_to_json(stage: PatternStructure[Any]) -> Json:
    op = "begin" if stage.get_previous() is None else CONNECTORS[stage.get_quantifier().consuming_strategy]
    named: Json = {"name": stage.get_name()}
    if stage.group is not None:
        named = {"group": [_stage_to_json(inner) for inner in stage.group.stages()]}
    return {"op": op, **named, "calls": [*_calls(stage)]}


def _calls(stage: PatternStructure[Any]) -> list[list[Any]]:
    quantifier, until = stage.get_quantifier(), stage.get_until_condition()
    calls = [] if stage.get_condition() is ALWAYS else [["where", _text(stage.get_condition(), stage)]]
    repeated = _repeated(stage)
    inner = quantifier.inner_consuming_strategy
    words = {
        "consecutive": inner is ConsumingStrategy.STRICT,
        "allow_combinations": inner is ConsumingStrategy.SKIP_TILL_ANY,
        "greedy": quantifier.is_greedy,
        "optional": quantifier.is_optional and repeated[:2] != [_TIMES, 0],
    }
    calls += [repeated] if repeated else []
    calls += [[word] for word, is_said in words.items() if is_said]
    if until is not None:
        calls.append(["until", _text(until, stage)])
    windows = {kind: stage.get_window_size(kind) for kind in WithinType}
    return [*calls, *(["within", time, kind.name] for kind, time in windows.items() if time is not None)]


def _repeated(stage: PatternStructure[Any]) -> list[Any]:
    """The call that says how often a stage is repeated; nothing for one that is not."""
    quantifier, times = stage.get_quantifier(), stage.get_times()
    if times is None:
        return []
    gap = [] if times.gap is None else [{_GAP: times.gap}]
    if quantifier.kind is QuantifierProperty.LOOPING:
        return ["times_or_more", times.from_times, *gap]
    # A stage that may take no event is said so by times(0, n), which Flink allows where optional() is refused.
    at_least = 0 if quantifier.is_optional and times.from_times == 1 else times.from_times
    return [_TIMES, at_least, times.to_times, *gap]


def _text(condition: Condition, stage: PatternStructure[Any]) -> str:
    """A condition as the text of an expression."""
    return repr(_expression(condition, stage))


def _expression(condition: Condition, stage: PatternStructure[Any]) -> Expression:
    match condition:
        case EventExpression(Expression() as expression) | TakenExpression(expression):
            return expression
        case And(first, second):
            return _expression(first, stage) & _expression(second, stage)
        case Or(first, second):
            return _expression(first, stage) | _expression(second, stage)
    raise refused(
        f"the condition {condition} of {stage.get_name()} is no expression over columns, and has no text: say it with "
        "col(...)"
    )


def _skip_to_json(skip: SkipStrategy) -> list[str]:
    name = [] if skip.named_stage is None else [skip.named_stage]
    throws = [_THROW] if isinstance(skip, SkipToStage) and skip.fails_on_miss else []
    return [str(skip).partition("(")[0], *name, *throws]


def pattern_from_json(told: object, begin: Begin[P]) -> P:
    """A pattern that is told as JSON; methods may have Flink's names.

    Args:
        told: an object with its stages and its skip strategy, or the list of stages alone.
        begin: begins a pattern.

    Raises:
        InvalidProgramError: when it is none.
    """
    whole = told if isinstance(told, Mapping) else {"stages": told}
    _check_fields(whole, "a pattern", required=("stages",), others=("skip",))
    skip = None if whole.get("skip") is None else _skip_of(whole["skip"])
    return _sequence(whole["stages"], skip, begin)


def _sequence(stages: object, skip: SkipStrategy | None, begin: Begin[P]) -> P:
    if not isinstance(stages, Sequence) or isinstance(stages, str) or not stages:
        raise refused(f"the stages of a pattern are a list of at least one, not {stages!r}")
    made: P | None = None
    for stage in stages:
        _check_fields(stage, "a stage", required=(), others=("op", "name", "group", "calls"))
        name = _sequence(stage["group"], None, begin) if "group" in stage else stage.get("name")
        op = _name(stage.get("op", "begin" if made is None else None), _OPS, "what stands before a stage")
        if (op == "begin") is not (made is None):
            raise refused(f"begin stands before the first stage, and nowhere else; not {op} before {name!r}")
        made = begin(name, skip) if made is None else getattr(made, op)(name)
        made = reduce(_called, stage.get("calls", ()), made)
    assert made is not None
    return made


def _called(pattern: P, call: object) -> P:
    if not isinstance(call, Sequence) or isinstance(call, str) or not call:
        raise refused(f"a call is a list of a method and its arguments, not {call!r}")
    told, *arguments = call
    method = _name(told, _CALLS, "a method of patterns")
    options: Json = {}
    if method in _CONDITIONS:
        if len(arguments) != 1 or not isinstance(arguments[0], str):
            raise refused(f"{told} takes the text of an expression, not {arguments!r}")
    elif method in _QUANTIFIERS and arguments and isinstance(arguments[-1], Mapping):
        options["window_time"] = arguments.pop().get(_GAP)
    elif method == "within":
        arguments[1:] = [WithinType[_name(one, WithinType.__members__, "a kind of window")] for one in arguments[1:]]
    called = getattr(pattern, _CONDITIONS.get(method, method))
    try:
        added: P = called(*arguments, **options)
    except TypeError as error:
        raise refused(f"{told}: {error}") from None
    return added


def _skip_of(told: object) -> SkipStrategy:
    name, *rest = told if isinstance(told, list) else [told]
    made: Any = getattr(AfterMatchSkipStrategy, _name(name, _SKIPS, "a skip strategy"))
    try:
        strategy: Any = made(*rest[:1])
        return strategy.throw_exception_on_miss() if rest[1:] == [_THROW] else strategy  # type: ignore[no-any-return]
    except TypeError as error:
        raise refused(f"{name}: {error}") from None


def _name(told: object, known: Any, what: str) -> str:
    """A name as it is in Python, which may have been given as it is in Flink."""
    name = _BEGINNINGS_OF_WORDS.sub("_", told).lower() if isinstance(told, str) and told not in known else told
    if not isinstance(name, str) or name not in known:
        raise refused(f"{told!r} is not {what}{alike(str(name), list(known))}")
    return name


def _check_fields(told: object, what: str, required: Sequence[str], others: Sequence[str]) -> None:
    if not isinstance(told, Mapping):
        raise refused(f"{what} is an object with {', '.join((*required, *others))}, not {told!r}")
    unknown = [name for name in told if name not in (*required, *others)]
    missing = [name for name in required if name not in told]
    if unknown or missing:
        problem = (
            f"has no field {unknown[0]!r}{alike(str(unknown[0]), [*required, *others])}"
            if unknown
            else f"needs {missing[0]!r}"
        )
        raise refused(f"{what} {problem}")
