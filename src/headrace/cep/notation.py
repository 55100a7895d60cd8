"""Notations of patterns: as text, which is also read, as drawings, and as JSON.

In JSON a pattern is the calls that make it, stage by stage, with conditions as the text of expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, Final, Generic, TypeVar

from headrace.cep.after_match_skip_strategy import AfterMatchSkipStrategy
from headrace.cep.definition import ConsumingStrategy, PatternStructure, QuantifierProperty, WithinType
from headrace.common.errors import HeadraceError, expect, refused
from headrace.common.other_names import alike
from headrace.expressions import Expression
from headrace.operators.pattern.automaton import NoSkip, SkipStrategy, SkipToStage
from headrace.operators.pattern.conditions import ALWAYS, And, Condition, EventExpression, Or, TakenExpression

CONNECTORS: Final = {
    ConsumingStrategy.STRICT: "next",
    ConsumingStrategy.SKIP_TILL_NEXT: "followed_by",
    ConsumingStrategy.SKIP_TILL_ANY: "followed_by_any",
    ConsumingStrategy.NOT_NEXT: "not_next",
    ConsumingStrategy.NOT_FOLLOW: "not_followed_by",
}
"""The contiguity before a stage, by what stands there."""

UNITS: Final = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1000, "ms": 1}
"""Milliseconds of the units of time that texts are written with, the largest first."""

INNER: Final = {
    ConsumingStrategy.STRICT: "consecutive",
    ConsumingStrategy.SKIP_TILL_ANY: "combinations",
}
"""The contiguity within a stage, where it is not the usual one."""

_CLOSING_NOT: Final = "┊   until the window has passed never"

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
            strategy = stage.get_quantifier().consuming_strategy
            is_closing = strategy is ConsumingStrategy.NOT_FOLLOW and stage is pattern
            yield f"{indent}{_CLOSING_NOT if is_closing else _ARROWS[strategy]}"
        quantity = " ".join(_quantity(stage)).strip()
        if stage.group is not None:
            yield f"{indent}● group {quantity}".rstrip()
            yield from _drawn(stage.group, indent + "    ")
        else:
            condition = stage.get_condition()
            source = "any event" if condition is ALWAYS else str(condition)
            if isinstance(condition, And | Or):
                source = source.removeprefix("(").removesuffix(")")
            yield f"{indent}● {stage.get_name()}{' ' if quantity else ''}{quantity}: {source}"
        until = stage.get_until_condition()
        if until is not None:
            yield f"{indent}  until {until}"


def _window(pattern: PatternStructure[Any]) -> int | None:
    """The smallest window of the stages, those in groups included."""
    windows = [stage.get_window_size() for stage in pattern.stages()]
    windows += [_window(stage.group) for stage in pattern.stages() if stage.group is not None]
    return min((window for window in windows if window is not None), default=None)


P = TypeVar("P", bound=PatternStructure[Any])
Conditions = Mapping[str, Any]
Begin = Callable[[Any, SkipStrategy | None], P]
"""Begins a pattern, to which the methods of patterns then add what the text says."""

_TOKEN: Final = re.compile(r"\s*(?:(?P<word>[^\W\d]\w*)|(?P<number>\d+)|(?P<sign>[:+*?{},()]))")
_CONNECTORS: Final = frozenset(CONNECTORS.values())
_INNER: Final = dict(zip(INNER.values(), ("consecutive", "allow_combinations"), strict=True))
_SKIPS: Final = {
    "no_skip": AfterMatchSkipStrategy.no_skip,
    "skip_to_next": AfterMatchSkipStrategy.skip_to_next,
    "skip_past_last_event": AfterMatchSkipStrategy.skip_past_last_event,
}
_SKIPS_TO_STAGE: Final = {
    "skip_to_first": AfterMatchSkipStrategy.skip_to_first,
    "skip_to_last": AfterMatchSkipStrategy.skip_to_last,
}
_ALL_SKIPS: Final[Mapping[str, Callable[..., SkipStrategy]]] = {**_SKIPS, **_SKIPS_TO_STAGE}
_UNITS: Final = UNITS | {"days": UNITS["d"], "hours": UNITS["h"], "minutes": UNITS["min"], "seconds": UNITS["s"]}
_RESERVED: Final = _CONNECTORS | {*_INNER, *_ALL_SKIPS, "greedy", "until", "within", "gap"}


def parse_pattern(text: str, conditions: Conditions, begin: Begin[P]) -> P:
    """Make a pattern of a text.

    Args:
        text: the text.
        conditions: the conditions that it names.
        begin: begins a pattern.

    Raises:
        InvalidProgramError: when it is no pattern; the message shows where.
    """
    expect(text, str, "parse()")
    return _Parser(text, _tokens(text), conditions, begin).whole()


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    kind: str
    at: int


@dataclass(slots=True)
class _Quantity:
    """The repetition of a stage in a text: none, a least number, or also a largest one."""

    at_least: int | None = None
    at_most: int | None = None
    is_optional: bool = False


@dataclass(slots=True)
class _Parser(Generic[P]):
    text: str
    tokens: list[_Token]
    conditions: Conditions
    begin: Begin[P]
    at: int = 0
    used: set[str] = field(default_factory=set)

    def whole(self) -> P:
        skip = self._skip_at_end()
        self.at = 0
        pattern = self._sequence(skip)
        has_window = self._takes("within")
        if has_window:
            pattern = self._call(pattern, "within", self._time())
        if skip is not None:
            self.at = len(self.tokens) - 1
        if self._now.kind != "end" and has_window:
            raise self._error("expected a skip strategy or the end: within is about the whole pattern, and ends it")
        if self._now.kind != "end":
            raise self._error(f"expected next, followed_by, within or the end{self._hint()}")
        unused = sorted(set(self.conditions) - self.used)
        if unused:
            raise refused(f"the pattern {self.text!r} names no condition {', '.join(unused)}")
        return pattern

    def _hint(self) -> str:
        """A hint at what the next word may have been meant as; a skip strategy in several words is one, as in SQL."""
        words = self._now.text
        if words.lower() == "skip":
            words = "_".join(token.text for token in self.tokens[self.at : -1])
        return alike(words, _RESERVED)

    def _skip_at_end(self) -> SkipStrategy | None:
        """The skip strategy, which ends the text but belongs to its beginning."""
        for at, token in enumerate(self.tokens):
            if token.text in _SKIPS or token.text in _SKIPS_TO_STAGE:
                self.at = at + 1
                skip = (
                    _SKIPS[token.text]() if token.text in _SKIPS else _SKIPS_TO_STAGE[token.text](self._name("stage"))
                )
                if self._now.kind != "end":
                    raise self._error("expected the end: a skip strategy is the last that is said")
                return skip
        return None

    # --- stages ---

    def _sequence(self, skip: SkipStrategy | None) -> P:
        pattern = self._stage(lambda name: self.begin(name, skip), _Quantity())
        while self._now.text in _CONNECTORS:
            append = partial(self._call, pattern, self._take().text)
            pattern = self._stage(append, self._quantity(_Quantity()))
        return pattern

    def _stage(self, append: Callable[[Any], P], quantity: _Quantity) -> P:
        if self._takes("("):
            pattern = append(self._sequence(None))
            if not self._takes(")"):
                raise self._error("expected )")
        else:
            name = self._name("stage")
            named = self._name("condition") if self._takes(":") else name
            pattern = append(name)
            if named != name or named in self.conditions:
                pattern = self._call(pattern, "where", self._condition(named))
        return self._with_options(pattern, self._quantity(quantity))

    def _quantity(self, quantity: _Quantity) -> _Quantity:
        if self._now.text in ("+", "*"):
            quantity = _Quantity(1, None, self._take().text == "*")
        elif self._takes("{"):
            at_least = self._number()
            at_most: int | None = at_least
            if self._takes(","):
                at_most = self._number() if self._now.kind == "number" else None
            if not self._takes("}"):
                raise self._error("expected }")
            quantity = _Quantity(at_least, at_most)
        if self._takes("?"):
            quantity.is_optional = True
        return quantity

    def _with_options(self, pattern: P, quantity: _Quantity) -> P:
        words = self._words()
        gap = words.pop("gap", None)
        if quantity.at_least is None:
            pattern = self._call(pattern, "within", gap, WithinType.PREVIOUS_AND_CURRENT)
        elif quantity.at_most is None:
            pattern = self._call(pattern, "times_or_more", quantity.at_least, gap)
        else:
            most = [quantity.at_most] if quantity.at_most else []  # {0} is no range, and refused as times(0)
            pattern = self._call(pattern, "times", quantity.at_least, *most, window_time=gap)
        for word, arguments in words.items():
            pattern = self._call(pattern, _INNER.get(word, word), *arguments)
        is_already = pattern.get_quantifier().has_property(QuantifierProperty.OPTIONAL)
        return self._call(pattern, "optional") if quantity.is_optional and not is_already else pattern

    def _words(self) -> dict[str, Any]:
        """The settings of a stage that are words, in order, with what follows the words."""
        words: dict[str, Any] = {}
        while self._now.text in (*_INNER, "greedy", "until", "gap"):
            word = self._take().text
            if word in words:
                raise self._error(f"{word} stands twice")
            if word == "gap":
                words[word] = self._time()
            else:
                words[word] = (self._condition(self._name("condition")),) if word == "until" else ()
        return words

    def _call(self, pattern: P, method: str, *arguments: Any, **options: Any) -> P:
        """Add to the pattern what the text says; what that refuses is refused here in the text."""
        try:
            added: P = getattr(pattern, method)(*arguments, **options)
        except HeadraceError as error:
            reason = str(error).partition("\n")[0]
            condition = arguments[0] if method in ("where", "until") else None
            raise self._error(f"{reason}: {condition}" if isinstance(condition, str) else reason) from None
        return added

    # --- words ---

    def _condition(self, name: str) -> Any:
        if name not in self.conditions:
            self.at -= 1
            raise self._error(f"there is no condition {name!r}{alike(name, list(self.conditions))}")
        self.used.add(name)
        return self.conditions[name]

    def _name(self, what: str) -> str:
        token = self._now
        if token.kind != "word" or token.text in _RESERVED:
            raise self._error(f"expected the name of a {what}")
        return self._take().text

    def _number(self) -> int:
        if self._now.kind != "number":
            raise self._error("expected a number")
        return int(self._take().text)

    def _time(self) -> int:
        number = self._number()
        if self._now.text not in _UNITS:
            raise self._error(f"expected a unit of time: {', '.join(UNITS)}")
        return number * _UNITS[self._take().text]

    @property
    def _now(self) -> _Token:
        return self.tokens[self.at]

    def _take(self) -> _Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def _takes(self, text: str) -> bool:
        if self._now.text != text or self._now.kind == "end":
            return False
        self.at += 1
        return True

    def _error(self, message: str) -> HeadraceError:
        return _error(self.text, self._now.at, message)


def _tokens(text: str) -> list[_Token]:
    tokens = []
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _error(text, at, "this is no part of a pattern")
        kind = found.lastgroup or ""
        tokens.append(_Token(found[kind], kind, found.start(kind)))
        at = found.end()
    return [*tokens, _Token("", "end", len(text))]


def _error(text: str, at: int, message: str) -> HeadraceError:
    line = " ".join(text.splitlines()) if "\n" in text else text
    return refused(f"in the pattern: {message}\n  {line}\n  {' ' * at}^")


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


def pattern_to_json(pattern: PatternStructure[Any]) -> Json:
    """A pattern as JSON.

    Raises:
        InvalidProgramError: when a condition is no expression.
    """
    skip = pattern.get_after_match_skip_strategy()
    source: Json = {"stages": [_stage_to_json(stage) for stage in pattern.stages()]}
    return source if isinstance(skip, NoSkip) else {**source, "skip": _skip_to_json(skip)}


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


def pattern_from_json(source: object, begin: Begin[P]) -> P:
    """A pattern that is given as JSON; methods may have Flink's names.

    Args:
        source: an object with its stages and its skip strategy, or the list of stages alone.
        begin: begins a pattern.

    Raises:
        InvalidProgramError: when it is none.
    """
    whole = source if isinstance(source, Mapping) else {"stages": source}
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
        op = _name(stage.get("op", "begin" if made is None else None), _OPS, "an op of a stage")
        if (op == "begin") is not (made is None):
            raise refused(f"begin stands before the first stage, and nowhere else; not {op} before {name!r}")
        made = begin(name, skip) if made is None else getattr(made, op)(name)
        made = reduce(_called, stage.get("calls", ()), made)
    assert made is not None
    return made


def _called(pattern: P, call: object) -> P:
    if not isinstance(call, Sequence) or isinstance(call, str) or not call:
        raise refused(f"a call is a list of a method and its arguments, not {call!r}")
    source, *arguments = call
    method = _name(source, _CALLS, "a method of patterns")
    options: Json = {}
    if method in _CONDITIONS:
        if len(arguments) != 1 or not isinstance(arguments[0], str):
            raise refused(f"{source} takes the text of an expression, not {arguments!r}")
    elif method in _QUANTIFIERS and arguments and isinstance(arguments[-1], Mapping):
        options["window_time"] = arguments.pop().get(_GAP)
    elif method == "within":
        arguments[1:] = [WithinType[_name(one, WithinType.__members__, "a kind of window")] for one in arguments[1:]]
    called = getattr(pattern, _CONDITIONS.get(method, method))
    try:
        added: P = called(*arguments, **options)
    except TypeError as error:
        raise refused(f"{source}: {error}") from None
    return added


def _skip_of(source: object) -> SkipStrategy:
    name, *rest = source if isinstance(source, list) else [source]
    made: Any = _ALL_SKIPS[_name(name, _ALL_SKIPS, "a skip strategy")]
    try:
        strategy: Any = made(*rest[:1])
        return strategy.throw_exception_on_miss() if rest[1:] == [_THROW] else strategy  # type: ignore[no-any-return]
    except TypeError as error:
        raise refused(f"{name}: {error}") from None


def _name(source: object, known: Any, what: str) -> str:
    """A name as it is in Python, which may have been given as it is in Flink."""
    name = _BEGINNINGS_OF_WORDS.sub("_", source).lower() if isinstance(source, str) and source not in known else source
    if not isinstance(name, str) or name not in known:
        hint = alike(str(name), list(known)) or f": write {', '.join(sorted(known))}"
        raise refused(f"{source!r} is not {what}{hint}")
    return name


def _check_fields(source: object, what: str, required: Sequence[str], others: Sequence[str]) -> None:
    if not isinstance(source, Mapping):
        raise refused(f"{what} is an object with {', '.join((*required, *others))}, not {source!r}")
    unknown = [name for name in source if name not in (*required, *others)]
    missing = [name for name in required if name not in source]
    if unknown or missing:
        problem = (
            f"has no field {unknown[0]!r}{alike(str(unknown[0]), [*required, *others])}"
            if unknown
            else f"needs {missing[0]!r}"
        )
        raise refused(f"{what} {problem}")
