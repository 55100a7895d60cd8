"""``datagen``: tables with generated rows, the same in every run."""

from __future__ import annotations

import difflib
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import binary_array, fixed_width_array
from headrace.common.config_options import ConfigOption, boolean, choice, duration, integer
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.connectors.source import Source
from headrace.formats.statistics import Statistics
from headrace.table.connectors.factory import ALL_TASKS, TableConnector, TableContext, naming_table
from headrace.table.connectors.table_source import StartPosition, TableSource

_LONG: Final = integer(-(2**63), 2**63 - 1)

ROWS_PER_SECOND: Final = ConfigOption("rows-per-second", integer(1, 10**12), 10_000, "How fast rows come.")
NUMBER_OF_ROWS: Final = ConfigOption[int | None](
    "number-of-rows", integer(0, 2**62), None, "How many rows there are; without it the table never ends."
)

KIND: Final = ConfigOption("kind", choice("random", "sequence"), "random", "How values are made.")
MINIMUM: Final = ConfigOption[float | None]("min", float, None, "The least random number.")
MAXIMUM: Final = ConfigOption[float | None]("max", float, None, "The greatest random number.")
MAX_PAST: Final = ConfigOption("max-past", duration, 0, "How far in the past random moments are.")
LENGTH: Final = ConfigOption[int | None]("length", integer(0, 2**31 - 1), None, "How long texts and bytes are.")
VAR_LEN: Final = ConfigOption("var-len", boolean, False, "Whether texts may be shorter than that.")
START: Final = ConfigOption[int | None]("start", _LONG, None, "The first number of a sequence.")
END: Final = ConfigOption[int | None]("end", _LONG, None, "The last number of a sequence.")
NULL_RATE: Final = ConfigOption("null-rate", float, 0.0, "The part of values that are NULL.")
_OF_FIELDS: Final = (KIND, MINIMUM, MAXIMUM, MAX_PAST, LENGTH, VAR_LEN, START, END, NULL_RATE)
_FIELDS: Final = "fields."

Random = np.random.Generator
Indices = npt.NDArray[np.int64]
Maker = Callable[[Indices, Random], pa.Array]


class GeneratedTables(TableConnector):
    """Tables with generated rows."""

    optional_options = (ROWS_PER_SECOND, NUMBER_OF_ROWS)
    other_options = MappingProxyType({"scan.parallelism": ALL_TASKS})

    def create_source(self, context: TableContext) -> TableSource:
        with naming_table(context):
            own = {key: value for key, value in context.options.items() if not key.startswith(_FIELDS)}
            options = self.options_of(context, own)
            fields = self._fields(context)
            makers = {
                name: maker_of(name, kind, fields[name], options.get(ROWS_PER_SECOND))
                for name, kind in _columns(context)
            }
        counts = [_count(fields[name]) for name in fields]
        ends = [count for count in (*counts, options.get(NUMBER_OF_ROWS)) if count is not None]
        return GeneratedTable(context, makers, min(ends, default=None), options.get(ROWS_PER_SECOND))

    def _fields(self, context: TableContext) -> dict[str, Configuration]:
        """The options of each column."""
        names = [name for name, _ in _columns(context)]
        known = {f"{_FIELDS}{name}.{option.key}": (name, option) for name in names for option in _OF_FIELDS}
        found: dict[str, dict[str, str]] = {name: {} for name in names}
        for key, value in context.options.items():
            if key.startswith(_FIELDS):
                if key not in known:
                    self._unknown(key, known)
                name, option = known[key]
                found[name][option.key] = value
        return {name: _checked(name, options) for name, options in found.items()}

    def _unknown(self, key: str, known: Mapping[str, object]) -> None:
        close = difflib.get_close_matches(key, known, n=2, cutoff=0.6)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"there are {_FIELDS}<column>.<option>"
        raise ConfigurationError(f"{self} has no option {key!r}: {hint}")


def _columns(context: TableContext) -> Sequence[tuple[str, LogicalType]]:
    return list(zip(context.columns.names, context.columns.types, strict=True))


def _checked(name: str, given: Mapping[str, str]) -> Configuration:
    options = Configuration.from_dict(given)
    try:
        for option in _OF_FIELDS:
            options.get(option)
    except ConfigurationError as error:
        raise ConfigurationError(f"column {name!r}: {error}") from None
    if options.get(KIND) == "sequence" and (options.get(START) is None or options.get(END) is None):
        raise ConfigurationError(f"column {name!r} is a sequence: give 'fields.{name}.start' and 'fields.{name}.end'")
    return options


