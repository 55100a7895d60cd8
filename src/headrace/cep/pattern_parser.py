"""Patterns written as text: ``start:small followed_by+ end:large within 10 min``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic, TypeVar

from headrace.cep.after_match_skip_strategy import AfterMatchSkipStrategy
from headrace.cep.definition import PatternStructure
from headrace.cep.pattern_text import CONNECTORS, INNER, UNITS
from headrace.cep.quantifier import QuantifierProperty
from headrace.cep.within_type import WithinType
from headrace.common.errors import HeadraceError, expect, refused
from headrace.common.other_names import alike
from headrace.operators.pattern.skip_strategies import SkipStrategy

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
_UNITS: Final = UNITS | {"days": UNITS["d"], "hours": UNITS["h"], "minutes": UNITS["min"], "seconds": UNITS["s"]}
_RESERVED: Final = _CONNECTORS | {*_INNER, *_SKIPS, *_SKIPS_TO_STAGE, "greedy", "until", "within", "gap"}


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
    """What a text says about how often a stage is repeated: nothing, at least so often, or also at most."""

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
        if self._takes("within"):
            pattern = self._call(pattern, "within", self._time())
        if skip is not None:
            self.at = len(self.tokens) - 1
        if self._now.kind != "end":
            hint = alike(self._now.text, _RESERVED)
            raise self._error(f"expected next, followed_by, within or the end{hint}")
        unused = sorted(set(self.conditions) - self.used)
        if unused:
            raise refused(f"the pattern {self.text!r} names no condition {', '.join(unused)}")
        return pattern

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
            pattern = self._call(pattern, "times", quantity.at_least, quantity.at_most, gap)
        for word, arguments in words.items():
            pattern = self._call(pattern, _INNER.get(word, word), *arguments)
        is_already = pattern.get_quantifier().has_property(QuantifierProperty.OPTIONAL)
        return self._call(pattern, "optional") if quantity.is_optional and not is_already else pattern

    def _words(self) -> dict[str, Any]:
        """What is said of a stage in words, in order, with what follows the words."""
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

    def _call(self, pattern: P, method: str, *arguments: Any) -> P:
        """Add to the pattern what the text says; what that refuses is refused here in the text."""
        try:
            added: P = getattr(pattern, method)(*arguments)
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
