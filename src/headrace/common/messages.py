"""Messages of brokers and of the log: topics and partitions, headers, and metadata as fields of records."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.errors import InvalidTypeError, refused
from headrace.common.other_names import alike
from headrace.common.typeinfo import CompositeTypeInfo, TypeInformation, Types
from headrace.common.typeinfo.composite import VALUE_COLUMN


class TopicPartition(NamedTuple):
    """A partition of a topic; its text is what checkpoints and messages call it.

    Attributes:
        topic: its name.
        partition: the number of the partition, from 0.

    Examples:
        >>> from headrace.log import TopicPartition
        >>> str(TopicPartition("payments", 3))
        'payments-3'
    """

    topic: str
    partition: int

    @staticmethod
    def parse(text: str) -> "TopicPartition":
        """The partition that has a text."""
        topic, _, partition = text.rpartition("-")
        return TopicPartition(topic, int(partition))

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


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
    """Return whether something is text that UTF-8 has bytes for."""
    if not isinstance(name, str):
        return False
    try:
        name.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def chosen_metadata(chosen: Mapping[str, str] | Sequence[str], known: Mapping[str, object], of: str) -> dict[str, str]:
    """By name of the field, the metadata that it holds.

    Args:
        chosen: names of metadata, or fields by name and the metadata that each holds.
        known: what there is, by name.
        of: what it is known of, for errors.

    Raises:
        InvalidProgramError: when there is no such metadata.
    """
    fields = dict(chosen) if isinstance(chosen, Mapping) else {name: name for name in chosen}
    for name in fields.values():
        if name not in known:
            hint = alike(name, known) or f": there are {', '.join(known)}"
            raise refused(f"{of} have no metadata {name!r}{hint}")
    return fields


def row_type(fields: Sequence[tuple[str, TypeInformation]], advice: str, *, changelog: bool) -> TypeInformation:
    """The type of rows of some fields.

    Raises:
        InvalidProgramError: when two have one name; ``advice`` ends the message.
    """
    names = [name for name, _ in fields]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise refused(f"two fields are called {twice!r}: {advice}")
    return Types.ROW_NAMED(names, [of for _, of in fields], changelog=changelog)


def fields_of(kind: TypeInformation, otherwise: str = VALUE_COLUMN) -> list[tuple[str, TypeInformation]]:
    """The fields of records of a type by name; one that is called ``otherwise`` where it has none."""
    if isinstance(kind, CompositeTypeInfo):
        return list(zip(kind.field_names, kind.field_types, strict=True))
    return [(otherwise, kind)]


def columns_of(columns: pa.RecordBatch | None, rows: list[Any] | None, kind: TypeInformation) -> list[pa.Array]:
    """The columns of records that are columns or rows of a type; what rows do in a changelog comes last, if known."""
    read = layout_of(kind).rows_to_columns(rows or []) if columns is None else columns
    return list(read.columns)
