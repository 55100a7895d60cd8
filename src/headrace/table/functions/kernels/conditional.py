"""Functions that choose among values, and that say what a value is."""

import pyarrow as pa
import pyarrow.compute as pc

from headrace.table.functions.kernels.comparison import equal
from headrace.table.functions.kernels.kernel import TEXT, Datum, Invocation, constant


def choose(_: Invocation, condition: Datum, value: Datum, other: Datum) -> Datum:
    """One value where a condition is true, the other elsewhere."""
    return pc.if_else(pc.fill_null(condition, False), value, other)


def nullif(call: Invocation, value: Datum, other: Datum) -> Datum:
    """A value, NULL where it equals the other."""
    same = pc.fill_null(equal(call, value, other), False)
    return pc.if_else(same, pa.scalar(None, value.type), value)


def type_of(call: Invocation, *_: Datum) -> Datum:
    """The type of a value, as Flink shows it."""
    return constant(str(call.operands[0]), TEXT)
