"""``ConfigOption``: a configuration key that knows the type of its value, and the notation of values.

That is Flink's notation of durations, memory sizes, booleans, choices and lists. Each reader takes the text and
returns the value, or raises ``ValueError`` saying what would be right.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from headrace.common.public_module import public_module
from headrace.common.time import NANOS_PER_MILLI
from headrace.common.type_variables import T

__all__ = ["ConfigOption", "ConfigOptions"]


_QUOTED: Final = re.compile(r"""'(?P<single>(?:[^']|'')*)'|"(?P<double>(?:[^"\\]|\\.)*)\"""")
_FLOW_ITEM: Final = re.compile(rf"\s*(?:{_QUOTED.pattern}|(?P<plain>[^\s'\"\[\]{{}},][^\[\]{{}},]*))\s*(?:,|$)")
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_INTEGER: Final = re.compile(r"[-+]?\d+")
_PORTS: Final = re.compile(r"(\d+)(?:\s*-\s*(\d+))?")
_LAST_PORT: Final = 65_535
_NUMBER: Final = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?")
_WORDS: Final = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~"), None),
}


def parse_list(text: str) -> list[Any]:
    """The elements of a list: ``a;b``, ``[a, b]`` or, one a line, ``- a``. Without text there are none.

    In the lists of YAML what looks like a number, a boolean or null is one, unless it is in quotes.

    Raises:
        ValueError: when a list in YAML in brackets has anything but plain or quoted values in it.
    """
    stripped = text.strip()
    if stripped.startswith("[") and stripped.endswith("]"):
        return _flow(stripped[1:-1])
    lines = [line.strip() for line in stripped.splitlines() if line.strip()]
    if lines and all(line.startswith("- ") for line in lines):
        return [_block_item(line[2:].strip()) for line in lines]
    return text.split(";") if text else []


def _flow(text: str) -> list[Any]:
    items: list[Any] = []
    position = 0
    while text[position:].strip():  # a comma may come last
        match = _FLOW_ITEM.match(text, position)
        if match is None:
            raise ValueError(f"a list of plain or quoted values, such as [a, 'b'], not [{text}]")
        items.append(_quoted(match) if match["plain"] is None else _plain(match["plain"].strip()))
        position = match.end()
    return items


def _block_item(text: str) -> Any:
    match = _QUOTED.fullmatch(text)
    return _plain(text) if match is None else _quoted(match)


def _quoted(match: re.Match[str]) -> str:
    if match["single"] is not None:
        return match["single"].replace("''", "'")
    return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), match["double"])


def _plain(text: str) -> Any:
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    return _WORDS.get(text, text)


E = TypeVar("E", bound=Enum)

_NONE: Final[Mapping[str, str]] = {}


_QUANTITY: Final = re.compile(r"\s*(\d+)\s*([^\W\d_]*)\s*", re.UNICODE)

_NANOS: Final = {
    unit: nanos
    for nanos, units in (
        (86_400_000_000_000, "d day days"),
        (3_600_000_000_000, "h hour hours"),
        (60_000_000_000, "min m minute minutes"),
        (1_000_000_000, "s sec secs second seconds"),
        (1_000_000, "ms milli millis millisecond milliseconds"),
        (1_000, "µs μs us micro micros microsecond microseconds"),
        (1, "ns nano nanos nanosecond nanoseconds"),
    )
    for unit in units.split()
}

_BYTES: Final = {
    unit: size
    for size, units in (
        (1, "b bytes"),
        (1 << 10, "k kb kibibytes"),
        (1 << 20, "m mb mebibytes"),
        (1 << 30, "g gb gibibytes"),
        (1 << 40, "t tb tebibytes"),
    )
    for unit in units.split()
}

_BOOLEANS: Final = {"true": True, "false": False}


def job_id(text: str) -> str:
    """The id of a job."""
    if not re.fullmatch(r"[0-9a-f]{32}", text):
        raise ValueError("32 hexadecimal digits in lower case")
    return text


