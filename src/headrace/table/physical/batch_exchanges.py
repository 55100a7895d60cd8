"""Exchanges that execution plans of batch mode show where rows stay as they are distributed already."""

from __future__ import annotations

from typing import Final

from headrace.table.physical.basic import Calc, Exchange
from headrace.table.physical.correlates import Correlate
from headrace.table.physical.node import PhysicalNode
from headrace.table.physical.phases import Phase

_GLOBAL: Final = ("OverAggregate", "SortAggregate")
_LOCAL: Final = ("LocalSortAggregate",)
"""Nodes that read sorted rows: of keys that have been brought together, and of one task."""

_PASSING: Final = (Calc, Correlate)
"""Nodes that keep the order and the distribution of rows."""


def with_kept_distributions(node: PhysicalNode) -> PhysicalNode:
    """A plan with the exchanges that Flink adds between nodes that rely on how rows are distributed and sorted."""
    node = node.with_inputs([with_kept_distributions(child) for child in node.inputs])
    terms = dict(node.described) if isinstance(node, Phase) else {}
    keys = terms.get("partitionBy") or terms.get("groupBy")
    is_local = node.title in _LOCAL or (node.title == "Rank" and terms.get("global") == "false")
    if is_local and keys:
        return node.with_inputs([_forwarded(each, None) for each in node.inputs])
    if keys and node.title == "HashAggregate" and terms["isMerge"] == "false":
        return node.with_inputs([_kept_of(each, keys) for each in node.inputs])
    if keys and (node.title in _GLOBAL or (node.title == "Rank" and "global" in terms)):
        return node.with_inputs([_forwarded(each, keys) for each in node.inputs])
    return node


def _kept_of(node: PhysicalNode, keys: str) -> PhysicalNode:
    """A node whose rows stay in their task."""
    if isinstance(node, Exchange):
        return node
    if isinstance(node, _PASSING):
        node = node.with_inputs([_kept_of(each, keys) for each in node.inputs])
    return _kept(node, f"keep_input_as_is[hash[{keys}]]")


def _forwarded(node: PhysicalNode, keys: str | None) -> PhysicalNode:
    """A node whose rows stay in their task, in their order."""
    if isinstance(node, Exchange):
        return node
    if isinstance(node, _PASSING):
        node = node.with_inputs([_forwarded(each, keys) for each in node.inputs])
    elif node.title == "Sort" and keys is not None:
        (below,) = node.inputs
        if not isinstance(below, Exchange):
            node = node.with_inputs([_kept(below, f"keep_input_as_is[hash[{keys}]]")])
    return _kept(node, "forward")


def _kept(node: PhysicalNode, distribution: str) -> PhysicalNode:
    return Phase(node, node.schema, Exchange.name, (("distribution", distribution),))
