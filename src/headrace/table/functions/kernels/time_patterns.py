"""Patterns of dates and times, which are Java's: ``yyyy-MM-dd HH:mm:ss.SSS``.

A pattern is made into pieces once. Columns are written piece by piece; texts are read by one regular expression.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.table.functions.kernels.calendar import MICROS_PER_DAY, Moments, day_number, days_of, last_day
from headrace.table.functions.kernels.kernel import EMPTY, TEXT, Numbers
from headrace.table.functions.kernels.temporal import MICROS

_MONTH_NAMES: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DAY_NAMES: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_PIECES: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")

Dialect = dict[str, Callable[[Moments, int], pa.Array]]
"""Writers of the pattern letters whose meaning differs from the usual one."""

DEFAULT: Final = "yyyy-MM-dd HH:mm:ss"
"""The pattern of functions that are given none."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A run of one letter, or text that stands for itself, which has no letter."""

    letter: str
    text: str

    @property
    def width(self) -> int:
        return len(self.text)


@lru_cache(maxsize=256)
def _pieces(pattern: str) -> tuple[_Piece, ...]:
    made, end = [], 0
    for found in _PIECES.finditer(pattern):
        if found.start() != end:
            break
        end = found.end()
        if found[2]:
            made.append(_Piece(found[2], found[0]))
        else:
            quoted = found[1]
            made.append(_Piece("", found[0] if quoted is None else quoted.replace("''", "'") or "'"))
    if end != len(pattern):
        raise pa.ArrowInvalid(f"the pattern {pattern!r} has a quote that does not end")
    return tuple(made)


# --- writing -------------------------------------------------------------------------------------------------------


_SHOWN: Final = "yyyy-MM-dd HH:mm:ss.SSSSSS"
"""The pattern in which Arrow writes times of the years 1 to 9999; patterns within it are sliced from that text."""

_FIRST_SHOWN: Final = -62_135_596_800_000_000
_END_SHOWN: Final = 253_402_300_800_000_000


@lru_cache(maxsize=256)
def _place_shown(pattern: str) -> int:
    """The position of a pattern in Arrow's text; -1 when it is not a part of it."""
    is_whole = all(piece.letter in ("", "S") or piece.text in _WHOLE_PIECES for piece in _pieces(pattern))
    return _SHOWN.find(pattern) if is_whole else -1


_WHOLE_PIECES: Final = frozenset({"yyyy", "MM", "dd", "HH", "mm", "ss"})


def written(at: Moments, pattern: str, offsets: Numbers | None = None, dialect: Dialect | None = None) -> pa.Array:
    """Times as texts; ``offsets`` from UTC are what the letters of zones show."""
    repeated = _written_once(at, pattern, dialect) if offsets is None else None
    if repeated is not None:
        return repeated
    place = _place_shown(pattern) if dialect is None else -1
    if place >= 0 and len(at.micros) and at.micros.min() >= _FIRST_SHOWN and at.micros.max() < _END_SHOWN:
        shown = pa.array(at.micros, pa.int64(), mask=at.mask).cast(pa.timestamp("us")).cast(TEXT)
        return pc.utf8_slice_codeunits(shown, place, place + len(pattern))
    parts = _written_pieces(at, pattern, offsets, dialect)
    if not any(isinstance(part, pa.Array) for part in parts):
        parts.append(pa.repeat(EMPTY, len(at.micros)))
    made = pc.binary_join_element_wise(*parts, EMPTY)
    return made if at.mask is None else pc.if_else(pa.array(at.mask), pa.scalar(None, TEXT), made)


def _written_pieces(
    at: Moments, pattern: str, offsets: Numbers | None, dialect: Dialect | None
) -> list[pa.Array | pa.Scalar]:
    parts, width = [], 0
    for piece in _pieces(pattern):
        if piece.letter == "p" and dialect is None:
            width = piece.width  # of what comes next
            continue
        part = _written_piece(piece, at, offsets, dialect or {})
        if not piece.letter and dialect is None:
            part = pa.scalar(piece.text.replace("[", "").replace("]", ""), TEXT)  # optional parts are written
        parts.append(pc.utf8_lpad(part, width=width, padding=" ") if width else part)
        width = 0
    return parts


def _written_once(at: Moments, pattern: str, dialect: Dialect | None) -> pa.Array | None:
    """Formats each distinct text once, if many times share a text, as times do by the minute; None otherwise."""
    unit = _finest_unit(pattern)
    valid = at.micros if at.mask is None else at.micros[~at.mask]
    if not unit or not len(valid):
        return None
    low, high = int(valid.min()) // unit, int(valid.max()) // unit
    if _FEWEST_EACH * (high - low + 1) > len(valid):
        return None
    steps = at.micros // unit - low
    texts = written(Moments(np.arange(low, high + 1) * unit, None), pattern, None, dialect)
    return texts.take(pa.array(steps) if at.mask is None else pa.array(steps, mask=at.mask))