def duration(text: str) -> int:
    """Milliseconds of ``"10 s"``, ``"500ms"``, ``"1min"``, ``"2 h"``; a bare number is milliseconds."""
    nanos = _quantity(
        text.lower(), {**_NANOS, "": NANOS_PER_MILLI}, "a duration such as '10 s', '500 ms', '1 min' or '2 h'"
    )
    millis, rest = divmod(nanos, NANOS_PER_MILLI)
    if rest:
        raise ValueError("a duration of whole milliseconds")
    return millis


def positive_duration(text: str) -> int:
    """Read a duration as :func:`duration` does, of more than zero."""
    millis = duration(text)
    if not millis:
        raise ValueError("a duration above zero, such as '10 s'")
    return millis


def memory_size(text: str) -> int:
    """Bytes of ``"64 mb"``, ``"20kb"``; a bare number is bytes. A kilobyte has 1,024, as in Flink."""
    return _quantity(text.lower(), {**_BYTES, "": 1}, "a memory size such as '64 mb' or '20 kb'")


def boolean(text: str) -> bool:
    """``true`` or ``false``, in any case."""
    try:
        return _BOOLEANS[text.strip().lower()]
    except KeyError:
        raise ValueError("true or false") from None


def integer(low: int, high: int) -> Callable[[str], int]:
    """Reads integers from ``low`` to ``high``."""
    expected = f"an integer from {low} to {high}"

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(expected) from None
        if not low <= value <= high:
            raise ValueError(expected)
        return value

    return read


def number(above: float = float("-inf")) -> Callable[[str], float]:
    """Reads numbers that are greater than ``above``."""
    expected = "a number" if above == float("-inf") else f"a number above {above:g}"

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(expected) from None
        if not value > above:
            raise ValueError(expected)
        return value

    return read


def share(text: str) -> float:
    """Reads a number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError("a number from 0 to 1")
    return value


def location(text: str) -> str:
    """Reads a path or a URI, which is not empty."""
    if not text.strip():
        raise ValueError("a path or a URI (was it to come from a variable that is not set?)")
    return text


def choice(*names: str, others: Mapping[str, str] = _NONE) -> Callable[[str], str]:
    """Reads one of some names, in any case and with ``_`` for ``-``; gives it as it is listed.

    Args:
        names: the names.
        others: more spellings, and the names that they stand for.
    """
    known = {_folded(name): name for name in names} | dict(others)

    def read(text: str) -> str:
        try:
            return known[_folded(text)]
        except KeyError:
            raise ValueError(f"one of {', '.join(names)}") from None

    return read


def choices(*names: str) -> Callable[[str], tuple[str, ...]]:
    """Reads a list of some names, as :func:`choice` reads one."""
    read_one = choice(*names)

    def read(text: str) -> tuple[str, ...]:
        try:
            return tuple(dict.fromkeys(read_one(str(name)) for name in parse_list(text)))
        except ValueError:
            raise ValueError(f"a list of {', '.join(names)}") from None

    return read


def port_range(text: str) -> tuple[int, ...]:
    """Reads ports and ranges of them, ``8081,9000-9010``, in their order."""
    found: list[int] = []
    for part in text.split(","):
        match = _PORTS.fullmatch(part.strip())
        first, last = (0, -1) if match is None else (int(match[1]), int(match[2] or match[1]))
        if not first <= last <= _LAST_PORT:
            raise ValueError("ports such as 8081, 8081-8180 or 8081,9000-9010")
        found.extend(range(first, last + 1))
    return tuple(found)


def text_mapping(example: str) -> Callable[[str], Mapping[str, str]]:
    """Read ``"a=b; c=d"``: right sides by left ones, where all before the last ``=`` is the left one.

    Args:
        example: how such a text looks, for errors.
    """

    def read(text: str) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for pair in filter(str.strip, text.split(";")):
            left, separator, right = (part.strip() for part in pair.rpartition("="))
            if not (separator and left and right):
                raise ValueError(f"pairs such as {example!r}")
            if found.setdefault(left, right) != right:
                raise ValueError(f"one value for {left!r}, not {found[left]!r} and {right!r}")
        return found

    return read


def member(kind: type[E]) -> Callable[[str], E]:
    """Reads the name of an enumeration's member."""
    read_name = choice(*kind.__members__)
    return lambda text: kind[read_name(text)]


