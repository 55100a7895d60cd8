"""Physical nodes that take the rows of a statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from headrace.graph.specs import SinkSpec
from headrace.table.connectors.changelog_mode import ChangelogMode
from headrace.table.connectors.table_sink import TableSink
from headrace.table.logical.relations import Sink as LogicalSink
from headrace.table.logical.schema import Schema
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms, names_text
from headrace.table.physical.translation import GraphBuilder


@dataclass(frozen=True)
class Sink(PhysicalNode):
    """Writes rows into a table."""

    name: ClassVar[str] = "Sink"
    mode: ChangelogMode = field(default=ChangelogMode(frozenset()), kw_only=True)
    input: PhysicalNode
    target: LogicalSink
    sink: TableSink

    @property
    def schema(self) -> Schema:
        return self.target.columns

    @property
    def called(self) -> str:
        """What messages call it."""
        return f"Table sink '{'.'.join(self.target.path)}'"

    def terms(self, text: ScalarText) -> Terms:
        yield "table", ".".join(self.target.path)
        yield "fields", names_text(self.input.schema.names)

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        sink = self.sink.create_sink([read.key for read in self.target.metadata])
        return builder.add(SinkSpec(sink), f"Sink: {self.target.path[-1]}", *inputs)