_FEWEST_EACH: Final = 4


@lru_cache(maxsize=256)
def _finest_unit(pattern: str) -> int:
    """The largest unit, in microseconds, within which all times have the same text; 0 if there is none."""
    letters = {piece.letter for piece in _pieces(pattern)}
    if letters & set("SnAN"):
        return 0
    units = ((set("s"), "SECOND"), (set("mB"), "MINUTE"), (set("HkKha"), "HOUR"))
    return next((MICROS[unit] for found, unit in units if letters & found), MICROS_PER_DAY)


def _written_piece(piece: _Piece, at: Moments, offsets: Numbers | None, dialect: Dialect) -> pa.Array | pa.Scalar:
    if not piece.letter:
        return pa.scalar(piece.text, TEXT)
    if piece.letter in dialect:
        return dialect[piece.letter](at, piece.width)
    if piece.letter in _NUMBERS:
        values = _NUMBERS[piece.letter](at)
        return _year(values, piece.width) if piece.letter in "yuY" else digits(values, piece.width)
    if piece.letter in _WORDS:
        return _WORDS[piece.letter](at, piece.width)
    if piece.letter in "XxZz" and offsets is not None:
        return _offset(piece, offsets)
    why = "a time without a zone has no" if piece.letter in "XxZz" else "patterns of dates have no letter"
    raise pa.ArrowInvalid(f"{why} {piece.letter!r}")


def _week_of_month(at: Moments) -> Numbers:
    """The week of a month, from 1, where weeks begin on Sunday and the first one may be short."""
    found: Numbers = (at.day + 5 - (at.weekday + 1) % 7) // 7 + 1
    return found


def _saturday(at: Moments) -> Moments:
    """The end of the week, which says the year that the week belongs to."""
    return Moments((at.days + (5 - at.weekday) % 7) * MICROS_PER_DAY, None)


