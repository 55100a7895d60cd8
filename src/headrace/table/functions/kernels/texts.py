"""Functions of text. Positions and lengths count characters, which are code points; ``PRINTF`` takes Java's formats."""

import re
from decimal import Decimal
from functools import partial, reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.table.functions.kernels import bytewise, shapes
from headrace.table.functions.kernels.decimals import EXACT
from headrace.table.functions.kernels.kernel import (
    BOOLEAN,
    EMPTY,
    TEXT,
    Datum,
    Invocation,
    Kernel,
    any_true,
    as_array,
    by_row,
    by_row_with_nulls,
    constant,
    element_at,
    is_constant,
    map_rows,
    null_mask,
    on_arrays,
    plain,
    to_numpy,
)
from headrace.table.functions.kernels.patterns import split_by
from headrace.table.functions.kernels.spelling import double_of, double_text

_SPACE: Final = " "


def _cased(vectorized: Any, single: Any) -> Any:
    """Arrow has one capital for each letter, where some have two: it is used for ASCII only."""

    def compute(text: Datum) -> Datum:
        if isinstance(text, pa.Array) and bytewise.is_ascii(text):
            return vectorized(text)
        return map_rows(single, TEXT, text)

    return compute


upper: Final = plain(_cased(pc.ascii_upper, str.upper))
lower: Final = plain(_cased(pc.ascii_lower, str.lower))
initcap: Final = plain(on_arrays(bytewise.initcap))
reverse: Final = plain(pc.utf8_reverse)


def char_length(call: Invocation, text: Datum) -> Datum:
    """The length of a text in characters."""
    return pc.utf8_length(text).cast(call.storage)


def concat(_: Invocation, *parts: Datum) -> Datum:
    """Values one after the other, NULL when one of them is: ``||`` of text and of bytes, and ``CONCAT``."""
    kind = parts[0].type if pa.types.is_binary(parts[0].type) else TEXT
    separator = pa.scalar(b"" if pa.types.is_binary(kind) else "", kind)
    return pc.binary_join_element_wise(*(part.cast(kind) for part in parts), separator)


def concat_ws(call: Invocation, separator: Datum, *parts: Datum) -> Datum:
    """Texts with another between them; NULL ones are left out."""
    if not parts:
        return pc.if_else(pc.is_valid(separator), EMPTY, constant(None, TEXT))
    if is_constant(separator, *parts) or any_true(reduce(pc.and_, map(pc.is_null, parts))):
        # Arrow gives no row at all where all parts are NULL.
        return map_rows(_joined, call.storage, separator, *parts, is_strict=False)
    joined = pc.binary_join_element_wise(*parts, pc.fill_null(separator, ""), null_handling="skip")
    return pc.if_else(pc.is_valid(separator), joined, pa.scalar(None, TEXT))


def _joined(separator: str | None, *parts: str | None) -> str | None:
    return None if separator is None else separator.join(part for part in parts if part is not None)


def _substring(text: str, start: int, length: int | None = None) -> str | None:
    if length is not None and length < 0:
        return None
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    if begin < 0:
        return ""
    return text[begin:] if length is None else text[begin : begin + length]


def substring(call: Invocation, text: Datum, start: Datum, length: Datum | None = None) -> Datum:
    """The characters from a position on, which counts from the end when it is negative; 0 is the first one too."""
    bounds = [start] if length is None else [start, length]
    if isinstance(text, pa.Array) and is_constant(*bounds) and all(bound.is_valid for bound in bounds):
        first, *count = (bound.as_py() for bound in bounds)
        if first >= 0 and (not count or count[0] >= 0):
            begin = max(first - 1, 0)
            return pc.utf8_slice_codeunits(text, begin, begin + count[0] if count else None)
    if isinstance(text, pa.Array) and bytewise.is_ascii(text):
        return _sliced(text, *(as_array(bound, len(text)) for bound in bounds))
    return map_rows(_substring, call.storage, text, *bounds)


