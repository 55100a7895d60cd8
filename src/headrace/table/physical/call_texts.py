"""Aggregate calls in plans: of one phase, and of two, a local aggregate in each sender and a global one.

Senders pre-aggregate rows where the planner of the stream graph finds it useful; plans show that where Flink's do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.common.logical_types import LogicalType
from headrace.table.functions.types import BIGINT, INTEGERS, is_in
from headrace.table.logical.scalars import AggregateCall
from headrace.table.physical.node import names_text

_PARTS: Final = {
    "AVG": ("sum", "count"),
    "LISTAGG": ("accDelimiter", "concatAcc"),
    "$SUM0": ("sum",),
    "SUM0": ("sum",),
    "SINGLE_VALUE": ("value", "count"),
}
"""Names of partial results that differ from the function's name."""


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


def function_text(call: AggregateCall) -> str:
    """The name of a function in plans: that of JSON with its clause, ``$SUM0`` for a sum that is never NULL."""
    if (on_null := dict(call.options).get("on_null")) is not None:
        return f"{call.function}_{on_null}_ON_NULL"
    return "$SUM0" if call.function == "SUM" and not call.type.nullable else call.function


def phase_call_text(call: AggregateCall, prefix: str, operands: str) -> str:
    """A call of a phase of batch mode."""
    if call.function == "APPROX_COUNT_DISTINCT":
        return f"{prefix}COUNT(APPROXIMATE DISTINCT {operands})"
    return f"{prefix}{function_text(call)}({operands})"


def call_text(call: AggregateCall, names: Sequence[str], *, retracts: bool) -> str:
    """A call in the form of plans: ``COUNT(DISTINCT id) FILTER $f2``."""
    operands = names_text([names[index] for index in call.operands]) or "*"
    if call.function == "APPROX_COUNT_DISTINCT":
        return phase_call_text(call, "", operands)
    text = f"{function_text(call)}{'_RETRACT' if retracts else ''}({'DISTINCT ' if call.is_distinct else ''}{operands})"
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
    def text(self) -> str:
        """The partial results in the form of a plan."""
        return self.parts[0] if len(self.parts) == 1 else f"({names_text(self.parts)})"


def partials(calls: Sequence[AggregateCall], *, retracts: bool = False) -> Iterator[Partial]:
    """Calls with the names of their partial results, which are numbered consecutively."""
    number, sets = 0, dict[tuple[int, ...], int]()
    for call in calls:
        whole = function_text(call) if call.options else call.function
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
    """The partial results of senders, as streaming plans show them; calls that only grow retract nothing."""
    sets: dict[str, None] = {}
    for each in partials(calls, retracts=retracts):
        text = call_text(each.call, names, retracts=retracts and each.call not in growing)
        if each.distinct is not None:
            text = text.replace("(DISTINCT ", f"(distinct${each.distinct} ", 1)
            operands = names_text([names[index] for index in each.call.operands])
            sets[f"DISTINCT({operands}) AS distinct${each.distinct}"] = None
        yield f"{text} AS {each.text}"
    yield from sets


def merging_texts(
    calls: Sequence[AggregateCall], *, retracts: bool = False, growing: Collection[AggregateCall] = ()
) -> Iterator[str]:
    """The calls of receivers, in the form of streaming plans."""
    for each in partials(calls, retracts=retracts):
        retracted = "_RETRACT" if retracts and each.call not in growing else ""
        of_set = "" if each.distinct is None else f"distinct${each.distinct} "
        yield f"{function_text(each.call)}{retracted}({of_set}{each.text})"


def partial_types(call: AggregateCall, *, retracts: bool = False) -> tuple[LogicalType, ...]:
    """The types of the partial results of a call."""
    if retracts and call.function == "SUM":
        return call.type, BIGINT
    if call.function == "AVG":
        return (BIGINT if is_in(call.type, INTEGERS) else call.type), BIGINT
    return (call.type,) * len(_PARTS.get(call.function, ("whole",)))
