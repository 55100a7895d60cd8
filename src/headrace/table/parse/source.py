"""The text of statements, positions in it, and errors at positions."""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

from headrace.common.errors import InvalidProgramError

_LONGEST: Final = 100
"""The maximum length of a line in an error, in characters."""


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a text.

    Attributes:
        offset: the number of characters before it.
        line: the number of its line, from 1.
        column: the number of its character in the line, from 1, as Flink counts it.
    """

    offset: int
    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class SqlSource:
    """The text that statements were parsed from, by which offsets of nodes become lines and columns.

    Args:
        text: the text.
        name: the name of the file that it was read from; None where there is no file.
    """

    __slots__ = ("_begins", "name", "text")

    def __init__(self, text: str, name: str | None = None) -> None:
        self.text = text
        self.name = name
        self._begins: list[int] | None = None

    def position(self, offset: int) -> Position:
        """Return the line and the column of an offset."""
        if self._begins is None:
            self._begins = [0]
            self._begins.extend(at + 1 for at, letter in enumerate(self.text) if letter == "\n")
        line = bisect_right(self._begins, offset)
        return Position(offset, line, offset - self._begins[line - 1] + 1)

    def excerpt(self, start: int, end: int) -> str:
        """Return the line of a position, with carets under it. Of a long line only the part around it is shown."""
        begin = self.text.rfind("\n", 0, start) + 1
        stop = self.text.find("\n", start)
        line = self.text[begin : len(self.text) if stop < 0 else stop].rstrip("\r").replace("\t", " ")
        column = start - begin
        width = max(1, min(end, begin + len(line)) - start)
        if len(line) > _LONGEST:
            left = max(0, min(column - _LONGEST // 2, len(line) - _LONGEST))
            right = left + _LONGEST
            before, after = "... " if left else "", " ..." if right < len(line) else ""
            column += len(before) - left
            line = before + line[left:right] + after
            width = min(width, max(1, len(line) - column))
        return f"  {line}\n  {' ' * column}{'^' * width}"


class SqlError(InvalidProgramError):
    """An error at a position in the text of a statement.

    Its message has the line of the statement with carets under the position.

    Attributes:
        reason: what is wrong, without the position.
        position: the position.
        advice: what to write instead, if that is known.
    """

    reason: str
    position: Position
    advice: str | None

    def __init__(self, reason: str, source: SqlSource, start: int, end: int, advice: str | None = None) -> None:
        self.reason = reason
        self.position = source.position(start)
        self.advice = advice
        file = "" if source.name is None else f" of {source.name}"
        lines = [f"{reason} at {self.position}{file}", source.excerpt(start, end)]
        super().__init__("\n".join(lines if advice is None else [*lines, advice]))


class SqlParseError(SqlError):
    """A syntax error in Flink SQL. The reason says what was expected and what was found.

    Examples:
        >>> from headrace.table.parse import parse_statement
        >>> parse_statement("SELECT a, FROM t")
        Traceback (most recent call last):
            ...
        headrace.table.parse.source.SqlParseError: expected an expression, found FROM at line 1, column 11
          SELECT a, FROM t
                    ^^^^
        Remove the comma before FROM.
    """
