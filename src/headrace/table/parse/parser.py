"""Entry points of the parser: for a statement, a script, an expression, a type."""

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final, TypeVar

from headrace.table.parse.source import SqlParseError, SqlSource
from headrace.table.parse.statements import StatementParser
from headrace.table.parse.tokens import END
from headrace.table.parse.tree.definitions import Statement
from headrace.table.parse.tree.expressions import SqlExpression
from headrace.table.parse.tree.statements import BeginStatementSet
from headrace.table.parse.tree.types import TypeSpec

T = TypeVar("T")

_FEW: Final = 12
"""The most kinds of one test that are recorded: of a larger set, none is worth listing."""


class RecordingParser(StatementParser):
    """Records the kinds that were tested at the current token.

    A parser that fails has tested all kinds that would have been valid there, one after another. Recording them costs a
    third of the time, so this class parses only texts that the plain parser has refused. It fails at the same token,
    since parsing depends on the text alone, and its error lists what was expected.
    """

    __slots__ = ("_tested", "_tested_at")

    def __init__(self, source: SqlSource) -> None:
        self._tested: dict[str, None] = {}
        self._tested_at = -1
        super().__init__(source)

    def note(self, kind: str) -> None:
        start = self.start
        if start != self._tested_at:
            self._tested_at = start
            self._tested = {}
        self._tested[kind] = None

    def expected(self) -> Collection[str]:
        return self._tested if self.start == self._tested_at else ()

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
    """Parse a text with one statement, optionally followed by a semicolon.

    Raises:
        SqlParseError: when it is not valid, or when there are several.

    Examples:
        >>> from headrace.table.parse import parse_statement
        >>> parse_statement("USE CATALOG hive").catalog
        Name(text='hive')
    """
    return _parsed(text, _one)


def parse_script(text: str, name: str | None = None) -> tuple[Statement, ...]:
    """Parse the statements of a text, separated by semicolons.

    Args:
        text: the text.
        name: the name of the file that it was read from, for errors.

    Raises:
        SqlParseError: when one of them is not valid.

    Examples:
        >>> from headrace.table.parse import parse_script
        >>> len(parse_script("USE db; SHOW TABLES;"))
        2
    """
    return _parsed(text, _all, name)


def parse_expression(text: str) -> SqlExpression:
    """Parse an expression.

    Raises:
        SqlParseError: when it is not valid.

    Examples:
        >>> from headrace.table.parse import parse_expression
        >>> parse_expression("price").names
        (Name(text='price'),)
    """
    return _parsed(text, lambda parser: _whole(parser, parser.only_expression))


def parse_type(text: str) -> TypeSpec:
    """Parse a data type with its nullability.

    Raises:
        SqlParseError: when it is not valid.

    Examples:
        >>> from headrace.table.parse import parse_type
        >>> parse_type("DECIMAL(10, 2) NOT NULL")
        AtomicTypeSpec(nullable=False, word=<TypeWord.DECIMAL: 'DECIMAL'>, size=10, scale=2)
    """
    return _parsed(text, lambda parser: _whole(parser, parser.data_type))


def _parsed(text: str, parse: Callable[[StatementParser], T], name: str | None = None) -> T:
    """Parse a text; when it is refused, parse it again to record what was expected."""
    source = SqlSource(text, name)
    with suppress(SqlParseError):
        return _guarded(StatementParser(source), parse)
    try:
        return _guarded(RecordingParser(source), parse)
    except SqlParseError as error:
        raise error.with_traceback(None) from None  # the traceback is as deep as the text, and of no use


def _guarded(parser: StatementParser, parse: Callable[[StatementParser], T]) -> T:
    """Parse; a stack overflow before the limit of depth is the same error."""
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
            is_set = isinstance(found, BeginStatementSet)
            advice = "Write EXECUTE STATEMENT SET BEGIN ... END." if is_set else "Run the statements one by one."
            parser.refuse("only one statement is expected", advice)
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
