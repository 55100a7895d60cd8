"""The base of all nodes: a place in the text, and equality that does not look at it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Final

_NAMES: Final[dict[type, tuple[str, ...]]] = {}


@dataclass(frozen=True, slots=True)
class SqlNode:
    """A piece of a statement.

    Nodes are immutable and equal when they say the same, wherever they stand. Chains of operators that bind from the
    left are as deep as they are long: who goes through trees does so with :func:`walk`, or along the left side in a
    loop.

    Attributes:
        start: the offset of its first character in the text.
        end: the offset behind its last one.
    """

    start: int = field(kw_only=True, compare=False, repr=False)
    end: int = field(kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Name(SqlNode):
    """One name, without the backticks it may have been written in. It is never in the case of something else."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Path(SqlNode):
    """Names with points between them, as ``catalog.database.table``."""

    names: tuple[Name, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """The names as texts."""
        return tuple(name.text for name in self.names)

    def __str__(self) -> str:
        return ".".join(self.texts)


@dataclass(frozen=True, slots=True)
class QueryExpression(SqlNode):
    """A node that gives rows, and may stand in parentheses, in a view, or behind ``INSERT INTO``."""


def children(node: SqlNode) -> Iterator[SqlNode]:
    """The nodes that a node is made of, in the order of its fields."""
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
