"""Kernels of names that stand for different functions, depending on the types."""

import pyarrow as pa
import pyarrow.compute as pc

from headrace.table.functions.kernels import collections, decimals, json_values, numbers, temporal, variants
from headrace.table.functions.kernels.calendar import is_temporal
from headrace.table.functions.kernels.kernel import Datum, Invocation


def _has_interval(call: Invocation, *operands: Datum) -> bool:
    return any(is_temporal(operand) or _is_interval(call, place) for place, operand in enumerate(operands))


def _is_interval(call: Invocation, place: int) -> bool:
    return str(call.operands[place]).startswith("INTERVAL")


def add(call: Invocation, left: Datum, right: Datum | None = None) -> Datum:
    """``+`` of numbers, or of times and intervals; of one operand that operand."""
    if right is None:
        return left
    if _has_interval(call, left, right):
        return temporal.add(call, left, right)
    return (decimals if pa.types.is_decimal(call.storage) else numbers).add(call, left, right)


def minus(call: Invocation, left: Datum, right: Datum | None = None) -> Datum:
    """``-`` of numbers, or of times and intervals; of one operand its negative."""
    if right is None:
        return (
            pc.negate(left.cast(pa.int64())).cast(left.type)
            if pa.types.is_duration(left.type)
            else numbers.negate(call, left)
        )
    if _has_interval(call, left, right):
        return temporal.subtract(call, left, right)
    return (decimals if pa.types.is_decimal(call.storage) else numbers).subtract(call, left, right)


def multiply(call: Invocation, left: Datum, right: Datum) -> Datum:
    """``*`` of numbers, or of an interval and a number."""
    if _has_interval(call, left, right):
        return temporal.multiply_interval(call, left, right)
    return (decimals if pa.types.is_decimal(call.storage) else numbers).multiply(call, left, right)


def divide(call: Invocation, left: Datum, right: Datum) -> Datum:
    """``/`` of numbers, or of an interval by a number."""
    if _has_interval(call, left, right):
        return temporal.divide_interval(call, left, right)
    return (decimals if pa.types.is_decimal(call.storage) else numbers).divide(call, left, right)


def remainder(call: Invocation, left: Datum, right: Datum) -> Datum:
    """The remainder of a division."""
    return (decimals if pa.types.is_decimal(call.storage) else numbers).remainder(call, left, right)


def floor(call: Invocation, operand: Datum) -> Datum:
    """``FLOOR`` of a number, or of a time to a unit."""
    return temporal.floor(call, operand) if is_temporal(operand) else numbers.floor(call, operand)


def ceil(call: Invocation, operand: Datum) -> Datum:
    """``CEIL`` of a number, or of a time to a unit."""
    return temporal.ceil(call, operand) if is_temporal(operand) else numbers.ceil(call, operand)


def item(call: Invocation, collection: Datum, index: Datum) -> Datum:
    """``[index]`` of an array, a map or a variant."""
    function = variants.item if pa.types.is_string(collection.type) else collections.item
    return function(call, collection, index)


def json_string(call: Invocation, value: Datum) -> Datum:
    """JSON of a value; a variant is that already."""
    return (variants if str(call.operands[0]).startswith("VARIANT") else json_values).json_string(call, value)
