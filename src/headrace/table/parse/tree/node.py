"""The base class of nodes: a position in the text, which equality ignores."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Final

_NAMES: Final[dict[type, tuple[str, ...]]] = {}


@dataclass(frozen=True, slots=True)
class SqlNode:
    """A piece of a statement.

    Nodes are immutable, and equality ignores positions. Chains of left-associative operators are as deep as they are
    long, so trees are traversed with :func:`walk`, or by a loop along the left side, and not by recursion.

    Attributes:
        start: the offset of its first character in the text.
        end: the offset after its last character.
    """

    start: int = field(kw_only=True, compare=False, repr=False)
    end: int = field(kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Name(SqlNode):
    """A name, without backticks. Its case is as written."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Path(SqlNode):
    """Names with dots between them, as ``catalog.database.table``."""

    names: tuple[Name, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """The names as texts."""
        return tuple(name.text for name in self.names)

    def __str__(self) -> str:
        return ".".join(self.texts)


@dataclass(frozen=True, slots=True)
class QueryExpression(SqlNode):
    """A query: in parentheses, in a view, or of ``INSERT INTO``."""


def children(node: SqlNode) -> Iterator[SqlNode]:
    """The child nodes, in the order of the fields."""
    kind = type(node)
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(each.name for each in fields(kind) if each.name not in ("start", "end"))
    for name in names:
        value = getattr(node, name)
        if isinstance(value, SqlNode):
            yield value
        elif isinstance(value, tuple):
            for item in value:
                if isinstance(item, SqlNode):
                    yield item


def walk(node: SqlNode) -> Iterator[SqlNode]:
    """A node and all below it, each before its children, however deep they are."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(tuple(children(node))))
