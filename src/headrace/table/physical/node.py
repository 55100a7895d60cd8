"""The base class of physical nodes, and their text in plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from headrace.table.connectors.changelog_mode import ChangelogMode
from headrace.table.logical.node import LogicalNode, walk
from headrace.table.logical.scalars import Scalar, SortKey
from headrace.table.logical.schema import Schema, unique_names
from headrace.table.physical.changelog_rules import PASSING, ChangelogRule
from headrace.table.physical.keys import NO_KEYS, Keys

if TYPE_CHECKING:
    from headrace.graph.stream_graph import Edge
    from headrace.table.physical.translation import GraphBuilder

Edges = tuple["Edge", ...]
"""The edges into one input of an operator; several for a union."""


class ScalarText(Protocol):
    """Writes a scalar over named columns in the form of a plan."""

    def __call__(self, scalar: Scalar, names: Sequence[str]) -> str:
        """The text."""


N = TypeVar("N")

Terms = Iterator[tuple[str, str]]
"""Terms of a node in a plan: names, and the texts in brackets behind them."""


@dataclass(frozen=True)
class PhysicalNode(LogicalNode):
    """A node of a physical plan. The names of its columns are all different.

    Attributes:
        mode: the row kinds that it emits; insertions only until the changelog is inferred.

    Class attributes:
        name: its name in plans.
        changelog: its changelog rule; by default it forwards the changes of its inputs.
        passes_rows: whether its rows are those of its only input.
        appends_columns: whether they are these with columns of its own behind the others.
        is_executed: whether an operator may compute it; uids do not depend on others, which only plans have.
    """

    name: ClassVar[str]
    changelog: ClassVar[ChangelogRule] = PASSING
    passes_rows: ClassVar[bool] = False
    appends_columns: ClassVar[bool] = False
    is_executed: ClassVar[bool] = True
    mode: ChangelogMode = field(default=ChangelogMode.INSERT, kw_only=True)

    @property
    def inputs(self) -> tuple[PhysicalNode, ...]:
        """The nodes that it reads from."""
        return self.parts(PhysicalNode)

    @property
    def schema(self) -> Schema:
        """Its columns."""
        raise NotImplementedError

    @property
    def upsert_keys(self) -> Keys:
        """The upsert keys: sets of columns by which a row may overwrite the one before."""
        return NO_KEYS

    @property
    def requires_watermark(self) -> bool:
        """Return whether it emits rows when the watermark advances."""
        return False

    @property
    def title(self) -> str:
        """Its name in plans, which may depend on its fields."""
        return self.name

    def terms(self, text: ScalarText) -> Terms:
        """The terms of the node in a plan; ``text`` writes scalars in the form of that plan."""
        yield from ()

    @property
    def identity(self) -> str:
        """A text that identifies its computation, from which uids are derived."""
        terms = [f"{name}=[{value}]" for name, value in self.terms(_plain_text)]
        return f"{self.name}({', '.join(terms)})"

    def hint_terms(self) -> Terms:
        """The terms of hints, which stand behind all others."""
        yield from ()

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        """Adds its operators to the graph.

        Args:
            builder: the graph to add to.
            inputs: the edges of its inputs.

        Returns:
            The edges that carry its rows.
        """
        raise NotImplementedError

    def walk(self) -> Iterator[PhysicalNode]:
        """The node and all nodes below it, each before its inputs."""
        return walk(self, PhysicalNode)

    def with_inputs(self, inputs: Sequence[PhysicalNode]) -> PhysicalNode:
        """The same node over other inputs."""
        return self.with_parts(PhysicalNode, inputs)


@dataclass(frozen=True)
class PassingNode(PhysicalNode):
    """A node with the columns and keys of its only input. It translates to nothing unless a subclass overrides that."""

    input: PhysicalNode

    @property
    def schema(self) -> Schema:
        return self.input.schema

    @property
    def upsert_keys(self) -> Keys:
        return self.input.upsert_keys

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        return inputs[0]


def _plain_text(scalar: Scalar, names: Sequence[str]) -> str:
    from headrace.table.physical.scalar_text import calcite_text

    return calcite_text(scalar, names)


def names_text(names: Sequence[str]) -> str:
    """Names with commas between them."""
    return ", ".join(names)


def order_text(keys: Sequence[SortKey], schema: Schema) -> str:
    """A sort order in the form of plans."""
    return names_text([f"{schema.names[key.index]} {'DESC' if key.descending else 'ASC'}" for key in keys])


def with_unique_names(schema: Schema) -> Schema:
    """The same columns with unique names."""
    names = unique_names(schema.names)
    return schema if names == schema.names else schema.renamed(names)


def tree_text(root: N, line: Callable[[N], str], inputs: Callable[[N], Sequence[N]]) -> str:
    """A tree with a line for each node, its inputs below it.

    Args:
        root: the node on top.
        line: the line of a node.
        inputs: the inputs of a node.
    """
    return "\n".join(_lines(root, line, inputs))


def _lines(node: N, line: Callable[[N], str], inputs: Callable[[N], Sequence[N]]) -> Iterator[str]:
    yield line(node)
    below = inputs(node)
    for number, child in enumerate(below):
        is_last = number == len(below) - 1
        first, rest = ("+- ", "   ") if is_last else (":- ", ":  ")
        for place, text in enumerate(_lines(child, line, inputs)):
            yield (rest if place else first) + text


def node_line(
    node: PhysicalNode,
    text: ScalarText,
    *,
    with_mode: bool,
    with_keys: bool = False,
    with_hints: bool = False,
    advice: Sequence[int] = (),
) -> str:
    """The line of a node in a plan."""
    terms = [f"advice=[{', '.join(map(str, advice))}]"] if advice else []
    terms += [f"{name}=[{value}]" for name, value in node.terms(text)]
    if with_mode:
        terms.append(f"changelogMode=[{node.mode}]")
    if with_keys and node.upsert_keys:
        keys = (
            ", ".join(node.schema.names[column] for column in sorted(key))
            for key in sorted(node.upsert_keys, key=sorted)
        )
        terms.append(f"upsertKeys=[{', '.join(f'[{key}]' for key in keys)}]")
    terms += [f"{name}=[{value}]" for name, value in node.hint_terms()] if with_hints else []
    return f"{node.title}({', '.join(terms)})" if terms else node.title
