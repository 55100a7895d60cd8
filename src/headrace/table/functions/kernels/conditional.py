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


def type_of(call: Invocation, _: Datum, in_full: Datum | None = None) -> Datum:
    """The type of a value, as Flink shows it, or as DDL has it."""
    kind = call.operands[0]
    return constant(kind.as_sql() if in_full is not None and in_full.as_py() else str(kind), TEXT)
