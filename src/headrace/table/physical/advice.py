"""Advice on improving a plan: ``EXPLAIN PLAN_ADVICE``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.common.configuration import Configuration
from headrace.table.options import AGG_PHASES, MINI_BATCH
from headrace.table.physical.aggregates import GroupAggregate
from headrace.table.physical.node import PhysicalNode

_TWO_PHASES = "You might want to enable local-global two-phase optimization by configuring"
_BATCHES = (
    "('table.exec.mini-batch.enabled' to 'true', 'table.exec.mini-batch.allow-latency' to a positive long value, "
    "'table.exec.mini-batch.size' to a positive long value)"
)


@dataclass(frozen=True)
class Advice:
    """Advice on nodes of a plan.

    Attributes:
        text: what to do.
        nodes: the nodes.
    """

    text: str
    nodes: frozenset[PhysicalNode]


def advice_on(roots: Sequence[PhysicalNode], settings: Configuration) -> list[Advice]:
    """The advice on streaming plans."""
    groups = frozenset(node for root in roots for node in root.walk() if type(node) is GroupAggregate)
    if not groups:
        return []
    if not settings.get(MINI_BATCH):
        return [Advice(f"{_TWO_PHASES} {_BATCHES}.", groups)]
    if settings.get(AGG_PHASES) == "ONE_PHASE":
        return [Advice(f"{_TWO_PHASES} ('{AGG_PHASES.key}' to 'AUTO').", groups)]
    return []


def advice_text(found: Sequence[Advice]) -> str:
    """The text of the advice below a plan, whose nodes refer to it by number."""
    if not found:
        return "No available advice..."
    return "\n".join(f"advice[{number}]: [ADVICE] {each.text}" for number, each in enumerate(found, 1))