def _count(options: Configuration) -> int | None:
    if options.get(KIND) != "sequence":
        return None
    first, last = options.get(START), options.get(END)
    assert first is not None
    assert last is not None
    return max(0, last - first + 1)


@dataclass(frozen=True)
class GeneratedTable(TableSource):
    """A source of generated rows."""

    context: TableContext
    makers: Mapping[str, Maker] = field(compare=False)
    count: int | None
    rows_per_second: int

    can_limit = True

    @property
    def is_bounded(self) -> bool:
        return self.count is not None

    @property
    def statistics(self) -> Statistics | None:
        return None if self.count is None else Statistics(self.count)

    def starting_at(self, start: StartPosition) -> TableSource | None:
        return self if start.is_now and not self.is_bounded else None

    @property
    def summary(self) -> str:
        return "datagen"

    def create_source(self, metadata: Sequence[str]) -> Source[Any]:
        return DataGeneratorSource(
            count=min((each for each in (self.count, self.context.limit) if each is not None), default=None),
            rate_limiter_strategy=RateLimiterStrategy.per_second(self.rows_per_second),
            type_info=self.context.record_type,
            batch_generator=_Generator(dict(self.makers)),
            seed=zlib.crc32(self.context.name.encode()),
        )


@dataclass(frozen=True)
class _Generator:
    makers: Mapping[str, Maker]

    def __call__(self, indices: Indices, random: Random) -> Mapping[str, pa.Array]:
        return {name: maker(indices, random) for name, maker in self.makers.items()}


# --- the values of columns -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sequence:
    start: int
    kind: pa.DataType

    def __call__(self, indices: Indices, random: Random) -> pa.Array:
        numbers = pa.array(indices + self.start)
        return numbers.cast(pa.string()) if pa.types.is_string(self.kind) else numbers.cast(self.kind, safe=False)


@dataclass(frozen=True)
class _Integers:
    low: int
    high: int
    kind: pa.DataType

    def __call__(self, indices: Indices, random: Random) -> pa.Array:
        return pa.array(random.integers(self.low, self.high, len(indices), np.int64, endpoint=True)).cast(self.kind)


@dataclass(frozen=True)
class _Floats:
    low: float
    high: float
    kind: pa.DataType

    def __call__(self, indices: Indices, random: Random) -> pa.Array:
        made = pa.array(self.low + random.random(len(indices)) * (self.high - self.low))
        return made.cast(self.kind, safe=False) if pa.types.is_floating(self.kind) else _decimals(made, self.kind)


def _decimals(values: pa.Array, kind: pa.DataType) -> pa.Array:
    rounded = pc.round(values, getattr(kind, "scale", 0))
    return rounded.cast(kind, safe=False)


@dataclass(frozen=True)
class _Booleans:
    def __call__(self, indices: Indices, random: Random) -> pa.Array:
        return pa.array(random.random(len(indices)) < 0.5)


_HEXADECIMAL: Final = np.frombuffer(b"0123456789abcdef", np.uint8)


@dataclass(frozen=True)
class _Texts:
    length: int
    is_shorter: bool
    kind: pa.DataType

    def __call__(self, indices: Indices, random: Random) -> pa.Array:
        count = len(indices)
        is_binary = pa.types.is_binary(self.kind)
        drawn = random.integers(0, 256 if is_binary else 16, (count, self.length), np.uint8)
        rows, kind = (drawn, pa.binary()) if is_binary else (_HEXADECIMAL[drawn], pa.string())
        lengths = random.integers(1, self.length, count, endpoint=True) if self.is_shorter and self.length else None
        if lengths is None:
            return fixed_width_array(rows, kind)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        return binary_array(rows[np.arange(self.length) < lengths[:, None]], offsets, kind)


