"""Functions of JSON, which is text."""

import json
import operator
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, Final

import pyarrow as pa

from headrace.common.logical_types import LogicalType, MapType, MultisetType, RowType
from headrace.table.functions.kernels.kernel import Datum, Invocation, Kernel, by_row, map_rows
from headrace.table.functions.kernels.spelling import double_text

Step = Callable[[Any], Iterator[Any]]
"""The values that a value leads to."""

_STEP: Final = re.compile(
    r"(?P<deep>\.\.)(?P<deep_name>\*|\w[\w-]*)?"
    r"|\.(?P<function>length|size|min|max|sum|keys)\(\)"
    r"|\.(?P<name>\*|[^.\[\]()\s]+)"
    r"|\[\s*(?P<star>\*)\s*\]"
    r"|\[\s*(?P<quoted>'(?:[^'\\]|\\.)*'(?:\s*,\s*'(?:[^'\\]|\\.)*')*|\"(?:[^\"\\]|\\.)*\")\s*\]"
    r"|\[\s*(?P<indices>-?\d+(?:\s*,\s*-?\d+)*)\s*\]"
    r"|\[\s*(?P<slice>-?\d*\s*:\s*-?\d*)\s*\]"
    r"|\[\?\((?P<filter>.+?)\)\]"
)


class PathError(ValueError):
    """A path that leads nowhere, or is none."""


