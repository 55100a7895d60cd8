"""Values of SQL as the text of JSON."""

import base64
import json
from decimal import Decimal
from math import isfinite


def json_text(value: object) -> str:
    """One value as JSON: numbers with their digits, times as texts, records and lists with what they hold."""
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