@dataclass(frozen=True)
class _Moments:
    """Timestamps that rise with the row number, from the time of planning: a row number always has the same one."""

    start: int
    rate: int
    past: int
    kind: pa.DataType

    def __call__(self, indices: Indices, random: Random) -> pa.Array:
        back = random.integers(0, self.past, len(indices), np.int64, endpoint=True)
        millis = self.start + indices * 1000 // self.rate - back
        if pa.types.is_date(self.kind):
            return pa.array((millis // 86_400_000).astype(np.int32)).view(pa.date32())
        if pa.types.is_time(self.kind):
            return pa.array(millis % 86_400_000 * 1000).cast(pa.time64("us"), safe=False).cast(self.kind, safe=False)
        return pa.array(millis).view(pa.timestamp("ms")).cast(pa.timestamp(self.kind.unit)).view(self.kind)


@dataclass(frozen=True)
class _Sometimes:
    maker: Maker
    null_rate: float

    def __call__(self, indices: Indices, random: Random) -> pa.Array:
        made = self.maker(indices, random)
        return made.take(pa.array(np.arange(len(indices)), mask=random.random(len(indices)) < self.null_rate))


_INTEGERS: Final = {
    TypeRoot.TINYINT: 2**7,
    TypeRoot.SMALLINT: 2**15,
    TypeRoot.INTEGER: 2**31,
    TypeRoot.BIGINT: 2**63,
}
_TEXTS: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY)
_MOMENTS: Final = (TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_USUAL_LENGTH: Final = 100
_USUAL_DIGITS: Final = 15


def maker_of(name: str, kind: LogicalType, options: Configuration, rate: int) -> Maker:
    """The generator of a column's values.

    Args:
        name: of the column.
        kind: its type.
        options: of the column.
        rate: the number of rows per second.

    Raises:
        ConfigurationError: when its type is not supported.
    """
    if isinstance(kind, AtomicType) and kind.root in _MOMENTS:
        made: Maker = _Moments(int(time.time() * 1000), rate, options.get(MAX_PAST), kind.arrow_type)
    else:
        made = _random(name, kind, options) if options.get(KIND) == "random" else _sequence(name, kind, options)
    null_rate = options.get(NULL_RATE)
    return _Sometimes(made, null_rate) if null_rate > 0 else made


def _sequence(name: str, kind: LogicalType, options: Configuration) -> Maker:
    first = options.get(START)
    numbers = (*_INTEGERS, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL, TypeRoot.VARCHAR, TypeRoot.CHAR)
    if not isinstance(kind, AtomicType) or kind.root not in numbers:
        raise ConfigurationError(f"column {name!r} of type {kind} cannot be a sequence: make it a number or a STRING")
    assert first is not None
    return _Sequence(first, kind.arrow_type)


def _check_bounds(name: str, kind: LogicalType, are_possible: bool) -> None:
    if not are_possible:
        raise ConfigurationError(
            f"column {name!r}: 'fields.{name}.min' is not above 'fields.{name}.max', and both are values of {kind}"
        )


def _random(name: str, kind: LogicalType, options: Configuration) -> Maker:
    if isinstance(kind, AtomicType):
        low, high = options.get(MINIMUM), options.get(MAXIMUM)
        storage = kind.arrow_type
        if kind.root in _INTEGERS:
            most = _INTEGERS[kind.root]
            least, greatest = -most if low is None else int(low), most - 1 if high is None else int(high)
            _check_bounds(name, kind, -most <= least <= greatest < most)
            return _Integers(least, greatest, storage)
        if kind.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL):
            digits = (kind.size or 0) - (kind.scale or 0) if kind.root is TypeRoot.DECIMAL else _USUAL_DIGITS
            largest = 10.0**digits - 1
            bounds = -largest if low is None else low, largest if high is None else high
            _check_bounds(name, kind, bounds[0] <= bounds[1])
            return _Floats(*bounds, storage)
        if kind.root is TypeRoot.BOOLEAN:
            return _Booleans()
        if kind.root in _TEXTS:
            return _Texts(_length(name, kind, options), options.get(VAR_LEN), storage)
    raise ConfigurationError(
        f"column {name!r}: no values of type {kind} are made up; make it a computed column, such as "
        f"{name} AS ROW(a, b), of columns that are"
    )


def _length(name: str, kind: AtomicType, options: Configuration) -> int:
    """The length of strings: that of the type for CHAR and BINARY, else the option, up to the length of the type."""
    length = options.get(LENGTH)
    most = kind.size or _USUAL_LENGTH
    if kind.root in (TypeRoot.CHAR, TypeRoot.BINARY):
        if length is not None and length != most:
            raise ConfigurationError(f"column {name!r} of type {kind} has that length: leave 'length' out")
        return most
    if length is not None and length > most:
        raise ConfigurationError(f"column {name!r} of type {kind} holds no {length} characters")
    return min(most, _USUAL_LENGTH) if length is None else length