class Reach(Enum):
    """The number of values that a step can select."""

    ONE = "one value"
    """One value or none; none is an error of strict paths."""
    OF_LIST = "elements"
    """Some elements of a list; a value that is not a list is an error of strict paths."""
    ANY = "any number of values"


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A path, read once.

    Attributes:
        text: as it is written.
        steps: its steps, and how far they lead.
        is_strict: whether a step that leads nowhere is an error.
    """

    text: str
    steps: tuple[tuple[Step, Reach], ...]
    is_strict: bool

    def find(self, value: Any) -> Any:
        """The value at the path; an array of all values, maybe of none, when the path can select several.

        Raises:
            PathError: when it leads nowhere, and is strict.
        """
        found, is_definite = [value], True
        for step, reach in self.steps:
            is_wrong = is_definite and reach is Reach.OF_LIST and not isinstance(found[0], list)
            found = [reached for each in found for reached in step(each)]
            if is_definite and (is_wrong or (reach is Reach.ONE and not found)):
                if self.is_strict:
                    raise PathError(f"the path {self.text!r} leads nowhere")
                return None if all(reach is Reach.ONE for _, reach in self.steps) else []
            is_definite &= reach is Reach.ONE
        return found[0] if is_definite else found


_MODE: Final = re.compile(r"\s*(strict|lax)\s+(.+)", re.IGNORECASE | re.DOTALL)


@lru_cache(maxsize=1024)
def json_path(text: str) -> JsonPath:
    """A path that says its mode before it, or is strict.

    Raises:
        PathError: when it is none.
    """
    mode = _MODE.fullmatch(text)
    path = (mode[2] if mode else text).strip()
    steps, end = [], 1
    if not path:
        raise PathError("a path into JSON is empty")
    if path[0] not in "$@":
        path = f"$.{path}"
    while end < len(path):
        found = _STEP.match(path, end)
        if found is None:
            raise PathError(f"the path {text!r} cannot be read from {path[end:]!r} on")
        steps.append(_step(found))
        end = found.end()
    return JsonPath(path, tuple(steps), mode is None or mode[1].lower() == "strict")


def _step(found: re.Match[str]) -> tuple[Step, Reach]:
    kind = found.lastgroup or "deep"
    text = found[kind]
    if found["deep"]:
        return _descent(found["deep_name"]), Reach.ANY
    if kind == "star" or (kind == "name" and text == "*"):
        return _children, Reach.ANY
    if kind in ("name", "quoted"):
        names = [text] if kind == "name" else _names(text)
        return _fields(names), Reach.ONE if len(names) == 1 else Reach.ANY
    if kind == "function":
        return _function(text), Reach.ONE
    if kind == "indices":
        places = [int(place) for place in text.split(",")]
        return _elements(places), Reach.ONE if len(places) == 1 else Reach.OF_LIST
    return (_slice(text), Reach.OF_LIST) if kind == "slice" else (_filter(text), Reach.ANY)


def _names(text: str) -> list[str]:
    return [re.sub(r"\\(.)", r"\1", part[1:-1]) for part in re.findall(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", text)]


def _fields(names: list[str]) -> Step:
    return lambda value: (value[name] for name in names if isinstance(value, dict) and name in value)


def _elements(places: list[int]) -> Step:
    def reach(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from (value[place] for place in places if -len(value) <= place < len(value))

    return reach


def _slice(text: str) -> Step:
    low, high = (int(part) if part.strip() else None for part in text.split(":"))
    return lambda value: iter(value[low:high] if isinstance(value, list) else ())


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _below(value: Any) -> Iterator[Any]:
    yield value
    for child in _children(value):
        yield from _below(child)


def _descent(name: str | None) -> Step:
    if name in (None, "*"):
        return lambda value: (each for each in _below(value) if name is None or each is not value)
    return lambda value: (each[name] for each in _below(value) if isinstance(each, dict) and name in each)


_FUNCTIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "length": len,
    "size": len,
    "keys": list,
    "min": lambda values: float(min(values)),
    "max": lambda values: float(max(values)),
    "sum": lambda values: float(sum(values)),
}


def _function(name: str) -> Step:
    function = _FUNCTIONS[name]
    return lambda value: iter([function(value) if isinstance(value, list | dict) else None])


_COMPARISON: Final = re.compile(r"\s*@(?P<path>[^\s=!<>~]*)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<value>.+?))?\s*")
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _filter(text: str) -> Step:
    choices = [[_condition(part) for part in choice.split("&&")] for choice in text.split("||")]

    def reach(value: Any) -> Iterable[Any]:
        elements = value if isinstance(value, list) else [value]
        return (each for each in elements if any(all(test(each) for test in tests) for tests in choices))

    return lambda value: iter(reach(value))


def _condition(text: str) -> Callable[[Any], bool]:
    found = _COMPARISON.fullmatch(text)
    if found is None:
        raise PathError(f"the filter {text!r} of a path cannot be read")
    path = json_path("lax $" + found["path"])
    if found["op"] is None:
        return lambda value: path.find(value) is not None
    compare, wanted = _OPERATORS[found["op"]], _constant(found["value"])
    return lambda value: _compares(compare, path.find(value), wanted)


def _compares(compare: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    try:
        return compare(left, right)
    except TypeError:
        return False


def _constant(text: str) -> Any:
    if text[0] in "'\"":
        return text[1:-1]
    constants = {"true": True, "false": False, "null": None}
    return constants[text] if text in constants else Decimal(text)


def parsed(text: str) -> Any:
    """The value that JSON says; numbers with a point keep their digits.

    Raises:
        ValueError: when the text is not JSON.
    """
    return _DECODER.decode(text)


def first_of(text: str) -> Any:
    """The first value of a text; what stands behind it does not matter, as in Flink.

    Raises:
        ValueError: when the text does not begin with JSON.
    """
    text = text.lstrip()
    value, end = _DECODER.raw_decode(text)
    if end < len(text) and not isinstance(value, str | list | dict) and not text[end].isspace():
        raise ValueError(f"{text[: end + 1]!r} is not JSON")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_constant)
"""Made once: ``json.loads`` would make one for each text."""


def written(value: Any) -> str:
    """JSON of a value, without spaces, and with the names of objects in order."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{quoted(name)}:{written(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(part) for part in value) + "]"
    write = _WRITERS.get(type(value))
    return json.dumps(value) if write is None else write(value)


def quoted(text: str) -> str:
    """A text as JSON writes it."""
    return encode_basestring(text)


_WRITERS: Final[dict[type, Callable[[Any], str]]] = {str: quoted, int: str, Decimal: str, float: double_text}


# --- looking into JSON ---------------------------------------------------------------------------------------------

_NOTHING: Final = object()


@lru_cache(maxsize=64)
def _parsed_once(text: str) -> Any:
    return first_of(text)


