"""The kernels of operators, of functions of time and of constructors, by the names that scalars have."""

from typing import Final

import pyarrow.compute as pc

from headrace.table.functions.kernels import collections, comparison, patterns, temporal, texts, times
from headrace.table.functions.kernels.dispatch import add, ceil, divide, floor, minus, multiply, remainder
from headrace.table.functions.kernels.kernel import Kernel, plain

OPERATORS: Final[dict[str, Kernel]] = {
    "+": add,
    "-": minus,
    "*": multiply,
    "/": divide,
    "MOD": remainder,
    "MINUS_DATE": temporal.subtract,
    "||": texts.concat,
    "=": comparison.equal,
    "<>": comparison.not_equal,
    "<": comparison.less,
    "<=": comparison.less_equal,
    ">": comparison.greater,
    ">=": comparison.greater_equal,
    "IS DISTINCT FROM": comparison.is_distinct,
    "IS NOT DISTINCT FROM": comparison.is_not_distinct,
    "AND": comparison.conjunction,
    "OR": comparison.disjunction,
    "NOT": plain(pc.invert),
    "IS NULL": plain(pc.is_null),
    "IS NOT NULL": plain(pc.is_valid),
    "IS TRUE": comparison.is_value(value=True),
    "IS NOT TRUE": comparison.is_value(value=True, negated=True),
    "IS FALSE": comparison.is_value(value=False),
    "IS NOT FALSE": comparison.is_value(value=False, negated=True),
    "IS UNKNOWN": plain(pc.is_null),
    "IS NOT UNKNOWN": plain(pc.is_valid),
    "LIKE": patterns.like,
    "SIMILAR TO": patterns.similar_to,
}
"""Operators, and what has a syntax of its own."""

TIMES: Final[dict[str, Kernel]] = {
    "FLOOR": floor,
    "CEIL": ceil,
    "EXTRACT": temporal.extract,
    "YEAR": temporal.field("YEAR"),
    "QUARTER": temporal.field("QUARTER"),
    "MONTH": temporal.field("MONTH"),
    "WEEK": temporal.field("WEEK"),
    "DAYOFYEAR": temporal.field("DOY"),
    "DAYOFMONTH": temporal.field("DAY"),
    "DAYOFWEEK": temporal.field("DOW"),
    "HOUR": temporal.field("HOUR"),
    "MINUTE": temporal.field("MINUTE"),
    "SECOND": temporal.field("SECOND"),
    "OVERLAPS": temporal.overlaps,
    "TIMESTAMPADD": temporal.timestampadd,
    "TIMESTAMPDIFF": temporal.timestampdiff,
    "DATE_FORMAT": times.date_format,
    "FROM_UNIXTIME": times.from_unixtime,
    "CONVERT_TZ": times.convert_tz,
    "TO_TIMESTAMP": times.to_timestamp,
    "TO_DATE": times.to_date,
    "UNIX_TIMESTAMP": times.unix_timestamp,
    "TO_TIMESTAMP_LTZ": times.to_timestamp_ltz,
}

CONSTRUCTORS: Final[dict[str, Kernel]] = {
    "ARRAY": collections.array,
    "MAP": collections.map_,
    "MULTISET": collections.multiset,
    "ROW": collections.row,
}
"""``ARRAY[...]`` and its like, which no program calls by name."""
