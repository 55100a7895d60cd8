"""``TO_CHANGELOG`` and ``FROM_CHANGELOG``: conversions between row kinds and a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from headrace.common.logical_types import string
from headrace.graph.row_specs import KIND_NAMES, ColumnToKindsSpec, KindsToColumnSpec
from headrace.table.logical import relations as logical
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.relations import LogicalFromChangelog, LogicalToChangelog
from headrace.table.logical.schema import Field, Schema
from headrace.table.physical.changelog_rules import ChangelogRule, always, never, with_before
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted
from headrace.table.physical.literal_text import record_type_text
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms, with_unique_names
from headrace.table.physical.translation import GraphBuilder, record_type


def _rest(codes: logical.KindCodes) -> str:
    """The arguments behind the column: the codes, and two defaults."""
    shown = ", ".join(f"_UTF-16LE'{kind.name}', _UTF-16LE'{code}'" for kind, code in codes)
    return ", ".join([f"MAP({shown})" if codes else "DEFAULT()", "DEFAULT()", "DEFAULT()"])


@dataclass(frozen=True)
class ChangelogFunction(PhysicalNode):
    """A function over each row of a table."""

    name: ClassVar[str] = "ProcessTableFunction"
    input: PhysicalNode

    @property
    def call(self) -> str:
        """The call in the form of plans."""
        raise NotImplementedError

    def terms(self, text: ScalarText) -> Terms:
        yield "invocation", self.call
        yield "uid", "null"
        yield "select", ",".join(self.schema.names)
        names, types = self.schema.names, self.schema.types
        yield "rowType", record_type_text(names, types, [field.time for field in self.schema])


@dataclass(frozen=True)
class ToChangelog(ChangelogFunction):
    """Every change as an appended row."""

    changelog: ClassVar[ChangelogRule] = ChangelogRule(never, needs=with_before)
    kind_column: str
    codes: logical.KindCodes = ()

    @cached_property
    def schema(self) -> Schema:
        fields = (Field(self.kind_column, string()), *map(Field.without_clock, self.input.schema))
        return with_unique_names(Schema(fields))

    @property
    def call(self) -> str:
        return f"TO_CHANGELOG(TABLE(#0), {_descriptor(self.kind_column)}, {_rest(self.codes)})"

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        return builder.add(
            KindsToColumnSpec(record_type(self.schema), self.codes or KIND_NAMES), "ToChangelog", *inputs
        )


@dataclass(frozen=True)
class FromChangelog(ChangelogFunction):
    """Appended rows as changes."""

    changelog: ClassVar[ChangelogRule] = ChangelogRule(always)
    kind_column: int
    codes: logical.KindCodes = ()

    @cached_property
    def schema(self) -> Schema:
        return Schema(tuple(field for at, field in enumerate(self.input.schema) if at != self.kind_column))

    @property
    def call(self) -> str:
        return (
            f"FROM_CHANGELOG(TABLE(#0), {_descriptor(self.input.schema.names[self.kind_column])}, {_rest(self.codes)})"
        )

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        return builder.add(
            ColumnToKindsSpec(self.kind_column, record_type(self.schema), self.codes or KIND_NAMES),
            "FromChangelog",
            *inputs,
        )


def _descriptor(column: str) -> str:
    return "DEFAULT()" if column == "op" else f"DESCRIPTOR(_UTF-16LE'{column}')"


@conversion_rule(LogicalToChangelog)
def _to_changelog(node: LogicalToChangelog, context: ConversionContext) -> PhysicalNode:
    return ToChangelog(converted(node.input, context), node.kind_column, node.codes)


@conversion_rule(LogicalFromChangelog)
def _from_changelog(node: LogicalFromChangelog, context: ConversionContext) -> PhysicalNode:
    if context.is_batch:
        raise PlanningError("FROM_CHANGELOG needs streaming mode: tables have no changes in batch mode")
    return FromChangelog(converted(node.input, context), node.kind_column, node.codes)
