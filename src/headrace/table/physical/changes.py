"""Physical nodes that change the row kinds of a changelog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from headrace.common.types import RowKind
from headrace.graph.changelog_specs import ChangelogNormalizeSpec
from headrace.graph.specs import KeepRowKindsSpec
from headrace.table.logical.relations import Scan
from headrace.table.logical.scalars import Scalar
from headrace.table.logical.schema import Schema
from headrace.table.options import MINI_BATCH, MINI_BATCH_SIZE
from headrace.table.physical.basic import Exchange
from headrace.table.physical.calcs import filtered
from headrace.table.physical.changelog_rules import ChangelogRule, UpdateKind, always, without_before
from headrace.table.physical.compilation import compiled
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted, table_source
from headrace.table.physical.keys import Keys, one_key
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms, names_text
from headrace.table.physical.translation import GraphBuilder, by_key
from headrace.table.rules.normalize import Normalize


@dataclass(frozen=True)
class DropUpdateBefore(PhysicalNode):
    """Drops ``UPDATE_BEFORE`` rows."""

    name: ClassVar[str] = "DropUpdateBefore"
    input: PhysicalNode

    @property
    def schema(self) -> Schema:
        return self.input.schema

    @property
    def upsert_keys(self) -> Keys:
        return self.input.upsert_keys

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        kinds = tuple(kind for kind in RowKind if kind is not RowKind.UPDATE_BEFORE)
        return builder.add(KeepRowKindsSpec(kinds), self.name, *inputs)


@dataclass(frozen=True)
class ChangelogNormalize(PhysicalNode):
    """Turns upserts into a changelog with ``UPDATE_BEFORE`` rows.

    Attributes:
        key: the columns of the key.
        condition: the filter on rows that was pushed down into it.
        has_duplicates: whether changes may come twice, so that it is needed for upserts as well.
    """

    name: ClassVar[str] = "ChangelogNormalize"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(
        always, needs=without_before, adapts=True, skipped=lambda node, wanted: node.without_need(wanted)
    )
    input: PhysicalNode
    key: tuple[int, ...]
    condition: Scalar | None = None
    has_duplicates: bool = False

    @property
    def schema(self) -> Schema:
        return self.input.schema

    def without_need(self, wanted: UpdateKind) -> PhysicalNode | None:
        """The node that replaces it if only upserts are needed; None if it has to stay."""
        if wanted is not UpdateKind.ONLY_AFTER or self.condition is not None or self.has_duplicates:
            return None
        return self.input.input if isinstance(self.input, Exchange) else self.input

    @property
    def upsert_keys(self) -> Keys:
        return one_key(self.key)

    def terms(self, text: ScalarText) -> Terms:
        yield "key", names_text([self.schema.names[index] for index in self.key])
        if self.condition is not None:
            yield "condition", text(self.condition, self.schema.names)

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        condition = None if self.condition is None else compiled(self.condition, self.schema, builder)
        settings = builder.settings
        spec = ChangelogNormalizeSpec(
            update_before=self.mode.takes_update_before,
            condition=condition,
            ttl=builder.state_ttl,
            mini_batch=(settings.get(MINI_BATCH_SIZE), self.key) if settings.get(MINI_BATCH) else None,
        )
        return builder.add(spec, self.name, by_key(inputs[0], self.schema, self.key))


@conversion_rule(Normalize)
def _normalize(node: Normalize, context: ConversionContext) -> PhysicalNode:
    source = converted(node.input, context)
    if context.is_batch:  # batch sources give final rows, not upserts
        return source if node.condition is None else filtered(source, node.condition)
    scan = next(each for each in node.input.walk() if isinstance(each, Scan))
    has_duplicates = context.has_duplicates(table_source(scan, context).changelog_mode)
    return ChangelogNormalize(Exchange(source, node.key), node.key, node.condition, has_duplicates)
