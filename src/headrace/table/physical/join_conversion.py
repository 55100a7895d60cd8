"""The choice of the physical join for a logical one."""

from __future__ import annotations

from headrace.table.logical import relations as logical
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted
from headrace.table.physical.interval_joins import interval_join
from headrace.table.physical.joins import bounded_join, regular_join
from headrace.table.physical.node import PhysicalNode
from headrace.table.physical.window_joins import window_join


@conversion_rule(logical.Join)
def _join(join: logical.Join, context: ConversionContext) -> PhysicalNode:
    left, right = converted(join.left, context), converted(join.right, context)
    if context.is_batch:
        return bounded_join(join, left, right)
    found = window_join(join, left, right) or interval_join(join, left, right)
    return found or regular_join(join, left, right)
