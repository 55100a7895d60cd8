"""The parser's position in the tokens of a text, with methods to look ahead and to consume tokens."""

from collections.abc import Callable, Collection
from typing import Final, NoReturn, TypeVar

from headrace.table.parse.diagnosis import diagnose
from headrace.table.parse.keywords import NON_RESERVED
from headrace.table.parse.source import SqlParseError, SqlSource
from headrace.table.parse.tokens import NAME, QUOTED, STRING, Token, name_of, tokenize
from headrace.table.parse.tree.node import Name, Path

DEEPEST: Final = 150
"""The maximum depth of nested expressions and queries. Each takes a few frames of Python's limit of a thousand."""

NAMES: Final = NON_RESERVED | {NAME, QUOTED}
"""The kinds of tokens that are names."""

T = TypeVar("T")


class TokenCursor:
    """Iterates over the tokens of a text, only forwards.

    Parsers derive from it and test the kind of the next token with the methods here. These do not record which kinds
    were tested, which would double their cost. When a text is refused, it is parsed again by a class that records them
    (see :mod:`headrace.table.parse.parser`), and so knows at the same token what was expected there.

    Attributes:
        kind: the kind of the next token.
        source: the text, for errors.
    """

    __slots__ = ("_depth", "_index", "_tokens", "kind", "source")

    def __init__(self, source: SqlSource) -> None:
        self.source = source
        self._depth = 0
        self._restart(0)

    def _restart(self, offset: int) -> None:
        """Tokenize the text again from an offset, since a comment or string of the previous tokens may span it."""
        self._tokens = tokenize(self.source.text, offset)
        self._index = 0
        self.kind = self._tokens[0].kind

    # --- questions ---------------------------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._index]

    @property
    def following(self) -> Token:
        """The token after the next one."""
        return self._tokens[min(self._index + 1, len(self._tokens) - 1)]

    @property
    def start(self) -> int:
        """The position at which the next token starts."""
        return self._tokens[self._index].start

    @property
    def end(self) -> int:
        """The position at which the last token ended."""
        return self._tokens[self._index - 1].end

    def at(self, kind: str) -> bool:
        """Return whether the next token is of a kind."""
        return self.kind == kind

    def at_any(self, kinds: Collection[str]) -> bool:
        """Return whether the next token is of one of some kinds."""
        return self.kind in kinds

    def at_all(self, *kinds: str) -> bool:
        """Return whether the next tokens are of these kinds, one after another."""
        return self.kind == kinds[0] and all(self.ahead(number) == kind for number, kind in enumerate(kinds))

    def at_name(self) -> bool:
        """Return whether the next token is a name."""
        return self.kind in NAMES

    def ahead(self, number: int = 1) -> str:
        """Return the kind of a token after the next one."""
        at = self._index + number
        return self._tokens[min(at, len(self._tokens) - 1)].kind

    # --- steps -------------------------------------------------------------------------------------------------------

    def advance(self) -> Token:
        """Consume the next token, and return it."""
        token = self._tokens[self._index]
        if self._index + 1 < len(self._tokens):
            self._index += 1
        self.kind = self._tokens[self._index].kind
        return token

    def accept(self, kind: str) -> bool:
        """Consume the next token if it is of a kind; return whether it was."""
        if self.kind != kind:
            return False
        self._index += 1
        self.kind = self._tokens[self._index].kind
        return True

    def accept_all(self, *kinds: str) -> bool:
        """Consume the next tokens if all are of these kinds; return whether they were."""
        if not self.at_all(*kinds):
            return False
        for _ in kinds:
            self.advance()
        return True

    def expect(self, *kinds: str) -> None:
        """Consume tokens that must be of these kinds."""
        for kind in kinds:
            if not self.accept(kind):
                self.fail(kind)

    def choose(self, table: dict[str, T]) -> T:
        """Consume a token, and return the value for its kind in a table."""
        if not self.at_any(table):
            self.fail(*table)
        return table[self.advance().kind]

    def choose_optional(self, table: dict[str, T]) -> T | None:
        """Consume a token if its kind is in a table, and return the value there."""
        return table[self.advance().kind] if self.at_any(table) else None

    def name(self) -> Name:
        """Parse a name."""
        if not self.at_name():
            self.fail(NAME)
        token = self.advance()
        return Name(name_of(token), start=token.start, end=token.end)

    def path(self) -> Path:
        """Parse names with dots between them."""
        names = [self.name()]
        while self.accept("."):
            names.append(self.name())
        return Path(tuple(names), start=names[0].start, end=names[-1].end)

    def text(self) -> str:
        """Parse a plain quoted string."""
        if not self.at(STRING):
            self.fail(STRING)
        token = self.advance()
        return token.text[token.text.index("'") + 1 : -1].replace("''", "'")

    # --- lists -------------------------------------------------------------------------------------------------------

    def some(self, item: Callable[[], T]) -> tuple[T, ...]:
        """Items with commas between them, at least one."""
        found = [item()]
        while self.accept(","):
            found.append(item())
        return tuple(found)

    def in_parentheses(self, item: Callable[[], T]) -> tuple[T, ...]:
        """Items with commas between them in parentheses, at least one."""
        self.expect("(")
        found = self.some(item)
        self.expect(")")
        return found

    def names_in_parentheses(self) -> tuple[Name, ...]:
        """Names with commas between them in parentheses."""
        return self.in_parentheses(self.name)

    def optional_names(self) -> tuple[Name, ...]:
        """Names in parentheses, or none."""
        return self.in_parentheses(self.name) if self.at("(") else ()

    # --- errors ------------------------------------------------------------------------------------------------------

    def deeper(self) -> None:
        """Count a nested expression or query; the caller decrements ``_depth`` at its end."""
        self._depth += 1
        if self._depth > DEEPEST:
            self.refuse_depth()

    def refuse_depth(self) -> NoReturn:
        """Raise the error of a text that is nested too deeply."""
        advice = "Split the query with WITH or CREATE VIEW; chains of AND, OR, + and || need no parentheses."
        self.refuse(f"expressions and queries are nested more than {DEEPEST} levels deep", advice)

    def note(self, kind: str) -> None:
        """Record a kind that was tested at the next token without the methods here."""

    def expected(self) -> Collection[str]:
        """The kinds that were tested at the next token, in a recording parser."""
        return ()

    def fail(self, *kinds: str) -> NoReturn:
        """Raise the error for a next token that is not of the expected kinds."""
        previous = self._tokens[self._index - 1] if self._index else None
        following = self._tokens[min(self._index + 1, len(self._tokens) - 1)]
        reason, advice = diagnose([*kinds, *self.expected()], previous, self.token, following)
        self.refuse(reason, advice)

    def refuse(self, reason: str, advice: str | None = None, token: Token | None = None) -> NoReturn:
        """Raise an error at the next token, or at another one."""
        at = token or self.token
        raise SqlParseError(reason, self.source, at.start, max(at.end, at.start + 1), advice)
