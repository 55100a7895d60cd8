"""Headers of messages: names and values beside the value of a message, in brokers and in the embedded log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.common.errors import InvalidTypeError

if TYPE_CHECKING:
    from collections.abc import Sequence

Headers = tuple[tuple[str, bytes | None], ...]

HEADERS: Final = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))
"""Names may come more than once, so it is no map."""


def checked_headers(headers: Iterable[Any] | Mapping[Any, Any]) -> Headers:
    """Headers, if a message can have them.

    Args:
        headers: pairs of a name and a value, or values by name.

    Raises:
        InvalidTypeError: when they are not text and bytes.
    """
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        found = tuple((name, value) for name, value in pairs)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"headers of a record are pairs of a name and bytes or None, not {headers!r}") from error
    for name, value in found:
        if not _is_text(name) or not (value is None or isinstance(value, bytes)):
            raise InvalidTypeError(f"a header of a record is a name and bytes or None, not {name!r} and {value!r}")
    return found


def headers_to_array(rows: Sequence[Headers | None]) -> pa.Array:
    """Headers of messages as a column of :data:`HEADERS`, null for a message without any."""
    return pa.array([[{"key": key, "value": value} for key, value in row] if row else None for row in rows], HEADERS)


def array_to_headers(column: pa.Array) -> list[list[tuple[str, bytes | None]] | None]:
    """The headers of each message in a column of :data:`HEADERS`."""
    return [None if row is None else [(each["key"], each["value"]) for each in row] for row in column.to_pylist()]


def _is_text(name: object) -> bool:
    """Whether something is text that UTF-8 has bytes for."""
    if not isinstance(name, str):
        return False
    try:
        name.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True
