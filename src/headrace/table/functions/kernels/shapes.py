"""Texts of the usual shape by Arrow, and the others one by one: most dates and numbers are written in one way."""

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.table.functions.kernels.kernel import Datum, any_true, constant

Read = Callable[[Datum], Datum]
"""Reads texts; one that says nothing gives NULL."""

DATE: Final = r"(?s)\A[0-9]{4}-[0-9]{2}-[0-9]{2}( .*)?\z"
"""A date, and maybe a time behind it, which does not matter."""

SECONDS: Final = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\z"
TIMESTAMP: Final = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?\z"
NUMBER: Final = r"\A-?[0-9]{1,15}(\.[0-9]{1,15})?\z"


def by_shape(shape: str, usual: Read, other: Read) -> Read:
    """A reader that reads texts of a shape in one way, and others in another one.

    Args:
        shape: a regular expression.
        usual: reads texts of the shape. It may raise ``ArrowInvalid``, and then the other way reads all.
        other: reads any text.
    """

    def read(text: Datum) -> Datum:
        if isinstance(text, pa.Scalar):
            return other(text)
        fits = pc.fill_null(pc.match_substring_regex(text, shape), False)
        try:
            made = usual(pc.if_else(fits, text, constant(None, text.type)))
        except pa.ArrowInvalid:
            return other(text)
        rest = pc.and_(pc.invert(fits), pc.is_valid(text))
        return pc.replace_with_mask(made, rest, other(text.filter(rest))) if any_true(rest) else made

    return read
