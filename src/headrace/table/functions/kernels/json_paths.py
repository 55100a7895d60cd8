"""Paths into JSON: ``$.a[0]['b']``, with wildcards, slices, unions, descent and filters."""

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any, Final

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
        """The value at the path; an array of all values when the path can select several.

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
                return None
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
