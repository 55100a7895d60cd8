"""Functions of text. Positions and lengths count characters, which are code points."""

import re
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.table.functions.kernels.kernel import (
    EMPTY,
    TEXT,
    Datum,
    Invocation,
    Kernel,
    any_true,
    by_row,
    by_row_with_nulls,
    constant,
    element_at,
    is_constant,
    map_rows,
    plain,
)
from headrace.table.functions.kernels.spelling import double_of

_SPACE: Final = " "


def _cased(vectorized: Any, single: Any) -> Any:
    """Arrow has one capital for each letter, where some have two: it is asked for letters of ASCII only."""

    def compute(text: Datum) -> Datum:
        if isinstance(text, pa.Array) and pc.all(pc.string_is_ascii(text)).as_py() is not False:
            return vectorized(text)
        return map_rows(single, TEXT, text)

    return compute


def _initcap(text: str) -> str:
    made, inside = [], False
    for letter in text:
        made.append((letter.lower() if inside else letter.upper()) if letter.isascii() else letter)
        inside = letter.isascii() and letter.isalnum()
    return "".join(made)


upper: Final = plain(_cased(pc.ascii_upper, str.upper))
lower: Final = plain(_cased(pc.ascii_lower, str.lower))
initcap: Final = by_row(_initcap)
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
    return map_rows(_substring, call.storage, text, *bounds)


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


repeat: Final = by_row(lambda text, count: text * max(count, 0))


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
    if is_first and pc.all(pc.string_is_ascii(text)).as_py() is not False:  # so that bytes are characters
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
    places = range(start - 1, len(text)) if start > 0 else range(len(text) + start, -1, -1)
    for place in places:
        if text.startswith(wanted, place):
            occurrence -= 1
            if not occurrence:
                return place + 1
    return 0


instr: Final = by_row(_instr)


def replace(call: Invocation, text: Datum, old: Datum, new: Datum) -> Datum:
    """A text in which each occurrence of another one is replaced."""
    if is_constant(old, new) and old.is_valid and new.is_valid and old.as_py():
        return pc.replace_substring(text, old.as_py(), new.as_py())
    return map_rows(str.replace, call.storage, text, old, new)


def _translated(text: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for place, letter in enumerate(old):
        table.setdefault(ord(letter), new[place] if place < len(new) else None)
    return text.translate(table)


def _translate(text: str | None, old: str | None, new: str | None) -> str | None:
    if text is None or not old:
        return text
    return _translated(text, old, new or "")


translate: Final = by_row_with_nulls(_translate)


def _overlay(text: str, placed: str, start: int, length: int | None = None) -> str:
    if not 0 < start <= len(text):
        return text
    count = len(placed) if length is None else max(length, 0)
    return text[: start - 1] + placed + text[start - 1 + count :]


overlay: Final = by_row(_overlay)


def ascii_code(call: Invocation, text: Datum) -> Datum:
    """The first byte of a text, which is negative beyond 127; 0 for no text."""
    return map_rows(_first_byte, call.storage, text)


def _first_byte(text: str) -> int:
    first = text[:1].encode()[:1] or b"\0"
    return int.from_bytes(first, signed=True)


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
    parts = _split(text, chr(separator) if isinstance(separator, int) else separator)
    return parts[index] if index < len(parts) else None


def _str_to_map(text: str, between: str = ",", inside: str = "=") -> list[tuple[str, str | None]]:
    """The delimiters are regular expressions, as in Flink; of equal keys the last one wins."""
    pairs = (re.split(inside, part, maxsplit=1) for part in re.split(between, text) if text)
    return list({pair[0]: pair[1] if len(pair) > 1 else None for pair in pairs}.items())


str_to_map: Final = by_row(_str_to_map)
split: Final = by_row(_split)


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


is_alpha: Final = _says(str.isalpha)
is_digit: Final = _says(str.isdecimal)
is_decimal: Final = _says(lambda text: double_of(text) is not None)


def fitted(text: Datum, length: int, *, pads: bool) -> Datum:
    """A text cut to a length, and padded with spaces to it where that is asked."""
    cut = pc.utf8_slice_codeunits(text, 0, length)
    return pc.utf8_rpad(cut, width=length, padding=_SPACE) if pads else cut