def _found(text: str, path: JsonPath) -> Any:
    """The value at a path; nothing for a lax path over text that is not JSON."""
    try:
        return path.find(_parsed_once(text))
    except ValueError:
        if path.is_strict:
            raise
        return None


def json_exists(call: Invocation, text: Datum, path: Datum) -> Datum:
    """Return where a path leads to something; the option ``on_error`` says what is where it fails."""
    on_error = {"TRUE": True, "FALSE": False, "UNKNOWN": None}

    def of_row(value: str, where: str) -> bool | None:
        try:
            return _found(value, json_path(where)) is not None
        except ValueError as error:
            return on_error[_behaviour(call, "on_error", "FALSE", error)]

    return map_rows(of_row, call.storage, text, path)


def _behaviour(call: Invocation, name: str, default: str, error: Exception | str) -> str:
    chosen = str(call.option(name, default))
    if chosen == "ERROR":
        raise ValueError(str(error))
    return chosen


def json_value(call: Invocation, text: Datum, path: Datum, *defaults: Datum) -> Datum:
    """The scalar that a path leads to.

    The options ``on_empty`` and ``on_error`` are ``NULL``, ``ERROR`` or ``DEFAULT``; defaults are the operands after
    the path, that for nothing first.
    """
    convert = _converter(call.storage)

    def of_row(value: str | None, where: str | None, *others: Any) -> Any:
        if value is None or where is None:
            return None
        try:
            path = json_path(where)
            found = _found(value, path)
            if isinstance(found, dict | list) and path.is_strict:
                raise PathError(f"the path {where!r} leads to no scalar")
        except ValueError as error:
            return others[-1] if _behaviour(call, "on_error", "NULL", error) == "DEFAULT" else None
        if found is None and path.is_strict:
            return None  # it leads to a null, and not to nothing
        if found is None or isinstance(found, dict | list):
            nothing = _behaviour(call, "on_empty", "NULL", f"the path {where!r} leads to no scalar")
            return others[0] if nothing == "DEFAULT" else None
        return convert(found)

    return map_rows(of_row, call.storage, text, path, *defaults, is_strict=False)