def _sliced(text: pa.Array, start: pa.Array, length: pa.Array | None = None) -> pa.Array:
    """The same for texts whose characters are bytes."""
    mask, starts = null_mask(text, start), to_numpy(start).astype(np.int64)
    begins = np.where(starts > 0, starts - 1, np.where(starts < 0, to_numpy(pc.binary_length(text)) + starts, 0))
    ends = np.where(begins < 0, 0, _FAR)
    if length is not None:
        counts = to_numpy(length).astype(np.int64)
        ends = np.where(begins < 0, 0, begins + counts)
        is_missing = counts < 0 if mask is None else mask | (counts < 0)
        missing = null_mask(length)
        mask = is_missing if missing is None else is_missing | missing
    return bytewise.sliced(text, np.maximum(begins, 0), ends, mask)


_FAR: Final = 1 << 31
"""Beyond the end of any text."""


def left(call: Invocation, text: Datum, count: Datum) -> Datum:
    """The first characters of a text."""
    if isinstance(text, pa.Array) and isinstance(count, pa.Scalar) and count.is_valid:
        return pc.utf8_slice_codeunits(text, 0, max(count.as_py(), 0))
    return map_rows(lambda value, length: value[: max(length, 0)], call.storage, text, count)


def right(call: Invocation, text: Datum, count: Datum) -> Datum:
    """The last characters of a text."""
    if isinstance(text, pa.Array) and isinstance(count, pa.Scalar) and count.is_valid and count.as_py() > 0:
        return pc.utf8_slice_codeunits(text, -count.as_py())
    return map_rows(lambda value, length: value[-length:] if length > 0 else "", call.storage, text, count)


def repeat(_: Invocation, text: Datum, count: Datum) -> Datum:
    """A text so many times."""
    times = pc.max_element_wise(count, constant(0, count.type), skip_nulls=False)
    return on_arrays(pc.binary_repeat)(text, times)


