"""Two-phase aggregation in plans: a local aggregate in each sender, then a global one.

Senders sum up rows where the planner of the stream graph finds it useful; plans say so where Flink's do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from headrace.common.logical_types import LogicalType
from headrace.table.functions.types import BIGINT, INTEGERS, is_in
from headrace.table.logical.scalars import AggregateCall
from headrace.table.logical.schema import Schema
from headrace.table.physical.changelog_rules import PASSING, ChangelogRule
from headrace.table.physical.node import PhysicalNode, ScalarText, Terms, names_text

_PARTS: Final = {
    "AVG": ("sum", "count"),
    "LISTAGG": ("accDelimiter", "concatAcc"),
    "$SUM0": ("sum",),
    "SUM0": ("sum",),
    "SINGLE_VALUE": ("value", "count"),
}
"""Names of partial results that differ from the function's name."""

_SPLIT_IN_BATCH: Final = frozenset(("COUNT", "SUM", "$SUM0", "MIN", "MAX", "AVG", "SINGLE_VALUE", "LISTAGG"))
WHOLE_IN_BATCH: Final = frozenset(
    ("COLLECT", "ARRAY_AGG", "PERCENTILE", "JSON_OBJECTAGG", "APPROX_COUNT_DISTINCT", "$WELFORD_M2$1")
)
"""Functions that batch plans show in two phases: with partial results of several parts, and of one object."""


def call_texts(
    calls: Sequence[AggregateCall],
    names: Sequence[str],
    given: Sequence[str],
    *,
    retracts: bool,
    growing: Collection[AggregateCall] = (),
) -> list[str]:
    """Calls with the names of their results, as plans show them; nothing is retracted from those that only grow."""
    return [
        f"{call_text(call, given, retracts=retracts and call not in growing)} AS {name}"
        for call, name in zip(calls, names, strict=True)
    ]


def shown_function(call: AggregateCall) -> str:
    """The name of a function in plans: that of JSON with its clause, ``$SUM0`` for a sum that is never NULL."""
    if (on_null := dict(call.options).get("on_null")) is not None:
        return f"{call.function}_{on_null}_ON_NULL"
    return "$SUM0" if call.function == "SUM" and not call.type.nullable else call.function


def _called(call: AggregateCall, prefix: str, operands: str) -> str:
    """A call of a phase of batch mode."""
    if call.function == "APPROX_COUNT_DISTINCT":
        return f"{prefix}COUNT(APPROXIMATE DISTINCT {operands})"
    return f"{prefix}{shown_function(call)}({operands})"


def call_text(call: AggregateCall, names: Sequence[str], *, retracts: bool) -> str:
    """A call in the form of plans: ``COUNT(DISTINCT id) FILTER $f2``."""
    operands = names_text([names[index] for index in call.operands]) or "*"
    if call.function == "APPROX_COUNT_DISTINCT":
        return _called(call, "", operands)
    text = (
        f"{shown_function(call)}{'_RETRACT' if retracts else ''}({'DISTINCT ' if call.is_distinct else ''}{operands})"
    )
    return text if call.filter is None else f"{text} FILTER {names[call.filter]}"


@dataclass(frozen=True)
class Partial:
    """A two-phase call.

    Attributes:
        call: the call.
        parts: the names of its partial results.
        distinct: the number of its set of distinct values; calls of the same operands share one.
    """

    call: AggregateCall
    parts: tuple[str, ...]
    distinct: int | None

    @property
    def shown(self) -> str:
        """The partial results in the form of a plan."""
        return self.parts[0] if len(self.parts) == 1 else f"({names_text(self.parts)})"


def partials(calls: Sequence[AggregateCall], *, retracts: bool = False) -> Iterator[Partial]:
    """Calls with the names of their partial results, which are numbered consecutively."""
    number, sets = 0, dict[tuple[int, ...], int]()
    for call in calls:
        whole = shown_function(call) if call.options else call.function
        default = ("count1",) if call.function == "COUNT" and not call.operands else (whole.lower(),)
        kinds = _PARTS.get(call.function, ("sum", "count") if retracts and call.function == "SUM" else default)
        parts = tuple(f"{kind}${place}" for place, kind in enumerate(kinds, number))
        number += len(parts)
        yield Partial(call, parts, sets.setdefault(call.operands, len(sets)) if call.is_distinct else None)


def partial_texts(
    calls: Sequence[AggregateCall],
    names: Sequence[str],
    *,
    retracts: bool = False,
    growing: Collection[AggregateCall] = (),
) -> Iterator[str]:
    """What senders compute for calls, as streaming plans show it; nothing is retracted from calls that only grow."""
    sets: dict[str, None] = {}
    for each in partials(calls, retracts=retracts):
        text = call_text(each.call, names, retracts=retracts and each.call not in growing)
        if each.distinct is not None:
            text = text.replace("(DISTINCT ", f"(distinct${each.distinct} ", 1)
            operands = names_text([names[index] for index in each.call.operands])
            sets[f"DISTINCT({operands}) AS distinct${each.distinct}"] = None
        yield f"{text} AS {each.shown}"
    yield from sets


def merging_texts(
    calls: Sequence[AggregateCall], *, retracts: bool = False, growing: Collection[AggregateCall] = ()
) -> Iterator[str]:
    """What receivers compute for calls, in the form of streaming plans."""
    for each in partials(calls, retracts=retracts):
        retracted = "_RETRACT" if retracts and each.call not in growing else ""
        of_set = "" if each.distinct is None else f"distinct${each.distinct} "
        yield f"{shown_function(each.call)}{retracted}({of_set}{each.shown})"


@dataclass(frozen=True)
class Work:
    """What a phase does, by which its cost is estimated.

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
    """A node of a plan that is only shown.

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
    def distributions(self) -> tuple[tuple[int, ...], ...]:
        return () if self.distributed is None else (self.distributed,)

    @property
    def schema(self) -> Schema:
        return self.columns

    @property
    def shown_types(self) -> tuple[LogicalType, ...]:
        return self.work.types or self.columns.types

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
        shown, parts = (result, result) if each is None else (each.shown, names_text(each.parts))
        partial.append(f"{_called(call, 'Partial_', operands)}{chosen} AS {shown}")
        final.append(f"{_called(call, 'Final_', parts)} AS {result}")
    return PartialCalls(tuple(partial), tuple(final), tuple(kind for call in calls for kind in partial_types(call)))


def partial_types(call: AggregateCall, *, retracts: bool = False) -> tuple[LogicalType, ...]:
    """The types of the partial results of a call."""
    if retracts and call.function == "SUM":
        return call.type, BIGINT
    if call.function == "AVG":
        return (BIGINT if is_in(call.type, INTEGERS) else call.type), BIGINT
    return (call.type,) * len(_PARTS.get(call.function, ("whole",)))
