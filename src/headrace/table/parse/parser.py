"""The ways into the parser: a statement, a script, an expression, a type."""

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final, TypeVar

from headrace.table.parse.source import SqlParseError, SqlSource
from headrace.table.parse.statements import StatementParser
from headrace.table.parse.tokens import END
from headrace.table.parse.tree.definitions import Statement
from headrace.table.parse.tree.expressions import SqlExpression
from headrace.table.parse.tree.types import TypeSpec

T = TypeVar("T")

_FEW: Final = 12
"""The most kinds of one question that are remembered: of more, none is worth naming."""


class RecordingParser(StatementParser):
    """Parses like any other parser, and remembers what it was asked for at the token where it stands.

    A parser that fails has asked for all that would have been right there, one thing after another. To remember it
    costs a third of the time, so this class parses only what another one has refused: it takes the same way, since
    parsing depends on nothing but the text, and its error says what the other one could not know.
    """

    __slots__ = ("_asked", "_asked_at")

    def __init__(self, source: SqlSource) -> None:
        self._asked: dict[str, None] = {}
        self._asked_at = -1
        super().__init__(source)

    def note(self, kind: str) -> None:
        start = self.start
        if start != self._asked_at:
            self._asked_at = start
            self._asked = {}
        self._asked[kind] = None

    def expected(self) -> Collection[str]:
        return self._asked if self.start == self._asked_at else ()

    def at(self, kind: str) -> bool:
        self.note(kind)
        return super().at(kind)

    def at_any(self, kinds: Collection[str]) -> bool:
        if len(kinds) <= _FEW:
            for kind in kinds:
                self.note(kind)
        return super().at_any(kinds)

    def at_all(self, *kinds: str) -> bool:
        self.note(kinds[0])
        return super().at_all(*kinds)

    def accept(self, kind: str) -> bool:
        self.note(kind)
        return super().accept(kind)


def parse_statement(text: str) -> Statement:
    """The one statement of a text; a semicolon may stand behind it.

    Raises:
        SqlParseError: when it is none, or when there are several.

    Examples:
        >>> from headrace.table.parse import parse_statement
        >>> parse_statement("USE CATALOG hive").catalog
        Name(text='hive')
    """
    return _parsed(text, _one)


def parse_script(text: str) -> tuple[Statement, ...]:
    """The statements of a text, with semicolons between them.

    Raises:
        SqlParseError: when one of them is none.

    Examples:
        >>> from headrace.table.parse import parse_script
        >>> len(parse_script("USE db; SHOW TABLES;"))
        2
    """
    return _parsed(text, _all)


def parse_expression(text: str) -> SqlExpression:
    """The expression that a text is.

    Raises:
        SqlParseError: when it is none.

    Examples:
        >>> from headrace.table.parse import parse_expression
        >>> parse_expression("price").names
        (Name(text='price'),)
    """
    return _parsed(text, lambda parser: _whole(parser, parser.only_expression))


def parse_type(text: str) -> TypeSpec:
    """The data type that a text is, with its nullability.

    Raises:
        SqlParseError: when it is none.

    Examples:
        >>> from headrace.table.parse import parse_type
        >>> parse_type("DECIMAL(10, 2) NOT NULL")
        AtomicTypeSpec(nullable=False, word=<TypeWord.DECIMAL: 'DECIMAL'>, size=10, scale=2)
    """
    return _parsed(text, lambda parser: _whole(parser, parser.data_type))


def _parsed(text: str, parse: Callable[[StatementParser], T]) -> T:
    """Parse a text; once more, to know all that was expected, when it is refused."""
    source = SqlSource(text)
    with suppress(SqlParseError):
        return _guarded(StatementParser(source), parse)
    try:
        return _guarded(RecordingParser(source), parse)
    except SqlParseError as error:
        raise error.with_traceback(None) from None  # which is as deep as the text, and says nothing more


def _guarded(parser: StatementParser, parse: Callable[[StatementParser], T]) -> T:
    """Parse; a stack that ends before the limit of depth is told in the same way."""
    try:
        return parse(parser)
    except RecursionError:
        parser.refuse_depth()


def _whole(parser: StatementParser, parse: Callable[[], T]) -> T:
    found = parse()
    if not parser.at(END):
        parser.fail(END)
    return found


def _one(parser: StatementParser) -> Statement:
    while parser.accept(";"):
        pass
    found = parser.statement()
    while parser.accept(";"):
        pass
    if not parser.at(END):
        if parser.source.text[found.end : parser.start].strip().endswith(";"):
            parser.refuse("only one statement is expected", "Run the statements one by one.")
        parser.fail(END)
    return found


def _all(parser: StatementParser) -> tuple[Statement, ...]:
    found: list[Statement] = []
    while True:
        while parser.accept(";"):
            pass
        if parser.at(END):
            return tuple(found)
        found.append(parser.statement())
        if not parser.at(END) and not parser.accept(";"):
            parser.fail(";", END)
