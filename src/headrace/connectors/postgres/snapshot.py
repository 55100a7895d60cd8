"""The snapshot of tables: their rows as of one place in the log, in chunks that several tasks read at once.

A *view* of the tables is a snapshot of the database that the driver keeps, and the place in the log to which it
belongs: it has what was committed before, and changes tell what was committed later. Tasks read chunks in this view, so
that reading one again gives the same rows. The view ends with the driver's session. Another one, at a later place, then
gives the chunks that are left; so the rows of a table may be as of several places, one for each range of the key, and
of the changes that follow those are left out that the rows of their range have already seen.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from headrace.connectors.postgres.server import PostgresServer, literal, lsn_of, quoted, telling
from headrace.connectors.postgres.tables import PLUGIN, CapturedTable, FoundTable

if TYPE_CHECKING:
    from headrace.connectors.postgres.server import Connection

Bound = str | None
"""The text of a value of the key, where a chunk begins or ends; None for the beginning or the end of the table."""

View = tuple[Bound, int]
"""From which value of the key on rows are as of which place in the log."""

MANY_CHUNKS: Final = 256
"""The most chunks that are looked for at a time."""


@dataclass(frozen=True, slots=True)
class ChunkPiece:
    """Some chunks of a table that a task reads.

    Attributes:
        found: the table.
        snapshot: the name of the snapshot of the database.
        bounds: where the chunks begin, and where the last one ends.
    """

    found: FoundTable
    snapshot: str
    bounds: tuple[Bound, ...]


Chunk = tuple[FoundTable, Bound, Bound]
"""A chunk of a table: where it begins, and where it ends."""


def chunk_pieces(chunks: Sequence[Chunk], snapshot: str, count: int) -> tuple[tuple[ChunkPiece, ...], ...]:
    """The pieces of chunks that each task reads, one table after the other.

    Args:
        chunks: the chunks.
        snapshot: the name of the snapshot of the database.
        count: how many tasks there are.
    """
    share = -(-len(chunks) // max(1, count))
    return tuple(tuple(_parts(chunks[at : at + share], snapshot)) for at in range(0, len(chunks), share))


def _parts(chunks: Sequence[Chunk], snapshot: str) -> Iterator[ChunkPiece]:
    for found, of_table in groupby(chunks, itemgetter(0)):
        each = list(of_table)
        yield ChunkPiece(found, snapshot, (each[0][1], *(end for _, _, end in each)))


class TableView:
    """A view of the tables that lasts as long as a session of the driver.

    Args:
        server: where the tables are.
        tables: what they are called, for messages.

    Attributes:
        lsn: the place in the log to which it belongs.
        snapshot: its name, by which other sessions take it.
    """

    def __init__(self, server: PostgresServer, tables: CapturedTable) -> None:
        self._tables = tables
        self._connection = server.connect("snapshot")
        try:
            self.lsn, self.snapshot = self._open(server)
        except BaseException:
            self._connection.close()
            raise

    def _open(self, server: PostgresServer) -> tuple[int, str]:
        """Take the snapshot that PostgreSQL exports when a slot is created: it knows its place in the log."""
        with (
            telling(f"the snapshot of table {self._tables}"),
            closing(server.connect("snapshot", replication=True)) as exporting,
        ):
            slot = quoted(f"headrace_{uuid.uuid4().hex}")
            made = exporting.execute(
                f"CREATE_REPLICATION_SLOT {slot} TEMPORARY LOGICAL {PLUGIN} EXPORT_SNAPSHOT".encode()
            ).fetchone()
            assert made is not None
            _, place, snapshot, _ = made
            begin_in(self._connection, snapshot)
            own = self._connection.execute("SELECT pg_export_snapshot()").fetchone()
            assert own is not None
            return lsn_of(_text(place)), own[0]

    def chunks(self, found: FoundTable, start: Bound, size: int, count: int) -> list[Bound]:
        """The bounds of chunks of a table from a value of the key on; the last is None where the table ends.

        Args:
            found: the table.
            start: where the first one begins.
            size: how many rows a chunk has.
            count: how many chunks at most.
        """
        key, name = quoted(found.chunk_key), quoted(found.schema, found.table)
        since = "" if start is None else f"AND {key} >= {literal(start)}"
        query = (
            f"SELECT k::text FROM (SELECT {key} AS k, row_number() OVER (ORDER BY {key}) - 1 AS n FROM {name} "
            f"WHERE {key} IS NOT NULL {since} ORDER BY {key} LIMIT {size * count + 1}) AS rows "
            f"WHERE n > 0 AND n % {size} = 0 ORDER BY n"
        )
        with telling(f"the snapshot of table {found.full_name}"):
            texts: list[Bound] = [text for (text,) in self._connection.execute(query.encode())]
            is_last = len(texts) < count
            bounds = [start, *(bound for bound in dict.fromkeys(texts) if bound != start)]
            if not is_last and len(bounds) == 1:  # more rows have one value than are looked at
                bounds.append(self._next(found, texts[-1]))
            return [*bounds, None] if is_last else bounds

    def _next(self, found: FoundTable, value: Bound) -> Bound:
        assert value is not None
        key, name = quoted(found.chunk_key), quoted(found.schema, found.table)
        query = f"SELECT min({key})::text FROM {name} WHERE {key} > {literal(value)}"
        row = self._connection.execute(query.encode()).fetchone()
        assert row is not None
        after: Bound = row[0]
        return after

    def close(self) -> None:
        """End the session."""
        self._connection.close()


def begin_in(connection: Connection, snapshot: str) -> None:
    """Begin a transaction that sees a snapshot."""
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    connection.execute(f"SET TRANSACTION SNAPSHOT {literal(snapshot)}".encode())


def read_chunk(connection: Connection, table: CapturedTable, key: str, start: Bound, end: Bound) -> pa.Table:
    """The texts of the rows of a chunk. Rows without a value of the key are in the first chunk.

    Args:
        connection: a session that sees the snapshot.
        table: the table.
        key: the column by which it is cut.
        start: where the chunk begins.
        end: where it ends.
    """
    conditions = [] if end is None else [f"{quoted(key)} < {literal(end)}"]
    if start is not None:
        conditions.append(f"{quoted(key)} >= {literal(start)}")
    where = " AND ".join(conditions) or "true"
    if start is None and end is not None:
        where = f"({where} OR {quoted(key)} IS NULL)"
    names = list(table.columns)
    columns = ", ".join(map(quoted, names))
    copied = f"COPY (SELECT {columns} FROM {table.name} WHERE {where}) TO STDOUT (FORMAT csv)"
    with telling(f"a chunk of table {table}"), connection.cursor().copy(copied.encode()) as copy:
        data = b"".join(copy)
    return parsed_rows(data, names)


def parsed_rows(data: bytes, names: list[str]) -> pa.Table:
    """The texts of rows in CSV, in which only what is not in quotes can be null."""
    schema = pa.schema([(name, pa.string()) for name in names])
    if not data:
        return schema.empty_table()
    return pyarrow.csv.read_csv(
        pa.py_buffer(data),
        read_options=pyarrow.csv.ReadOptions(column_names=names, use_threads=False, block_size=max(len(data), 1 << 20)),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=schema, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )


def seen_already(
    connection: Connection,
    key_type: tuple[str, str],
    views: Sequence[View],
    keys: pa.Array,
    lsns: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_]:
    """Tell which changes the snapshot has seen: those of keys whose rows are as of a later place in the log.

    The server says to which range a key belongs: it knows the order of all its types.

    Args:
        connection: to the server.
        key_type: the type of the key in SQL, and the clause of its collation.
        views: of ranges of the key, in their order.
        keys: the texts of the keys of the changes.
        lsns: where the changes were committed.

    Returns:
        A boolean for each change.
    """
    bounds = [bound for bound, _ in views[1:]]
    if not bounds:
        return lsns < views[0][1]
    texts = keys.to_pylist()
    kind, collation = key_type
    query = (
        f"SELECT coalesce(width_bucket(k::{kind} {collation}, %s::text[]::{kind}[]), 0) "
        "FROM unnest(%s::text[]) WITH ORDINALITY AS keys(k, n) ORDER BY n"
    )
    with telling("the ranges of a snapshot"):
        ranges = [place for (place,) in connection.execute(query.encode(), (bounds, texts))]
    places = np.array([lsn for _, lsn in views])
    return lsns < places[np.array(ranges, np.int64)]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
