"""Translation of physical nodes to the stream graph, which knows nothing of SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import pyarrow as pa

from headrace.common.configuration import Configuration
from headrace.common.logical_types import RowType
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.typeinfo.types import type_of_logical
from headrace.expressions.evaluation import Bound, BoundColumn, BoundConstant, BoundTuple
from headrace.graph.partitioning import HASH, KeySelection
from headrace.graph.specs import OperatorSpec, SelectSpec
from headrace.graph.stream_graph import Edge, StreamGraph
from headrace.operators.changelog.order import SortField
from headrace.state.keys import KeyCodec
from headrace.state.keys.nullable import NullableKeys
from headrace.table.logical.scalars import SortKey
from headrace.table.logical.schema import Schema
from headrace.table.options import STATE_TTL
from headrace.table.physical.node import Edges, PhysicalNode, with_unique_names


@dataclass(slots=True)
class GraphBuilder:
    """The graph to build, and the settings that its operators depend on.

    A node that is used several times is translated once.

    Attributes:
        graph: the graph.
        is_batch: whether the job runs in batch mode.
        settings: the configuration of the session.
    """

    graph: StreamGraph
    is_batch: bool
    settings: Configuration
    _made: dict[int, tuple[PhysicalNode, Edges]] = field(default_factory=dict)

    @property
    def state_ttl(self) -> int:
        """The time to live of unused state in milliseconds (``table.exec.state.ttl``); 0 for ever."""
        return 0 if self.is_batch else self.settings.get(STATE_TTL)

    def translate(self, node: PhysicalNode) -> Edges:
        """The edges that carry the rows of a node; adds its operators, and those of its inputs, to the graph once."""
        known = self._made.get(id(node))
        if known is None:
            edges = node.translate(self, [self.translate(child) for child in node.inputs])
            known = self._made[id(node)] = (node, edges)
        return known[1]

    def add(self, spec: OperatorSpec, name: str, *inputs: Edges) -> Edges:
        """Add an operator."""
        edges = (replace(edge, input_index=index) for index, given in enumerate(inputs) for edge in given)
        return (Edge(self.graph.add(spec, name, tuple(edges)).id),)

    def select(self, edges: Edges, columns: Sequence[Bound], schema: Schema, name: str) -> Edges:
        """Add an operator that computes columns."""
        return self.add(SelectSpec(tuple(columns), record_type(schema)), name, edges)


def record_type(schema: Schema) -> TypeInformation:
    """The type of the records of a schema. Every column is nullable: operators do not rely on NOT NULL."""
    named = with_unique_names(schema)
    names = tuple(name or f"EXPR${index}" for index, name in enumerate(named.names))
    return type_of_logical(RowType(names, tuple(kind.as_nullable() for kind in named.types)))


def column(schema: Schema, index: int) -> BoundColumn:
    """A column as an expression of the graph."""
    return BoundColumn(schema.names[index], type_of_logical(schema.types[index].as_nullable()), index)


def by_key(edges: Edges, schema: Schema, keys: Sequence[int], names: Sequence[str] | None = None) -> Edges:
    """The edges keyed by some columns, of which any may be null; without columns all records have one key.

    Args:
        edges: the edges.
        schema: the columns of their rows.
        keys: the columns of the key.
        names: what aggregates call the columns of the key, unless as they are called already.
    """
    if not keys:
        return tuple(replace(edge, partitioning=HASH, key=_one_key()) for edge in edges)
    columns = tuple(column(schema, index) for index in keys)
    fields = tuple(each.text for each in columns)
    shown = fields if names is None else tuple(names)
    nullable = NullableKeys.of_column(columns[0].type) if len(columns) == 1 else None
    if nullable is not None:
        single = KeySelection(codec=nullable, selector=None, fields=(keys[0],), expression=columns[0], names=shown)
        return tuple(replace(edge, partitioning=HASH, key=single) for edge in edges)
    key_type = Types.TUPLE([each.type for each in columns])
    selection = KeySelection(
        codec=KeyCodec.for_type(key_type),
        selector=None,
        fields=fields,
        is_single=False,
        expression=BoundTuple(f"({', '.join(fields)})", key_type, columns),
        names=shown,
    )
    return tuple(replace(edge, partitioning=HASH, key=selection) for edge in edges)


@cache
def _one_key() -> KeySelection:
    """The constant key of all records."""
    return KeySelection(
        codec=KeyCodec.for_type(Types.INT()),
        selector=None,
        fields=None,
        expression=BoundConstant("()", Types.INT(), pa.scalar(0, pa.int32())),
        names=(),
    )


def sort_fields(keys: Sequence[SortKey]) -> tuple[SortField, ...]:
    """Sort keys in the form that operators take."""
    return tuple(SortField(key.index, key.descending, nulls_last=not key.nulls_first) for key in keys)