def _converter(storage: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_string(storage):
        return lambda found: found if isinstance(found, str) else written(found)
    kind, name = _RETURNED[storage]

    def convert(found: Any) -> Any:
        if type(found) is not kind or (kind is int and not -(1 << 31) <= found < 1 << 31):
            raise ValueError(f"JSON_VALUE found {written(found)}, which is not {name}")
        return float(found) if kind is Decimal else found

    return convert


_RETURNED: Final[dict[pa.DataType, tuple[type[Any], str]]] = {
    pa.bool_(): (bool, "a BOOLEAN"),
    pa.int32(): (int, "an INTEGER"),
    pa.float64(): (Decimal, "a number with a decimal point, as DOUBLE requires"),
}
"""Python's type and the name of the JSON value that each type of ``RETURNING`` needs, since no value is converted."""


def json_query(call: Invocation, text: Datum, path: Datum) -> Datum:
    """The object or array that a path leads to, as JSON or as an array of texts."""
    finish = _as_texts if pa.types.is_list(call.storage) else written

    def of_row(value: str, where: str) -> Any:
        try:
            path = json_path(where)
            found = _wrapped(_found(value, path), str(call.option("wrapper", "WITHOUT")))
            if path.is_strict and found is not None and not isinstance(found, dict | list):
                raise PathError(f"the path {where!r} leads to no object or array")
        except ValueError as error:
            return _instead(_behaviour(call, "on_error", "NULL", error), finish)
        if not isinstance(found, dict | list):
            nothing = f"the path {where!r} leads to no object or array"
            return _instead(_behaviour(call, "on_empty", "NULL", nothing), finish)
        return finish(found)

    return map_rows(of_row, call.storage, text, path)


def _instead(behaviour: str, finish: Callable[[Any], Any]) -> Any:
    empty: dict[str, Any] = {"EMPTY_ARRAY": [], "EMPTY_OBJECT": {}}
    return finish(empty[behaviour]) if behaviour in empty else None


def _as_texts(found: Any) -> list[str | None] | None:
    if not isinstance(found, list):
        return None
    return [each if each is None or isinstance(each, str) else written(each) for each in found]


def _wrapped(found: Any, wrapper: str) -> Any:
    if found is None or wrapper == "WITHOUT" or (wrapper == "CONDITIONAL" and isinstance(found, list)):
        return found
    return [found]


_JSON_KINDS: Final[dict[str, Callable[[Any], bool]]] = {
    "VALUE": lambda _: True,
    "OBJECT": lambda value: isinstance(value, dict),
    "ARRAY": lambda value: isinstance(value, list),
    "SCALAR": lambda value: not isinstance(value, dict | list),
}


def is_json(kind: str, *, negated: bool = False) -> Kernel:
    """A kernel that says where a text is JSON of a kind; NULL is none."""
    test = _JSON_KINDS[kind]

    def of_row(text: str | None) -> bool:
        try:
            return (text is not None and test(first_of(text))) is not negated
        except ValueError:
            return negated

    return lambda call, text: map_rows(of_row, call.storage, text, is_strict=False)


# --- making JSON ---------------------------------------------------------------------------------------------------


def plain_value(value: Any, kind: LogicalType) -> Any:
    """A value of SQL as a value of JSON."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(kind, RowType):
        parts = zip(kind.names, kind.types, strict=True)
        return {name: plain_value(value[name], part) for name, part in parts}
    if isinstance(kind, MapType):
        return {str(key): plain_value(each, kind.value) for key, each in value}
    if isinstance(kind, MultisetType):
        return {str(key): count for key, count in value}
    if isinstance(value, list):
        return [plain_value(each, kind.children[0]) for each in value]
    return _plain_atom(value)


def _plain_atom(value: Any) -> Any:
    if isinstance(value, float):
        return Decimal(double_text(value))
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, datetime):
        seconds = value.replace(tzinfo=None, microsecond=0).isoformat()
        text = f"{seconds}.{value.microsecond:06}".rstrip("0").rstrip(".")
        return text if value.tzinfo is None else f"{text}Z"
    return value.isoformat() if isinstance(value, date | time) else value


def _embedded(call: Invocation, values: tuple[Any, ...], first: int) -> list[Any]:
    """Values of operands from the ``first`` one on; those whose places the option ``json`` names are JSON already."""
    raw = call.option("json", ())
    return [
        parsed(value) if place in raw and value is not None else plain_value(value, call.operands[place])
        for place, value in enumerate(values, first)
    ]


def json_object(call: Invocation, *entries: Datum) -> Datum:
    """An object of names and values in turn; the option ``on_null`` says whether NULL stands in it."""
    keeps = call.option("on_null", "NULL") == "NULL"

    def of_row(*row: Any) -> str:
        values = _embedded(call, row, 0)
        if any(name is None for name in row[::2]):
            raise ValueError("a name of JSON_OBJECT is NULL")
        pairs = zip(row[::2], values[1::2], strict=True)
        return written({name: value for name, value in pairs if keeps or value is not None})

    return map_rows(of_row, call.storage, *entries, is_strict=False)


def json_array(call: Invocation, *elements: Datum) -> Datum:
    """An array of values; the option ``on_null`` says whether NULL stands in it."""
    keeps = call.option("on_null", "ABSENT") == "NULL"

    def of_row(*row: Any) -> str:
        return written([value for value in _embedded(call, row, 0) if keeps or value is not None])

    return map_rows(of_row, call.storage, *elements, is_strict=False)


def json_string(call: Invocation, value: Datum) -> Datum:
    """JSON of a value."""
    kind = call.operands[0]
    return map_rows(lambda each: written(plain_value(each, kind)), call.storage, value)


def _unquoted(text: str) -> str:
    """The text without its quotes and escapes; a text without quotes is returned as it is."""
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    inside = text[1:-1]
    try:
        return str(json.loads(text, strict=False)) if "\\" in inside else inside
    except ValueError:
        return text


def _quote(text: str) -> str:
    return json.dumps(text).replace("/", "\\/")


json_text: Final = by_row(str)
json_quote: Final = by_row(_quote)
json_unquote: Final = by_row(_unquoted)