def _folded(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def _quantity(text: str, units: dict[str, int], expected: str) -> int:
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in units:
        raise ValueError(expected)
    return int(match[1]) * units[match[2]]


@dataclass(frozen=True)
class ConfigOption(Generic[T]):
    """A configuration key.

    Attributes:
        key: the name, such as ``parallelism.default``.
        parse: makes the value of the text that stands in a configuration, or raises ``ValueError``.
        default: what holds when the key is not set.
        description: what it is for, for people.
        deprecated_keys: older names, which count where ``key`` is not set.

    Examples:
        >>> from headrace.common import ConfigOptions, Configuration
        >>> workers = ConfigOptions.key("my.workers").int_type().default_value(4)
        >>> print(workers)
        Key: 'my.workers' , default: 4
        >>> Configuration().get(workers)
        4
    """

    key: str
    parse: Callable[[str], T]
    default: T
    description: str = ""
    deprecated_keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"Key: '{self.key}' , default: {self.default}"


@dataclass(frozen=True)
class TypedConfigOptionBuilder(Generic[T]):
    """Ends the definition of an option."""

    key: str
    parse: Callable[[str], T]

    def default_value(self, value: T) -> ConfigOption[T]:
        """The option with a default."""
        return ConfigOption(self.key, self.parse, value)

    def no_default_value(self) -> ConfigOption[T | None]:
        """The option without one: it is ``None`` when it is not set."""
        return ConfigOption[T | None](self.key, self.parse, None)


@dataclass(frozen=True, slots=True)
class OptionBuilder:
    """Says what type an option has."""

    key: str

    def boolean_type(self) -> TypedConfigOptionBuilder[bool]:
        """``true`` or ``false``."""
        return TypedConfigOptionBuilder(self.key, boolean)

    def int_type(self) -> TypedConfigOptionBuilder[int]:
        """An integer of 32 bits."""
        return TypedConfigOptionBuilder(self.key, integer(-(2**31), 2**31 - 1))

    def long_type(self) -> TypedConfigOptionBuilder[int]:
        """An integer of 64 bits."""
        return TypedConfigOptionBuilder(self.key, integer(-(2**63), 2**63 - 1))

    def float_type(self) -> TypedConfigOptionBuilder[float]:
        """A number."""
        return TypedConfigOptionBuilder(self.key, number())

    def double_type(self) -> TypedConfigOptionBuilder[float]:
        """A number."""
        return TypedConfigOptionBuilder(self.key, number())

    def string_type(self) -> TypedConfigOptionBuilder[str]:
        """Any text."""
        return TypedConfigOptionBuilder(self.key, str)

    def duration_type(self) -> TypedConfigOptionBuilder[int]:
        """A length of time, read as milliseconds."""
        return TypedConfigOptionBuilder(self.key, duration)

    def memory_type(self) -> TypedConfigOptionBuilder[int]:
        """An amount of memory, read as bytes."""
        return TypedConfigOptionBuilder(self.key, memory_size)


class ConfigOptions:
    """Defines options of a program's own.

    Examples:
        >>> from headrace.common import ConfigOptions, Configuration
        >>> folder = ConfigOptions.key("my.folder").string_type().no_default_value()
        >>> Configuration().set_string("my.folder", "/data").get(folder)
        '/data'
    """

    @staticmethod
    def key(key: str) -> OptionBuilder:
        """Begins the definition of an option."""
        return OptionBuilder(key)


public_module(__name__)
