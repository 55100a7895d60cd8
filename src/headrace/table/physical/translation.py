"""Translation of physical nodes to the stream graph, which is independent of SQL."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from typing import Final

import pyarrow as pa

from headrace.common.configuration import Configuration
from headrace.common.errors import InvalidProgramError
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
from headrace.table.evaluation import ExpressionCompiler
from headrace.table.functions.table import is_deterministic
from headrace.table.logical.errors import NoCastError, PlanningError
from headrace.table.logical.scalars import Scalar, SortKey
from headrace.table.logical.schema import Schema
from headrace.table.options import LOCAL_TIME_ZONE, STATE_TTL
from headrace.table.physical.node import Edges, PhysicalNode, node_line, with_unique_names
from headrace.table.physical.scalar_text import infix_text


@dataclass(slots=True)
class GraphBuilder:
    """The graph to build, and the settings that its operators depend on.

    Nodes that compute the same are translated once, and so a table is read once by all statements of a job.

    Attributes:
        graph: the graph.
        is_batch: whether the job runs in batch mode.
        settings: the configuration of the session.
        uids_of: the uids that operators of a node had before, where they are to have them again.
        made: the nodes that were translated, each with the uids of its operators.
    """

    graph: StreamGraph
    is_batch: bool
    settings: Configuration
    uids_of: Callable[[PhysicalNode], Sequence[str]] = lambda _: ()
    made: list[tuple[PhysicalNode, list[str]]] = field(default_factory=list)
    _given: list[str] = field(default_factory=list)
    _made: dict[PhysicalNode | int, tuple[PhysicalNode, Edges]] = field(default_factory=dict)
    _shapes: dict[int, str] = field(default_factory=dict)
    _shape: str = ""

    @property
    def state_ttl(self) -> int:
        """The time to live of unused state in milliseconds (``table.exec.state.ttl``); 0 for ever."""
        return 0 if self.is_batch else self.settings.get(STATE_TTL)

    def translate(self, node: PhysicalNode) -> Edges:
        """The edges that carry the rows of a node; adds its operators, and those of its inputs, to the graph once."""
        key = node if is_shareable(node) else id(node)
        known = self._made.get(key)
        if known is None:
            inputs = [self.translate(child) for child in node.inputs]
            self._shape = self._shape_of(node)
            self._given = list(self.uids_of(node))
            before = len(self.graph)
            edges = node.translate(self, inputs)
            added = list(self.graph)[before:]
            for each in added:
                self.graph.update(each.id, description=node_line(node, infix_text, with_mode=False))
            self.made.append((node, [each.uid or "" for each in added]))
            known = self._made[key] = (node, edges)
        return known[1]

    def add(self, spec: OperatorSpec, name: str, *inputs: Edges, is_small: bool = False) -> Edges:
        """Add an operator.

        Args:
            spec: what it computes.
            name: its name.
            inputs: the edges into each of its inputs.
            is_small: whether one task should have all of its input, of which there is little; in batch mode.
        """
        edges = [replace(edge, input_index=index) for index, given in enumerate(inputs) for edge in given]
        node = self.graph.add(spec, name, tuple(edges))
        has_one_key = bool(edges) and all(edge.key is not None and edge.key is _one_key() for edge in edges)
        parallelism = 1 if self.is_batch and (is_small or has_one_key) else None
        self.graph.update(node.id, uid=self._new_uid(name), parallelism=parallelism)
        return (Edge(node.id),)

    def _shape_of(self, node: PhysicalNode) -> str:
        """A digest of a node's subtree in the plan, which other statements of the job do not change."""
        inputs = [self._shapes.get(id(child)) or self._shape_of(child) for child in node.inputs]
        whole = "\n".join([node.identity, *inputs])
        digest = hashlib.sha256(whole.encode()).hexdigest() if node.is_executed else inputs[0]
        self._shapes[id(node)] = digest
        return digest

    def _new_uid(self, name: str) -> str:
        """A uid that no operator of the graph has: the name, and a digest of the plan from which it is translated."""
        taken = {each.uid for each in self.graph}
        given = next((uid for uid in self._given if _name_in(uid) == name and uid not in taken), None)
        if given is not None:
            return given
        uids = (f"{name}-{self._shape[:12]}{f'-{number}' if number > 1 else ''}" for number in count(1))
        return next(uid for uid in uids if uid not in taken)

    def select(self, edges: Edges, columns: Sequence[Bound], schema: Schema, name: str) -> Edges:
        """Add an operator that computes columns."""
        return self.add(SelectSpec(tuple(columns), record_type(schema)), name, edges)


def _name_in(uid: str) -> str:
    """The name of an operator, given its uid: a digest follows it, and perhaps a number."""
    return _DIGEST.sub("", uid)


_DIGEST: Final = re.compile(r"-[0-9a-f]{12}(-\d+)?$")


def is_shareable(node: PhysicalNode) -> bool:
    """Return whether the operators of a node serve all nodes that compute the same: it has no randomness."""
    return all(is_deterministic(scalar) for each in node.walk() for scalar in each.parts(Scalar))


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
    key = key_of(schema, keys, names)
    return tuple(replace(edge, partitioning=HASH, key=key) for edge in edges)


def key_of(schema: Schema, keys: Sequence[int], names: Sequence[str] | None = None) -> KeySelection:
    """The key that some columns are; the arguments are those of :func:`by_key`."""
    if not keys:
        return _one_key()
    columns = tuple(column(schema, index) for index in keys)
    fields = tuple(each.text for each in columns)
    shown = fields if names is None else tuple(names)
    nullable = NullableKeys.of_column(columns[0].type) if len(columns) == 1 else None
    if nullable is not None:
        return KeySelection(codec=nullable, selector=None, fields=(keys[0],), expression=columns[0], names=shown)
    key_type = Types.TUPLE([each.type for each in columns])
    return KeySelection(
        codec=KeyCodec.for_type(key_type, takes_lists=True),
        selector=None,
        fields=fields,
        is_single=False,
        expression=BoundTuple(f"({', '.join(fields)})", key_type, columns),
        names=shown,
    )


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


def sort_fields(keys: Sequence[SortKey], schema: Schema) -> tuple[SortField, ...]:
    """Sort keys in the form that operators take.

    Raises:
        PlanningError: when the values of a column have no order.
    """
    for column in (schema[key.index] for key in keys):
        if column.type.children:
            raise PlanningError(f"rows cannot be sorted by {column.name}: values of {column.type} have no order")
    return tuple(SortField(key.index, key.descending, nulls_last=not key.nulls_first) for key in keys)


def compiled(scalar: Scalar, schema: Schema, builder: GraphBuilder) -> Bound:
    """A scalar over columns as an expression of the graph."""
    return compiled_all((scalar,), schema, builder.settings)[0]


def compiled_all(scalars: Sequence[Scalar], schema: Schema, settings: Configuration) -> list[Bound]:
    """Scalars over columns as expressions of the graph.

    Raises:
        NoCastError: when there is no such cast, and a function in place of it.
        PlanningError: when a scalar cannot be computed for another reason.
    """
    compiler = ExpressionCompiler(lambda scalar: infix_text(scalar, schema.names), settings.get(LOCAL_TIME_ZONE))
    try:
        return [compiler.compile(scalar) for scalar in scalars]
    except NoCastError:
        raise
    except InvalidProgramError as error:
        raise PlanningError(str(error)) from error