_NUMBERS: Final[dict[str, Callable[[Moments], Numbers]]] = {
    "y": lambda at: np.where(at.year > 0, at.year, 1 - at.year),
    "u": lambda at: at.year,
    "Y": lambda at: _saturday(at).year,
    "D": lambda at: at.day_of_year,
    "d": lambda at: at.day,
    "w": lambda at: (_saturday(at).day_of_year - 1) // 7 + 1,
    "W": _week_of_month,
    "H": lambda at: at.of_day // MICROS["HOUR"],
    "k": lambda at: (at.of_day // MICROS["HOUR"] + 23) % 24 + 1,
    "K": lambda at: at.of_day // MICROS["HOUR"] % 12,
    "h": lambda at: (at.of_day // MICROS["HOUR"] + 11) % 12 + 1,
    "m": lambda at: at.of_day // MICROS["MINUTE"] % 60,
    "s": lambda at: at.of_day // MICROS["SECOND"] % 60,
    "n": lambda at: at.of_day % MICROS["SECOND"] * 1000 + (0 if at.nanos is None else at.nanos),
    "A": lambda at: at.of_day // 1000,
    "N": lambda at: at.of_day * 1000 + (0 if at.nanos is None else at.nanos),
    "F": lambda at: (at.day - 1) % 7 + 1,
}


def digits(values: Numbers, width: int) -> pa.Array:
    """Numbers that are not negative, with zeros before them."""
    if width == 2 and len(values) and int(values.max()) < 100 and int(values.min()) >= 0:
        return _two_digits().take(pa.array(values))
    return pc.utf8_lpad(pa.array(values, pa.int64()).cast(TEXT), width=width, padding="0")


@cache
def _two_digits() -> pa.Array:
    return pa.array([f"{number:02}" for number in range(100)])


def _year(values: Numbers, width: int) -> pa.Array:
    if width == 2:
        return digits(values % 100, 2)
    made = digits(np.abs(values), width)
    signs = np.where(values < 0, "-", np.where((values > 9999) & (width >= 4), "+", ""))
    return pc.binary_join_element_wise(pa.array(signs), made, EMPTY) if np.any(signs != "") else made


def _name(names: tuple[str, ...], values: Numbers, width: int) -> pa.Array:
    shown = pa.array([name if width == 4 else name[:1] if width == 5 else name[:3] for name in names])
    return shown.take(pa.array(values))


def _month(at: Moments, width: int) -> pa.Array:
    return digits(at.month, width) if width < 3 else _name(_MONTH_NAMES, at.month - 1, width)


def _fraction(at: Moments, width: int) -> pa.Array:
    nanos = _NUMBERS["n"](at)
    return digits(nanos // 10 ** max(9 - width, 0) * 10 ** max(width - 9, 0), width)


def _weekday_number(at: Moments, width: int) -> pa.Array:
    return digits((at.weekday + 1) % 7 + 1, width) if width < 3 else _name(_DAY_NAMES, at.weekday, width)


def _quarter(at: Moments, width: int) -> pa.Array:
    if width > 5:
        raise pa.ArrowInvalid(f"patterns of dates have no letter Q {width} times")
    number = (at.month + 2) // 3
    if width not in (3, 4):
        return digits(number, 1 if width == 5 else width)
    names = ("1st", "2nd", "3rd", "4th")
    shown = [f"{name} quarter" if width == 4 else f"Q{name[0]}" for name in names]
    return pa.array(shown).take(pa.array(number - 1))


def _period(at: Moments, _: int) -> pa.Array:
    """The part of the day in English, in which midnight and noon are minutes."""
    minute = at.of_day // MICROS["MINUTE"]
    names = ("midnight", "at night", "in the morning", "noon", "in the afternoon", "in the evening")
    place = np.select(
        [minute == 0, minute == 720, minute < 360, minute < 720, minute < 1080, minute < 1260], [0, 3, 1, 2, 4, 5], 1
    )
    return pa.array(names).take(pa.array(place))


_WORDS: Final[dict[str, Callable[[Moments, int], pa.Array]]] = {
    "M": _month,
    "L": _month,
    "E": lambda at, width: _name(_DAY_NAMES, at.weekday, max(width, 3)),
    "e": _weekday_number,
    "c": _weekday_number,
    "a": lambda at, _: pa.array(["AM", "PM"]).take(pa.array(at.of_day // (MICROS_PER_DAY // 2))),
    "G": lambda at, _: pa.array(["BC", "AD"]).take(pa.array((at.year > 0).astype(np.int64))),
    "S": _fraction,
    "Q": _quarter,
    "q": _quarter,
    "B": _period,
}


def _illegal(letter: str) -> Callable[[Moments, int], pa.Array]:
    def refuse(_: Moments, __: int) -> pa.Array:
        raise pa.ArrowInvalid(f"patterns of dates of Java's old class have no letter {letter!r}")

    return refuse


SIMPLE_DATE_FORMAT: Final[Dialect] = {
    **{letter: _illegal(letter) for letter in "QqBecAnNpVOx"},
    "F": lambda at, width: digits((at.day - 1) // 7 + 1, width),
    "u": lambda at, width: digits(at.weekday + 1, width),
    "y": lambda at, width: digits(at.year % 100 if width == 2 else np.abs(at.year), width),
    "S": lambda at, width: digits(at.of_day % MICROS["SECOND"] // 1000, width),
}
"""The letters of Java's old class, which ``FROM_UNIXTIME`` and ``DATE_FORMAT`` of texts are written with."""


def _offset(piece: _Piece, offsets: Numbers) -> pa.Array:
    texts = {offset: _offset_text(piece, offset // MICROS["MINUTE"]) for offset in np.unique(offsets).tolist()}
    return pa.array([texts[offset] for offset in offsets.tolist()], TEXT)


def _offset_text(piece: _Piece, minutes: int) -> str:
    if minutes == 0 and piece.letter in "Xz":
        return "Z" if piece.letter == "X" else "UTC"
    hours, rest = divmod(abs(minutes), 60)
    sign = "-" if minutes < 0 else "+"
    if piece.letter in "Xx" and piece.width == 1:
        return f"{sign}{hours:02}" + (f"{rest:02}" if rest else "")
    colon = ":" if piece.width in (3, 5) or piece.letter == "z" else ""
    return f"{'GMT' if piece.letter == 'z' else ''}{sign}{hours:02}{colon}{rest:02}"


# --- reading -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads texts of a pattern.

    Attributes:
        regex: finds the fields.
        letters: which field each group of the regular expression is.
    """

    regex: re.Pattern[str]
    letters: tuple[str, ...]

    def read(self, text: str, *, is_whole: bool = True) -> dict[str, str] | None:
        """The fields of a text; None when it is not as the pattern says. What is left over may be refused or not."""
        found = self.regex.fullmatch(text) if is_whole else self.regex.match(text)
        return None if found is None else dict(zip(self.letters, found.groups(), strict=True))


@lru_cache(maxsize=256)
def reader(pattern: str, *, is_lenient: bool = False) -> Reader:
    """A reader of a pattern; a lenient one takes numbers of any number of digits, as Java's SimpleDateFormat does."""
    letters, made = [], []
    pieces = _pieces(pattern)
    for place, piece in enumerate(pieces):
        if not piece.letter:
            made.append(re.escape(piece.text))
            continue
        is_followed = place + 1 < len(pieces) and pieces[place + 1].letter not in ("", "a", "E")
        made.append(f"({_read_by(piece, is_lenient=is_lenient and not is_followed, is_followed=is_followed)})")
        letters.append("SSS" if piece.letter == "S" and is_lenient else "yy" if piece.text == "yy" else piece.letter)
    return Reader(re.compile("".join(made), re.ASCII | re.IGNORECASE if is_lenient else re.ASCII), tuple(letters))


def _read_by(piece: _Piece, *, is_lenient: bool, is_followed: bool) -> str:
    letter, width = piece.letter, piece.width
    if letter in "Eec" or (letter in "ML" and width >= 3):
        names = _DAY_NAMES if letter in "Eec" else _MONTH_NAMES
        return "|".join(name if width == 4 else name[:3] for name in names)
    if letter in "aXxZz":
        return "AM|PM" if letter == "a" else r"Z|UTC|GMT|[+-]\d\d(?::?\d\d)?"
    if letter not in _READ:
        raise pa.ArrowInvalid(f"patterns of dates to be read have no letter {letter!r}")
    if is_lenient or letter == "S" or is_followed:
        return r"\s*-?\d+" if is_lenient else rf"\d{{{width}}}"
    if letter in "yuY":
        return r"\d\d" if width == 2 else rf"[+-]?\d{{{width},19}}" if width != 1 else r"-?\d{1,19}"
    return rf"\d{{{width}}}" if width > 1 else r"\d{1,2}"


_READ: Final = frozenset("yuYMLdDHhkKmsSnEeca")


def micros_of(fields: dict[str, str], *, is_lenient: bool = False) -> int | None:
    """The microseconds since 1970 that fields say; what is not there is the first of its kind, and the year 1970.

    None when a field is too large, unless that is lenient.
    """
    year, month, day = _year_of(fields), _month_of(fields), int(fields.get("d", 1))
    clock = _clock(fields)
    if is_lenient:
        year, month = divmod(year * 12 + month - 1, 12)
        days = _first_of(year, month + 1) + day - 1
    else:
        fits = 1 <= month <= 12 and 1 <= day <= 31 and all(low <= value < high for value, low, high in clock[1])
        found = day_number(year, month, min(day, last_day(year, month))) if fits else None
        if found is None:
            return None
        days = found
    return days * MICROS_PER_DAY + clock[0] - _offset_micros(fields)


def _first_of(year: int, month: int) -> int:
    found = day_number(year, month, 1)
    return int(days_of(np.array(year), month, 1)) if found is None else found


def _year_of(fields: dict[str, str]) -> int:
    if "yy" in fields:
        return int(fields["yy"]) + (2000 if len(fields["yy"]) == 2 else 0)
    return int(next((fields[letter] for letter in "yuY" if letter in fields), "1970"))


def _month_of(fields: dict[str, str]) -> int:
    text = fields.get("M") or fields.get("L") or "1"
    if text.strip().lstrip("-").isdigit():
        return int(text)
    return next(place for place, name in enumerate(_MONTH_NAMES, 1) if name[:3].lower() == text[:3].lower())


def _clock(fields: dict[str, str]) -> tuple[int, list[tuple[int, int, int]]]:
    """The microseconds of the day, and for each field its value and limits."""
    hour, highest = int(fields.get("H") or fields.get("k") or 0), 25 if "k" in fields else 24
    if "k" in fields:
        hour %= 24
    if "h" in fields or "K" in fields:
        hour = int(fields.get("h") or fields["K"]) % 12 + (12 if fields.get("a", "AM").upper() == "PM" else 0)
    minute, second = int(fields.get("m") or 0), int(fields.get("s") or 0)
    micros = int((fields.get("S", "") + "000000")[:6]) + int(fields.get("SSS") or 0) * 1000
    total = ((hour * 60 + minute) * 60 + second) * MICROS["SECOND"] + micros
    return total, [(hour, 0, highest), (minute, 0, 60), (second, 0, 60)]


def _offset_micros(fields: dict[str, str]) -> int:
    text = next((fields[letter] for letter in "XxZz" if letter in fields), "")
    if not text or text[0] not in "+-":
        return 0
    hours, minutes = int(text[1:3]), int(text[3:].lstrip(":") or 0)
    return (hours * 60 + minutes) * MICROS["MINUTE"] * (-1 if text[0] == "-" else 1)