def _padded(text: str, length: int, padding: str, *, is_left: bool) -> str | None:
    if length < 0 or not padding:
        return None
    missing = max(length - len(text), 0)
    filling = (padding * (missing // len(padding) + 1))[:missing]
    return (filling + text)[:length] if is_left and missing else (text + filling)[:length]


def _padder(vectorized: Any, *, is_left: bool) -> Kernel:
    def compute(call: Invocation, text: Datum, length: Datum, padding: Datum) -> Datum:
        if isinstance(text, pa.Array) and is_constant(length, padding) and length.is_valid and padding.is_valid:
            width, letter = length.as_py(), padding.as_py()
            if width >= 0 and len(letter) == 1:
                return pc.utf8_slice_codeunits(vectorized(text, width=width, padding=letter), 0, width)
        return map_rows(lambda *row: _padded(*row, is_left=is_left), call.storage, text, length, padding)

    return compute


lpad: Final = _padder(pc.utf8_lpad, is_left=True)
rpad: Final = _padder(pc.utf8_rpad, is_left=False)


_TRIMMERS: Final = {
    "BOTH": (pc.utf8_trim, str.strip),
    "LEADING": (pc.utf8_ltrim, str.lstrip),
    "TRAILING": (pc.utf8_rtrim, str.rstrip),
}


def _trimmed(side: str, call: Invocation, text: Datum, characters: Datum) -> Datum:
    vectorized, single = _TRIMMERS[side]
    if isinstance(characters, pa.Scalar) and characters.is_valid:
        return vectorized(text, characters=characters.as_py()) if characters.as_py() else text
    return map_rows(lambda value, wanted: single(value, wanted) if wanted else value, call.storage, text, characters)


def trimmer(side: str) -> Kernel:
    """A kernel that takes away the characters of a text that are among others, spaces when none are given."""

    def compute(call: Invocation, text: Datum, characters: Datum | None = None) -> Datum:
        return _trimmed(side, call, text, pa.scalar(_SPACE) if characters is None else characters)

    return compute


btrim: Final = trimmer("BOTH")
ltrim: Final = trimmer("LEADING")
rtrim: Final = trimmer("TRAILING")


def trim(call: Invocation, characters: Datum, text: Datum) -> Datum:
    """``TRIM(side characters FROM text)``; the side is an option."""
    return _trimmed(str(call.option("side", "BOTH")), call, text, characters)


def position(call: Invocation, wanted: Datum, text: Datum, start: Datum | None = None) -> Datum:
    """The position of the first occurrence of a text in another, from a start on; 0 when there is none."""
    is_first = start is None and isinstance(text, pa.Array) and isinstance(wanted, pa.Scalar) and wanted.is_valid
    if is_first and bytewise.is_ascii(text):  # so that bytes are characters
        found = pc.find_substring(text, wanted.as_py())
        return pc.add(found, constant(1, found.type)).cast(call.storage)
    return map_rows(_found, call.storage, wanted, text, *([] if start is None else [start]))


def _found(wanted: str, text: str, start: int = 1) -> int:
    return text.find(wanted, max(start - 1, 0)) + 1 if wanted else 1


def _instr(text: str, wanted: str, start: int = 1, occurrence: int = 1) -> int:
    """The position of the n-th occurrence; a negative start counts from the end, and searches backwards."""
    if occurrence <= 0:
        raise ValueError(f"INSTR looks for the first or a later occurrence, not for number {occurrence}")
    if start == 0:
        return 0
    places = range(start - 1, max(len(text), 1)) if start > 0 else range(len(text) + start, -1, -1)
    for place in places:
        if text.startswith(wanted, place):
            occurrence -= 1
            if not occurrence:
                return place + 1
    return 0


def instr(call: Invocation, text: Datum, wanted: Datum, *more: Datum) -> Datum:
    """The position of an occurrence of a text in another; 0 when there is none."""
    if not more and isinstance(wanted, pa.Scalar) and wanted.as_py():
        return position(call, wanted, text)
    return map_rows(_instr, call.storage, text, wanted, *more)


def replace(call: Invocation, text: Datum, old: Datum, new: Datum) -> Datum:
    """A text in which each occurrence of another one is replaced."""
    if is_constant(old, new) and old.is_valid and new.is_valid and old.as_py():
        return pc.replace_substring(text, old.as_py(), new.as_py())
    return map_rows(str.replace, call.storage, text, old, new)


def _letters(old: str, new: str) -> dict[int, str | None]:
    table: dict[int, str | None] = {}
    for place, letter in enumerate(old):
        table.setdefault(ord(letter), new[place] if place < len(new) else None)
    return table


def _translate(text: str | None, old: str | None, new: str | None) -> str | None:
    return text if text is None or not old else text.translate(_letters(old, new or ""))


def translate(call: Invocation, text: Datum, old: Datum, new: Datum) -> Datum:
    """A text in which each letter of the second one is replaced by that of the third one at the same place."""
    if not is_constant(old, new) or isinstance(text, pa.Scalar) or not bytewise.is_ascii(text):
        return map_rows(_translate, call.storage, text, old, new, is_strict=False)
    letters = _letters(old.as_py() or "", new.as_py() or "")
    pieces = [(letters.get(byte, chr(byte)) or "").encode() for byte in range(128)]
    return bytewise.replaced(text, pieces + [b""] * 128)


def _overlay(text: str, placed: str, start: int, length: int | None = None) -> str:
    if not 0 < start <= len(text):
        return text
    count = len(placed) if length is None else max(length, 0)
    return text[: start - 1] + placed + text[start - 1 + count :]


overlay: Final = by_row(_overlay)


def ascii_code(call: Invocation, text: Datum) -> Datum:
    """The first byte of a text, which is negative beyond 127; 0 for no text."""
    return on_arrays(bytewise.first_bytes)(text).cast(call.storage)


def _chr(code: int) -> str:
    return "" if code < 0 else chr(code & 0xFF)


chr_: Final = by_row(_chr)


def _split(text: str, separator: str) -> list[str]:
    if not text:
        return []
    return text.split(separator) if separator else list(text)


def _split_index(text: str, separator: str | int, index: int) -> str | None:
    if index < 0:
        return None
    delimiter = chr(separator) if isinstance(separator, int) else separator
    # Flink splits at white space where there is no delimiter.
    parts = _split(text, delimiter) if delimiter or not text else re.split(r"\s", text)
    return parts[index] if index < len(parts) else None


def _str_to_map(text: str, between: str = ",", inside: str = "=") -> list[tuple[str, str | None]]:
    """The delimiters are regular expressions, as in Flink; of equal keys the last one wins."""
    pairs = (split_by(inside, part, 2) for part in split_by(between, text) if text)
    return list({pair[0]: pair[1] if len(pair) > 1 else None for pair in pairs}.items())


str_to_map: Final = by_row(_str_to_map)


def split(call: Invocation, text: Datum, separator: Datum) -> Datum:
    """The parts of a text between delimiters; an empty text has none."""
    is_plain = isinstance(text, pa.Array) and isinstance(separator, pa.Scalar) and separator.as_py()
    if not is_plain or any_true(pc.equal(text, EMPTY)):
        return map_rows(_split, call.storage, text, separator)
    return pc.split_pattern(text, separator.as_py()).cast(call.storage)


def split_index(call: Invocation, text: Datum, separator: Datum, index: Datum) -> Datum:
    """The part of a text at an index from 0 on."""
    is_text = is_constant(separator, index) and separator.is_valid and index.is_valid and separator.type.equals(TEXT)
    if not is_text or isinstance(text, pa.Scalar) or not separator.as_py() or index.as_py() < 0:
        return map_rows(_split_index, call.storage, text, separator, index)
    parts = pc.split_pattern(text, separator.as_py(), max_splits=index.as_py() + 1)
    return _without_parts(text, element_at(parts, index.as_py() + 1))


def _without_parts(text: pa.Array, parts: pa.Array) -> pa.Array:
    """Parts of texts, NULL where the text is empty, which has none."""
    return pc.if_else(pc.equal(text, EMPTY), constant(None, TEXT), parts)


def _elt(index: int | None, *texts: Any) -> Any:
    return texts[index - 1] if index is not None and 0 < index <= len(texts) else None


elt: Final = by_row_with_nulls(_elt)


def _holds(function: Any) -> Kernel:
    def compute(call: Invocation, value: Datum, part: Datum) -> Datum:
        if isinstance(part, pa.Scalar) and part.is_valid:
            return function[0](value, part.as_py())
        return map_rows(function[1], call.storage, value, part)

    return compute


startswith: Final = _holds((pc.starts_with, lambda value, part: value.startswith(part)))
endswith: Final = _holds((pc.ends_with, lambda value, part: value.endswith(part)))


def _spelled(value: Datum) -> Datum:
    return value if pa.types.is_string(value.type) else map_rows(str, TEXT, value)


def _says(test: Any) -> Kernel:
    """A kernel of a test of texts, which is false for NULL."""

    def compute(call: Invocation, text: Datum) -> Datum:
        return pc.fill_null(map_rows(test, call.storage, _spelled(text)), False)

    return compute


def _says_of_ascii(vectorized: Any, single: Any) -> Kernel:
    """The same, with a function of Arrow for columns of ASCII."""
    says = _says(single)

    def compute(call: Invocation, text: Datum) -> Datum:
        is_plain = isinstance(text, pa.Array) and pa.types.is_string(text.type) and bytewise.is_ascii(text)
        return pc.fill_null(vectorized(text), False) if is_plain else says(call, text)

    return compute


is_alpha: Final = _says_of_ascii(pc.ascii_is_alpha, str.isalpha)
is_digit: Final = _says_of_ascii(pc.ascii_is_decimal, str.isdecimal)


def _say_numbers(text: Datum) -> Datum:
    test = partial(map_rows, lambda value: double_of(value) is not None, BOOLEAN)
    return shapes.by_shape(shapes.NUMBER, lambda usual: pc.equal(usual, usual), test)(text)


def is_decimal(_: Invocation, text: Datum) -> Datum:
    """Return which texts say a number."""
    return pc.fill_null(_say_numbers(_spelled(text)), False)


def fitted(text: Datum, length: int, *, pads: bool) -> Datum:
    """A text cut to a length, and padded with spaces to it on request."""
    cut = pc.utf8_slice_codeunits(text, 0, length)
    return pc.utf8_rpad(cut, width=length, padding=_SPACE) if pads else cut


_PIECE: Final = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")
_WHOLE: Final = "doxX"
_REAL: Final = "fFeEgG"


def _printf(pattern: str | None, *values: Any) -> str | None:
    if pattern is None:
        return None
    made, end, following = [], 0, iter(range(len(values)))
    for found in _PIECE.finditer(pattern):
        made.append(_literal_text(pattern[end : found.start()]))
        made.append(_conversion(found, values, following))
        end = found.end()
    return "".join([*made, _literal_text(pattern[end:])])


def _literal_text(text: str) -> str:
    if "%" in text:
        raise ValueError(f"the format of PRINTF has a % that begins no conversion: {text!r}")
    return text


def _conversion(found: re.Match[str], values: tuple[Any, ...], following: Any) -> str:
    place, flags, width, precision, conversion = found.groups()
    if conversion in "%n":
        return "%" if conversion == "%" else "\n"
    index = int(place) - 1 if place else next(following, None)
    if index is None or index >= len(values):
        raise ValueError(f"the format of PRINTF has {found[0]!r}, but there is no value for it")
    return _aligned(_formatted(values[index], flags, precision, conversion, int(width or 0)), flags, int(width or 0))


def _aligned(text: str, flags: str, width: int) -> str:
    return text.ljust(width) if "-" in flags else text.rjust(width)


def _formatted(value: Any, flags: str, precision: str | None, conversion: str, width: int) -> str:
    if conversion in "bB":
        text = str(value if isinstance(value, bool) else value is not None)
        return text.upper() if conversion == "B" else text.lower()
    if value is None:
        text = "null" if precision is None else "null"[: int(precision)]
        return text.upper() if conversion.isupper() else text
    if conversion in "sS":
        text = _text_of(value) if precision is None else _text_of(value)[: int(precision)]
        return text.upper() if conversion == "S" else text
    if conversion in "cC":
        return chr(value)
    if conversion in _WHOLE + _REAL:
        return _number_formatted(value, flags, precision, conversion, width)
    raise ValueError(f"the format of PRINTF has no conversion %{conversion}")


def _text_of(value: Any) -> str:
    if isinstance(value, float):
        return double_text(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number_formatted(value: Any, flags: str, precision: str | None, conversion: str, width: int) -> str:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if is_whole != (conversion in _WHOLE):
        raise ValueError(f"the format of PRINTF has %{conversion}, which {value!r} is not for")
    sign = "+" if "+" in flags else " " if " " in flags else ""
    zeros = f"0{width}" if "0" in flags and width else ""
    comma = "," if "," in flags else ""
    if is_whole and conversion in "xXo" and value < 0:
        value += 1 << (32 if value >= -(1 << 31) else 64)  # the bits of an INT, or of a BIGINT
    if is_whole and "(" in flags and value < 0:
        return f"({format(-value, f'{zeros}{comma}{conversion}')})"
    if is_whole:
        return format(value, f"{sign}{zeros}{comma}{conversion}")
    if conversion in "eE":
        return format(float(value), f"{sign}{zeros}.{precision or 6}{conversion}")
    if conversion in "gG":
        return _general_notation(float(value), int(precision or 6) or 1, f"{sign}{zeros}", conversion)
    rounded = Decimal(repr(value) if isinstance(value, float) else value)
    rounded = EXACT.quantize(rounded, Decimal(1).scaleb(-int(precision or 6)))
    return format(rounded, f"{sign}{zeros}{comma}f")


def _general_notation(value: float, digits: int, flags: str, conversion: str) -> str:
    """``%g``: so many digits, in scientific notation where the number is very small or needs more digits."""
    scientific = format(value, f"{flags}.{digits - 1}{'E' if conversion == 'G' else 'e'}")
    exponent = int(scientific.lower().partition("e")[2])
    return format(value, f"{flags}.{digits - 1 - exponent}f") if value == 0 or -5 < exponent < digits else scientific


def _printf_or_null(pattern: str | None, *values: Any) -> str | None:
    """Format values; NULL where the format does not fit them, as in Flink."""
    try:
        return _printf(pattern, *values)
    except (ValueError, TypeError):
        return None


printf: Final = by_row_with_nulls(_printf_or_null)
