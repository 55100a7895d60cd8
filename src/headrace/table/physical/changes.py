"""Physical nodes that change what rows do in a changelog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from headrace.common.types import RowKind
from headrace.graph.specs import KeepRowKindsSpec
from headrace.table.logical.schema import Schema
from headrace.table.physical.node import Edges, PhysicalNode
from headrace.table.physical.translation import GraphBuilder


@dataclass(frozen=True)
class DropUpdateBefore(PhysicalNode):
    """Leaves out what was before an update."""

    name: ClassVar[str] = "DropUpdateBefore"
    input: PhysicalNode

    @property
    def schema(self) -> Schema:
        return self.input.schema

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        kinds = tuple(kind for kind in RowKind if kind is not RowKind.UPDATE_BEFORE)
        return builder.add(KeepRowKindsSpec(kinds), self.name, *inputs)
