"""``JSON_ARRAYAGG`` and ``JSON_OBJECTAGG``: values of SQL as the text of JSON."""

import base64
import json
from collections.abc import Sequence
from decimal import Decimal
from math import isfinite

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import codes_of, gather, lists_of
from headrace.common.errors import EvaluationError
from headrace.operators.aggregates.calls.ordered import unboxed
from headrace.state.runs.grouping import value_ranks


def json_array(results: Sequence[pa.Array]) -> pa.Array:
    """The values as the text of a JSON array; empty where there is none."""
    values, lengths = unboxed(results[0])
    texts = pa.array(_texts(values), pa.string())
    joined = pc.binary_join(lists_of(texts, lengths), ",")
    return pc.binary_join_element_wise("[", joined, "]", "")


def json_object(results: Sequence[pa.Array]) -> pa.Array:
    """The pairs of key and value as the text of a JSON object, by key.

    Raises:
        EvaluationError: when a key comes twice, or is null.
    """
    keys, lengths = unboxed(results[0])
    if keys.null_count:
        raise EvaluationError(
            "the key of JSON_OBJECTAGG is NULL: leave out such rows by FILTER (WHERE key IS NOT NULL)"
        )
    values = unboxed(results[0], 1)[0]
    groups = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((value_ranks(keys), groups))
    codes = codes_of(keys)[order]
    if ((np.diff(codes) == 0) & (np.diff(groups[order]) == 0)).any():
        raise EvaluationError("a key of JSON_OBJECTAGG comes twice in a group: keys of an object are different")
    names = _texts(gather(keys.cast(pa.string()), order))
    texts = [f"{name}:{value}" for name, value in zip(names, _texts(gather(values, order)), strict=True)]
    joined = pc.binary_join(lists_of(pa.array(texts, pa.string()), lengths), ",")
    return pc.binary_join_element_wise("{", joined, "}", "")


def _texts(values: pa.Array) -> list[str]:
    return [json_text(value) for value in values.to_pylist()]


def json_text(value: object) -> str:
    """A value as JSON: numbers with all digits, times as strings, bytes in base64."""
    if value is None or isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int | float | Decimal):
        return _number(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(str(key))}:{json_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(json_text, value)) + "]"
    text = base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
    return json.dumps(text, ensure_ascii=False)


def _number(value: float | Decimal) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    return repr(value) if isfinite(value) else json.dumps(str(value))
