"""Phases of batch mode: nodes that stand in Flink's plans for parts of what one operator computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from headrace.common.logical_types import LogicalType
from headrace.table.logical.scalars import AggregateCall
from headrace.table.logical.schema import Schema
from headrace.table.physical.call_texts import partial_types, partials, phase_call_text
from headrace.table.physical.changelog_rules import PASSING, ChangelogRule
from headrace.table.physical.node import PhysicalNode, ScalarText, Terms, names_text

_SPLIT_IN_BATCH: Final = frozenset(("COUNT", "SUM", "$SUM0", "MIN", "MAX", "AVG", "SINGLE_VALUE", "LISTAGG"))
WHOLE_IN_BATCH: Final = frozenset(
    ("COLLECT", "ARRAY_AGG", "PERCENTILE", "JSON_OBJECTAGG", "APPROX_COUNT_DISTINCT", "$WELFORD_M2$1")
)
"""Functions that batch plans show in two phases: with partial results of several parts, and of one object."""


@dataclass(frozen=True)
class Work:
    """The work of a phase, by which its cost is estimated.

    Attributes:
        keys: the number of columns by which rows are grouped or sorted.
        calls: the number of functions.
        limit: the number of rows that it emits at most.
        copies: the number of rows that it emits for each row.
        types: the types of the rows that it emits, where these are partial results.
    """

    keys: int = 0
    calls: int = 0
    limit: int | None = None
    copies: int = 1
    types: tuple[LogicalType, ...] = ()


@dataclass(frozen=True)
class Phase(PhysicalNode):
    """A part of what one operator computes.

    Attributes:
        columns: its columns.
        called: its name.
        described: its terms.
        distributed: the columns by which its rows are distributed; empty for a single task, None where unknown.
        hints: its hints.
        work: what it does.
    """

    name: ClassVar[str] = "Phase"
    changelog: ClassVar[ChangelogRule] = PASSING
    input: PhysicalNode
    columns: Schema
    called: str
    described: tuple[tuple[str, str], ...] = ()
    distributed: tuple[int, ...] | None = None
    hints: tuple[tuple[str, str], ...] = field(default=(), kw_only=True)
    work: Work = field(default=Work(), kw_only=True)

    @property
    def title(self) -> str:
        return self.called

    @property
    def schema(self) -> Schema:
        return self.columns

    def terms(self, text: ScalarText) -> Terms:
        yield from self.described

    def hint_terms(self) -> Terms:
        yield from self.hints


@dataclass(frozen=True)
class PartialCalls:
    """Two-phase aggregate calls.

    Attributes:
        partial: the calls of the first phase, with the names of their accumulators.
        final: the calls of the second phase.
        types: the types of the accumulators.
    """

    partial: tuple[str, ...]
    final: tuple[str, ...]
    types: tuple[LogicalType, ...]


def partial_calls(calls: Sequence[AggregateCall], results: Sequence[str], names: Sequence[str]) -> PartialCalls | None:
    """The two-phase calls in batch plans; None if a call is not computed in two phases.

    Args:
        calls: the calls.
        results: the names of their results.
        names: the names of the columns that they read.
    """
    if any(call.function not in _SPLIT_IN_BATCH | WHOLE_IN_BATCH or call.is_distinct for call in calls):
        return None
    partial, final = [], []
    split = iter(partials([call for call in calls if call.function not in WHOLE_IN_BATCH]))
    for call, result in zip(calls, results, strict=True):
        operands = names_text([names[index] for index in call.operands]) or "*"
        chosen = "" if call.filter is None else f" FILTER {names[call.filter]}"
        each = None if call.function in WHOLE_IN_BATCH else next(split)
        accumulators, parts = (result, result) if each is None else (each.text, names_text(each.parts))
        partial.append(f"{phase_call_text(call, 'Partial_', operands)}{chosen} AS {accumulators}")
        final.append(f"{phase_call_text(call, 'Final_', parts)} AS {result}")
    return PartialCalls(tuple(partial), tuple(final), tuple(kind for call in calls for kind in partial_types(call)))
