"""Window joins, and the conversion of joins: to a window join, an interval join, or a regular join."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from headrace.graph.join_specs import TableWindowJoinSpec
from headrace.table.logical import relations as logical
from headrace.table.logical.join_keys import condition_of
from headrace.table.logical.scalars import Call, InputRef, Scalar, conjuncts
from headrace.table.physical.basic import Exchange
from headrace.table.physical.broadcast_joins import executed_join
from headrace.table.physical.changelog_rules import ChangelogRule, Modify, never
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted
from headrace.table.physical.interval_joins import interval_join
from headrace.table.physical.joins import AnyJoin, JoinKeys, regular_join, without_times
from headrace.table.physical.multi_joins import multi_join
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms
from headrace.table.physical.translation import GraphBuilder
from headrace.table.physical.windows import WindowColumns, window_columns


@dataclass(frozen=True)
class WindowJoin(AnyJoin):
    """A join of the rows of each window, once it has ended.

    Attributes:
        windows: the columns of both inputs that hold the window.
    """

    name: ClassVar[str] = "WindowJoin"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(never, takes=Modify.INSERT)
    windows: tuple[WindowColumns, WindowColumns]

    @property
    def windowing(self) -> WindowColumns:
        """The window columns of results."""
        left, right = self.windows
        if not self.kind.left_is_optional:
            return left
        width = len(self.left.schema)
        return right.through({index: index + width for index in range(len(self.right.schema))})

    @property
    def requires_watermark(self) -> bool:
        return True

    def terms(self, text: ScalarText) -> Terms:
        for name, node, columns in zip(
            ("leftWindow", "rightWindow"), (self.left, self.right), self.windows, strict=True
        ):
            yield name, columns.text(node.schema.names)
        yield from super().terms(text)

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        left, right = self.windows
        assert left.end is not None
        assert right.end is not None
        spec = TableWindowJoinSpec(
            **self.about(builder), end_fields=(left.end, right.end), zone=left.window.zone(builder)
        )
        return builder.add(spec, self.name, *self.keyed(inputs))


def window_join(join: logical.Join, left: PhysicalNode, right: PhysicalNode) -> PhysicalNode | None:
    """The window join; None if the condition does not compare the windows for equality."""
    columns = window_columns(left), window_columns(right)
    if columns[0] is None or columns[1] is None or columns[0].window != columns[1].window:
        return None
    width = len(left.schema)
    wanted = [(columns[0].start, columns[1].start), (columns[0].end, columns[1].end)]
    if any(None in pair for pair in wanted):
        return None
    pairs = {(one, other + width) for one, other in wanted if one is not None and other is not None}
    parts = conjuncts(join.condition)
    found = {_compared(each) for each in parts}
    if not pairs <= found:
        return None
    condition = condition_of([each for each in parts if _compared(each) not in pairs])
    keys = JoinKeys.of(condition, width)
    exchanges = Exchange(left, keys.left), Exchange(right, keys.right)
    return WindowJoin(*exchanges, join.kind, condition, keys, (columns[0], columns[1]))


def _compared(condition: Scalar) -> tuple[int, int] | None:
    """The columns that a condition compares for equality, in order."""
    if not isinstance(condition, Call) or condition.function != "=":
        return None
    columns = sorted(each.index for each in condition.operands if isinstance(each, InputRef))
    return (columns[0], columns[1]) if len(columns) == len(condition.operands) else None


@conversion_rule(logical.Join)
def _join(join: logical.Join, context: ConversionContext) -> PhysicalNode:
    left, right = converted(join.left, context), converted(join.right, context)
    if context.is_batch:
        if context.is_shown:
            left, right = without_times(left), without_times(right)
        return executed_join(join, left, right, context)
    found = window_join(join, left, right) or interval_join(join, left, right)
    return found or multi_join(join, left, right, context) or regular_join(join, left, right)
