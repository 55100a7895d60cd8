"""The base class of physical nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

from headrace.common.logical_types import LogicalType
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
        is_executed: whether an operator may compute it; uids do not depend on nodes that plans only show.
    """

    name: ClassVar[str]
    changelog: ClassVar[ChangelogRule] = PASSING
    passes_rows: ClassVar[bool] = False
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
        """The name under which plans show it."""
        return self.name

    @property
    def shown_types(self) -> tuple[LogicalType, ...]:
        """The types of the rows that it emits where it is computed as plans show it."""
        return self.schema.types

    @property
    def distributions(self) -> tuple[tuple[int, ...], ...]:
        """The columns by which plans of batch mode show its rows distributed; none of them for a single task."""
        return ()

    def as_shown(self, *, is_batch: bool) -> PhysicalNode:
        """The node that plans show in its place: the last of its phases, or the node itself.

        Args:
            is_batch: whether it runs in batch mode.
        """
        return self

    def as_read(self, read: Collection[int]) -> PhysicalNode:
        """The node that plans show where only some of its columns are read."""
        return self

    def below_projection(self) -> PhysicalNode | None:
        """The node below the projection of its input, which plans show above it; None if they do not."""
        return None

    def with_read_inputs(self) -> PhysicalNode:
        """The node over inputs as plans show them, for what it reads of them."""
        return self

    def executed(self) -> PhysicalNode:
        """The node that represents it in the execution plan."""
        return self

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
        """It and all nodes below it, each before its inputs."""
        return walk(self, PhysicalNode)

    def with_inputs(self, inputs: Sequence[PhysicalNode]) -> PhysicalNode:
        """The same node over other inputs."""
        return self.with_parts(PhysicalNode, inputs)


@dataclass(frozen=True)
class PassingNode(PhysicalNode):
    """A node with the columns and keys of its only input. It translates to nothing unless it says otherwise."""

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
