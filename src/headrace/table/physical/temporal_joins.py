"""Temporal joins in event time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from headrace.graph.join_specs import TemporalJoinSpec
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.join_keys import condition_of, is_equality
from headrace.table.logical.scalars import BOOLEAN, Call, InputRef, Scalar, conjuncts
from headrace.table.logical.schema import TimeAttribute
from headrace.table.physical.basic import Exchange
from headrace.table.physical.changelog_rules import ChangelogRule, UpdateKind
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted
from headrace.table.physical.joins import AnyJoin, JoinKeys
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms
from headrace.table.physical.translation import GraphBuilder
from headrace.table.rules.temporal import TemporalJoin as LogicalTemporalJoin


@dataclass(frozen=True)
class TemporalJoin(AnyJoin):
    """A join of each row with the version of a row that is valid at its time.

    Attributes:
        time: the column of times of the left input.
        version_time: the column of version times of the right input.
    """

    name: ClassVar[str] = "TemporalJoin"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(
        lambda _node, inputs: inputs[0],
        needs=lambda _node, index, wanted: UpdateKind.ONLY_AFTER if index else wanted,
        adapts=True,
    )
    time: int
    version_time: int

    @property
    def requires_watermark(self) -> bool:
        return True

    def terms(self, text: ScalarText) -> Terms:
        names, width = self.pairs.names, len(self.left.schema)
        for name, value in super().terms(text):
            yield name, text(self._shown(width), names) if name == "where" else value

    def _shown(self, width: int) -> Scalar:
        """The condition as plans show it, with the times."""
        refs = InputRef.all_of(self.pairs)
        key = sorted(min(self.right.upsert_keys, key=sorted)) if self.right.upsert_keys else self.keys.right
        keys = [
            _marker("CONDITION_PRIMARY_KEY", [refs[width + index] for index in key]),
            _marker("LEFT_KEY", [refs[index] for index in self.keys.left]),
            _marker("RIGHT_KEY", [refs[width + index] for index in self.keys.right]),
        ]
        times = (refs[self.time], refs[width + self.version_time])
        versions = _marker("CONDITION", [*times, *keys])
        parts = conjuncts(self.condition)
        equal = [each for each in parts if is_equality(each, width)]
        return condition_of([*equal, *(each for each in parts if each not in equal), versions])

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        spec = TemporalJoinSpec(**self.about(builder), time_fields=(self.time, self.version_time))
        return builder.add(spec, self.name, *self.keyed(inputs))


def _marker(name: str, operands: Sequence[Scalar]) -> Call:
    return Call(f"__TEMPORAL_JOIN_{name}", tuple(operands), type=BOOLEAN)


@conversion_rule(LogicalTemporalJoin)
def _temporal(join: LogicalTemporalJoin, context: ConversionContext) -> PhysicalNode:
    left = converted(join.left, context)
    if left.schema[join.time].time is not TimeAttribute.ROWTIME:
        raise PlanningError(
            "lookup joins (FOR SYSTEM_TIME AS OF a processing time) cannot be executed yet: "
            "make a stream of the table (StreamTableEnvironment.to_data_stream), and enrich() that"
        )
    if context.is_batch:
        raise PlanningError("temporal joins need streaming mode: tables have no versions in batch mode")
    right = converted(join.right, context)
    keys = JoinKeys.of(join.condition, len(left.schema))
    if not any(key <= set(keys.right) for key in right.upsert_keys):
        raise PlanningError(
            "a join with versions of a table needs its primary key in the condition: define PRIMARY KEY (...) NOT "
            "ENFORCED, or a view that keeps the last row of each key by ROW_NUMBER(), and compare all columns of it"
        )
    exchanges = Exchange(left, keys.left), Exchange(right, keys.right)
    return TemporalJoin(*exchanges, join.kind, join.condition, keys, join.time, join.version_time)
