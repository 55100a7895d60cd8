"""What methods of columns in PySpark, pandas and Polars are called here."""

from __future__ import annotations

from typing import Final

_AGGREGATE: Final = "aggregates belong to windows: key_by(...).window(...).aggregate(...)"
_NULL: Final = "write is_null()"
_NOT_NULL: Final = "write is_not_null()"
_FILLED: Final = "write coalesce(x, value)"
_CASE: Final = "write when(condition).then(value).otherwise(other)"
_ORDER: Final = "records have no order but that of event time; rank within windows, in a function"
_DIRECTLY: Final = "its methods are those of the expression itself: upper(), contains(...), year()"

EXPRESSION: Final = {
    "isNull": _NULL,
    "isnull": _NULL,
    "isna": _NULL,
    "isNotNull": _NOT_NULL,
    "notnull": _NOT_NULL,
    "notna": _NOT_NULL,
    "isNaN": "write is_nan()",
    "isnan": "write is_nan()",
    "isin": "write is_in([...])",
    "eqNullSafe": "write (x == y) | (x.is_null() & y.is_null())",
    "fillna": _FILLED,
    "fill_null": _FILLED,
    "is_between": "write between(low, high)",
    "when": _CASE,
    "then": _CASE,
    "otherwise": _CASE,
    "astype": "write cast(Types.LONG()), say",
    "getField": "write field(name)",
    "getItem": "write field(name), for a row or a tuple",
    "startswith": "write starts_with(text)",
    "endswith": "write ends_with(text)",
    "substr": "write substring(start, length), which counts from 0",
    "slice": "write substring(start, length), which counts from 0",
    "len": "write length()",
    "trim": "write strip()",
    "rlike": "write like(pattern) with % and _, or filter with a function",
    "str": _DIRECTLY,
    "dt": _DIRECTLY,
    "pow": "write power(exponent)",
    "dayofweek": "write day_of_week(), where Monday is 1",
    "weekday": "write day_of_week(), where Monday is 1",
    "timestamp": "write epoch_millis()",
    "map": "give a function to map(...) of the stream",
    "apply": "give a function to map(...) of the stream",
    "sum": _AGGREGATE,
    "mean": _AGGREGATE,
    "avg": _AGGREGATE,
    "min": _AGGREGATE,
    "max": _AGGREGATE,
    "count": _AGGREGATE,
    "over": _AGGREGATE,
    "asc": _ORDER,
    "desc": _ORDER,
}
"""Of expressions."""

WHEN: Final = {
    "otherwise": "it wants .then(value) first: when(condition).then(value).otherwise(other)",
    "when": "it wants .then(value) first: when(condition).then(value).when(...)",
    "alias": "it wants .then(value) first: when(condition).then(value).alias(...)",
    "cast": "it wants .then(value) first: when(condition).then(value).cast(...)",
}
"""Of ``when(condition)``."""
