"""Aggregation of batch jobs in two phases, as plans show it: of the rows of each sender, then of what they have sent.

Senders sum up rows where the planner of the stream graph finds it useful; plans say so where Flink's do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from headrace.table.logical.scalars import AggregateCall
from headrace.table.logical.schema import Schema
from headrace.table.physical.changelog_rules import PASSING, ChangelogRule
from headrace.table.physical.node import PhysicalNode, ScalarText, Terms, names_text

_ACCUMULATORS: Final = {
    "COUNT": ("count",),
    "SUM": ("sum",),
    "$SUM0": ("sum",),
    "MIN": ("min",),
    "MAX": ("max",),
    "AVG": ("sum", "count"),
}


@dataclass(frozen=True)
class Phase(PhysicalNode):
    """A node of a plan that is only shown.

    Attributes:
        columns: its columns.
        called: its name.
        described: its terms.
    """

    name: ClassVar[str] = "Phase"
    changelog: ClassVar[ChangelogRule] = PASSING
    input: PhysicalNode
    columns: Schema
    called: str
    described: tuple[tuple[str, str], ...] = ()

    @property
    def title(self) -> str:
        return self.called

    @property
    def schema(self) -> Schema:
        return self.columns

    def terms(self, text: ScalarText) -> Terms:
        yield from self.described


@dataclass(frozen=True)
class PartialCalls:
    """Calls of aggregates in two phases.

    Attributes:
        partial: the calls of the first phase, with the names of their accumulators.
        final: those of the second.
    """

    partial: tuple[str, ...]
    final: tuple[str, ...]


def partial_calls(calls: Sequence[AggregateCall], results: Sequence[str], names: Sequence[str]) -> PartialCalls | None:
    """The calls in two phases as plans of batch jobs show them; None where a call is not computed in two phases.

    Args:
        calls: the calls.
        results: the names of their results.
        names: the names of the columns that they read.
    """
    partial, final, number = [], [], 0
    for call, result in zip(calls, results, strict=True):
        kinds = _ACCUMULATORS.get(call.function)
        if kinds is None or call.is_distinct:
            return None
        if call.function == "COUNT" and not call.operands:
            kinds = ("count1",)
        found = [f"{kind}${number + place}" for place, kind in enumerate(kinds)]
        number += len(found)
        operands = names_text([names[index] for index in call.operands]) or "*"
        chosen = "" if call.filter is None else f" FILTER {names[call.filter]}"
        held = found[0] if len(found) == 1 else f"({', '.join(found)})"
        partial.append(f"Partial_{call.function}({operands}){chosen} AS {held}")
        final.append(f"Final_{call.function}({', '.join(found)}) AS {result}")
    return PartialCalls(tuple(partial), tuple(final))
