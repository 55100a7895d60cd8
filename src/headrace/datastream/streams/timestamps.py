"""Checks of watermark strategies against the records that they are for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.common.arguments import refused, uncalled
from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import BasicType, BasicTypeInfo
from headrace.datastream.streams.checks import check_has_no_state
from headrace.datastream.streams.columns import bound, type_of_field
from headrace.datastream.streams.types import is_untyped
from headrace.graph.specs import TimestampsSpec
from headrace.time.watermark_strategy import ExpressionTimestamps, FieldTimestamps, WatermarkStrategy
from headrace.time.watermarks import NoWatermarks

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.graph.stream_graph import StreamGraph

_TIMES: Final = frozenset(
    {BasicType.LONG, BasicType.INT, BasicType.SQL_TIMESTAMP, BasicType.TIMESTAMP_LTZ, BasicType.INSTANT}
)


def is_needed(strategy: WatermarkStrategy) -> bool:
    """Whether a strategy does anything: without watermarks there is nothing that a silent split could hold back."""
    return strategy.timestamp_assigner is not None or not isinstance(strategy.generator, NoWatermarks)


def check_strategy(strategy: Any, record_type: TypeInformation) -> None:
    """Refuse what is no strategy, and a strategy that takes time from a field or an expression that gives none.

    Raises:
        InvalidTypeError: when it is no ``WatermarkStrategy``, there is no such field, or it holds no time.
        InvalidProgramError: when its timestamp assigner keeps state.
    """
    if not isinstance(strategy, WatermarkStrategy):
        hint = uncalled(strategy, WatermarkStrategy) or ": WatermarkStrategy.no_watermarks(), say"
        raise refused(f"expected a WatermarkStrategy, got {strategy!r}{hint}", InvalidTypeError)
    assigner = strategy.timestamp_assigner
    instead = "put the time into the record, with a map() that keeps the state, and assign timestamps behind it"
    check_has_no_state(assigner, "timestamp assigner", instead)
    if isinstance(assigner, FieldTimestamps):
        _check_field(assigner.field, record_type)
    elif isinstance(assigner, ExpressionTimestamps):
        value = bound(assigner.expression, record_type, "event time")
        _check_time(value.type, f"event time from {value.text}")


def check_has_event_time(graph: StreamGraph, operators: set[int], which: str, method: str) -> None:
    """Refuse a stream whose records do not all pass a watermark strategy: its event time would never come.

    Args:
        graph: the graph that it is in.
        operators: the ids of the operators whose records it is of.
        which: what messages call it.
        method: what wants event time.

    Raises:
        InvalidProgramError: when there is a way to it without any strategy; it names the source.
    """
    waiting, seen = set(operators), set()
    while waiting:
        node = graph[waiting.pop()]
        if node.id in seen or isinstance(node.spec, TimestampsSpec):
            continue
        seen.add(node.id)
        if not node.inputs:
            raise refused(
                f"{method} wants event time, and the records of {node.name!r} in the {which} stream have none: give a "
                "WatermarkStrategy with a timestamp assigner to from_source(...), or to "
                "assign_timestamps_and_watermarks(...) before key_by"
            )
        waiting |= {edge.source for edge in node.inputs}


def _check_field(field: str | int, record_type: TypeInformation) -> None:
    if is_untyped(record_type):
        raise refused(
            f"event time from field {field!r}: the records are pickled objects and have no fields; give their type "
            "where they are made, or take the time with a function",
            InvalidTypeError,
        )
    asked_by = f"event time from field {field!r}"
    _check_time(type_of_field(record_type, field, asked_by) if record_type.is_composite else record_type, asked_by)


def _check_time(found: TypeInformation, what: str) -> None:
    if not isinstance(found, BasicTypeInfo) or found.basic_type not in _TIMES:
        text = f"{what}: expected milliseconds (LONG) or a timestamp, but it is of type {found}"
        raise refused(text, InvalidTypeError)
