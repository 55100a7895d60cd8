"""Messages of ``pgoutput``, PostgreSQL's own decoding plugin: transactions, tables, and where changes are in them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

BEGIN: Final = ord("B")
COMMIT: Final = ord("C")
RELATION: Final = ord("R")
INSERT: Final = ord("I")
UPDATE: Final = ord("U")
DELETE: Final = ord("D")
TRUNCATE: Final = ord("T")

_BEGIN: Final = struct.Struct(">xQqI")
_COMMIT: Final = struct.Struct(">xBQQq")
_TRUNCATE: Final = struct.Struct(">xIB")
_OID: Final = struct.Struct(">I")
_COUNT: Final = struct.Struct(">H")
_COLUMN: Final = struct.Struct(">Ii")

_EPOCH_MICROS: Final = 946_684_800_000_000
"""2000-01-01, from which PostgreSQL counts, in microseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The beginning of a transaction.

    Attributes:
        lsn: where the record of its commit begins.
        time: when it was committed, in milliseconds.
    """

    lsn: int
    time: int

    @classmethod
    def parse(cls, message: bytes) -> Begin:
        """Read a message."""
        lsn, micros, _ = _BEGIN.unpack_from(message)
        return cls(lsn, (micros + _EPOCH_MICROS) // 1000)


def end_of_commit(message: bytes) -> int:
    """The place behind a transaction, of the message of its commit."""
    end: int = _COMMIT.unpack_from(message)[2]
    return end


def truncated_relations(message: bytes) -> tuple[int, ...]:
    """The ids of the tables that a message reports as truncated."""
    count, _ = _TRUNCATE.unpack_from(message)
    return struct.unpack_from(f">{count}I", message, _TRUNCATE.size)


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column of a table.

    Attributes:
        name: its name.
        type_id: the id of its type.
        is_identity: whether it is part of the replica identity.
    """

    name: str
    type_id: int
    is_identity: bool


@dataclass(frozen=True, slots=True)
class PostgresRelation:
    """A table as changes have it: its columns in their order, from some place in the log on.

    Attributes:
        relation_id: its id; of a partitioned table that is published as one, the id of that.
        schema: the name of its schema.
        table: its name.
        has_whole_rows: whether changes have whole rows as they were before: its replica identity is ``FULL``.
        columns: its columns.
    """

    relation_id: int
    schema: str
    table: str
    has_whole_rows: bool
    columns: tuple[RelationColumn, ...]

    @classmethod
    def parse(cls, message: bytes) -> PostgresRelation:
        """Read a message."""
        (relation_id,) = _OID.unpack_from(message, 1)
        schema, place = _text(message, 5)
        table, place = _text(message, place)
        identity = message[place]
        (count,) = _COUNT.unpack_from(message, place + 1)
        place += 3
        columns = []
        for _ in range(count):
            flags = message[place]
            name, place = _text(message, place + 1)
            type_id, _ = _COLUMN.unpack_from(message, place)
            place += _COLUMN.size
            columns.append(RelationColumn(name, type_id, bool(flags & 1)))
        # A catalog schema has an empty name
        return cls(relation_id, schema or "pg_catalog", table, identity == ord("f"), tuple(columns))

    @property
    def names(self) -> list[str]:
        """The names of its columns."""
        return [column.name for column in self.columns]


def relation_id_of(message: bytes) -> int:
    """The id of the table that a message is about."""
    found: int = _OID.unpack_from(message, 1)[0]
    return found


def _text(message: bytes, start: int) -> tuple[str, int]:
    end = message.index(0, start)
    return message[start:end].decode(), end + 1
