"""Changes as they come by logical replication: a thread of the driver takes them over, ahead of the job.

The server sends transactions in the order of their commits, each as a whole once it is committed. A place among them
is the end of a transaction in the log, and a number of changes of the one that follows: this says the same after every
restart, whichever session reads it. What is read, and no manifest holds yet, stays in memory, up to some limit; then
the server waits. It keeps its log up to the place that a manifest holds.
"""

from __future__ import annotations

import bisect
import itertools
import select
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from headrace.common.errors import HeadraceError, InfrastructureError, SourceChangedError
from headrace.common.logs import get_logger
from headrace.connectors.postgres.relations import (
    BEGIN,
    COMMIT,
    DELETE,
    INSERT,
    RELATION,
    TRUNCATE,
    UPDATE,
    Begin,
    PostgresRelation,
    end_of_commit,
    relation_id_of,
    truncated_relations,
)
from headrace.connectors.postgres.server import PostgresServer, error_of, literal, lsn_text, quoted
from headrace.connectors.postgres.tables import CapturedTable

if TYPE_CHECKING:
    from headrace.connectors.postgres.server import Connection

logger = get_logger(__name__)

_MOST_BYTES: Final = 64 << 20
"""At most so much is received ahead; then the server waits until the job has taken some."""

_DATA: Final = ord("w")
_KEEPALIVE: Final = ord("k")
_HEADER: Final = 25
_ALIVE: Final = struct.Struct(">xQqB")
_STATUS: Final = struct.Struct(">cQQQqB")
_STATUS_SECONDS: Final = 1.0
_WAIT_SECONDS: Final = 0.2
_RETRY_SECONDS: Final = 0.5
_BATCH: Final = 1_000
"""The number of messages that are taken over before other threads may look at them."""

_CHANGES: Final = frozenset((INSERT, UPDATE, DELETE))


class ChangePlace(NamedTuple):
    """A place among the changes.

    Attributes:
        lsn: behind the last transaction that was read as a whole.
        changes: how many changes were read of the one that follows.
    """

    lsn: int
    changes: int = 0


@dataclass(slots=True)
class _Transaction:
    """A transaction with changes of the tables.

    Attributes:
        first: the number of its first change that was taken over.
        begin: when and where it was committed.
        before: the place in front of its first change that was taken over.
        end: the place behind it; None while not all of it has come.
        last: the number behind its last change; None likewise.
    """

    first: int
    begin: Begin
    before: ChangePlace
    end: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class ChangeRun:
    """Changes of a table that has the same columns throughout; those of other tables may come between them.

    Attributes:
        relation: the table.
        data: the messages, one behind the other.
        numbers: the place of each among all changes that are read at once, as bytes of 64-bit integers.
        lengths: how long each is, likewise.
        lsns: where each was committed, likewise.
        times: when, in milliseconds, likewise.
        count: how many there are.
    """

    relation: PostgresRelation
    data: bytes = field(repr=False)
    numbers: bytes = field(repr=False)
    lengths: bytes = field(repr=False)
    lsns: bytes = field(repr=False)
    times: bytes = field(repr=False)
    count: int

    def array(self, numbers: bytes) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The numbers in bytes."""
        return np.frombuffer(numbers, np.int64)


@dataclass(frozen=True, slots=True)
class ChangeShare:
    """An epoch's share of the changes.

    Attributes:
        runs: the changes.
        end: the place behind them.
        count: how many there are.
        size: how many bytes they have.
    """

    runs: tuple[ChangeRun, ...]
    end: ChangePlace
    count: int = 0
    size: int = 0


class ReplicationReceiver:
    """Takes over the changes of tables from a place on.

    Args:
        server: where the tables are.
        table: what they are called, with their slot and their publication.
        tables: the tables.
        system: the id of the server.
        start: the place.
    """

    def __init__(
        self,
        server: PostgresServer,
        table: CapturedTable,
        tables: Iterable[CapturedTable],
        system: str,
        start: ChangePlace,
    ) -> None:
        self._server = server
        self._table = table
        self._tables = {(each.schema, each.table): each for each in tables}
        self._system = system
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._error: HeadraceError | None = None
        self._refused: tuple[int, HeadraceError] | None = None
        # What was taken over, and is not forgotten; changes have numbers from the first one that this receiver took.
        self._messages: list[bytes] = []
        self._first = 0
        self._bytes_upto: list[int] = []  # with each change
        self._bytes_before = 0
        self._transactions: list[_Transaction] = []
        self._relations: list[tuple[int, PostgresRelation]] = []
        self._reached = start.lsn
        self._confirmed = start.lsn
        # Of the session
        self._next = start
        self._to_skip = start.changes
        self._has_skipped = False
        self._open: Begin | None = None
        self._current: dict[int, PostgresRelation] = {}
        self._others: set[int] = set()
        self._thread = threading.Thread(target=self._run, name=f"headrace-postgres-{table.slot}", daemon=True)
        self._thread.start()

    # --- for the driver ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """See whether changes can still come.

        Raises:
            HeadraceError: when they cannot.
        """
        with self._changed:
            if self._error is not None:
                raise self._error

    def share(self, place: ChangePlace, records: int, size: int, stop: int | None) -> ChangeShare:
        """The changes from a place on. A transaction is divided only if it is larger than what may be read at once.

        Args:
            place: the place.
            records: how many changes at most.
            size: how many bytes at most; one change is given whatever its size.
            stop: what is committed from this place in the log on is left out; None for nothing.

        Raises:
            HeadraceError: when the change that follows cannot be read.
        """
        with self._changed:
            first = self._number(place)
            if self._refused is not None and self._refused[0] == first:
                raise self._refused[1]
            limit = self._limit(stop)
            if stop is not None and first == limit < self._first + len(self._messages):
                return ChangeShare((), ChangePlace(max(place.lsn, stop)))
            end = self._end_of_share(first, limit, records, size)
            if end > first:
                return self._cut(first, end)
            is_within = place.changes > 0 and (self._to_skip > 0 or self._open is not None)
            if first < self._first + len(self._messages) or self._is_divided or is_within:
                return ChangeShare((), place)
            reached = self._reached if stop is None else min(stop, self._reached)
            return ChangeShare((), ChangePlace(max(place.lsn, reached)))

    def waiting(self, place: ChangePlace) -> tuple[int, int]:
        """The number of changes, and of their bytes, from a place on."""
        with self._changed:
            first, count = self._number(place) - self._first, len(self._messages)
            return count - first, self._bytes_at(count) - self._bytes_at(first)

    def forget(self, place: ChangePlace) -> None:
        """Let go of what is before a place, which a manifest holds; the server may do so as well."""
        with self._changed:
            end = self._number(place)
            gone = end - self._first
            self._bytes_before = self._bytes_at(gone)
            del self._messages[:gone], self._bytes_upto[:gone]
            self._first = end
            done = bisect.bisect_right(self._transactions, end, key=_end)
            del self._transactions[:done]
            later = bisect.bisect_right(self._relations, end, key=lambda each: each[0])
            present = {relation.relation_id: (number, relation) for number, relation in self._relations[:later]}
            self._relations[:later] = sorted(present.values(), key=lambda each: each[0])
            self._confirmed = max(self._confirmed, place.lsn)
            self._changed.notify_all()

    def close(self) -> None:
        """End the session."""
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join(self._server.timeout / 1000)

    def _number(self, place: ChangePlace) -> int:
        """The number of the change behind a place."""
        found = bisect.bisect_left(self._transactions, place.lsn, key=lambda each: each.begin.lsn)
        if found == len(self._transactions):
            return self._first + len(self._messages)
        following = self._transactions[found]
        is_same = following.before.lsn == place.lsn
        done = place.changes - following.before.changes if is_same else 0
        return max(self._first, following.first + max(0, done))

    def _bytes_at(self, index: int) -> int:
        """The bytes of all changes that were ever taken over before one of those that are kept."""
        return self._bytes_upto[index - 1] if index else self._bytes_before

    @property
    def _is_full(self) -> bool:
        """Tell whether so much was taken over that the server has to wait."""
        return self._bytes_at(len(self._messages)) - self._bytes_before >= _MOST_BYTES

    @property
    def _is_divided(self) -> bool:
        """Tell whether the last transaction has not come as a whole."""
        return bool(self._transactions) and self._transactions[-1].last is None

    def _limit(self, stop: int | None) -> int:
        """The number behind the last change that may be read."""
        if stop is not None:
            beyond = bisect.bisect_left(self._transactions, stop, key=lambda each: each.begin.lsn)
            if beyond < len(self._transactions):
                return self._transactions[beyond].first
        return self._first + len(self._messages)

    def _end_of_share(self, first: int, limit: int, records: int, size: int) -> int:
        """The number behind the last change that is read, at the end of a transaction if possible."""
        fitting = self._first + bisect.bisect_right(self._bytes_upto, self._bytes_at(first - self._first) + size)
        most = min(limit, first + records, max(fitting, first + 1))
        known = bisect.bisect_right(self._transactions, most, key=_end)
        whole = _end(self._transactions[known - 1]) if known else first
        if whole > first:
            return int(whole)
        is_large = most < limit or most == first + records or self._is_full
        is_last = self._refused is not None and most == self._refused[0]
        return most if is_large or is_last else first

    def _cut(self, first: int, end: int) -> ChangeShare:
        """The changes from one number up to another."""
        messages = self._messages[first - self._first : end - self._first]
        place, lsns, times = ChangePlace(self._reached), [], []
        counts = []
        for each in self._between(first, end):
            upto = min(end, _end(each))
            counts.append(upto - max(first, each.first))
            lsns.append(each.begin.lsn)
            times.append(each.begin.time)
            whole = each.end is not None and upto == each.last
            before = each.before
            place = ChangePlace(each.end or 0) if whole else ChangePlace(before.lsn, before.changes + upto - each.first)
        lsn_of_each, time_of_each = np.repeat(np.array(lsns), counts), np.repeat(np.array(times), counts)
        lengths = np.array([len(each) for each in messages], np.int64)
        runs = tuple(
            ChangeRun(
                relation,
                b"".join(_taken(messages, places)),
                places.tobytes(),
                lengths[places].tobytes(),
                lsn_of_each[places].tobytes(),
                time_of_each[places].tobytes(),
                len(places),
            )
            for places, relation in self._stretches(first, end, messages)
        )
        return ChangeShare(runs, place, len(messages), int(lengths.sum()))

    def _between(self, first: int, end: int) -> Iterator[_Transaction]:
        """The transactions with changes from one number up to another."""
        start = bisect.bisect_right(self._transactions, first, key=_end)
        return itertools.takewhile(lambda each: each.first < end, self._transactions[start:])

    def _stretches(
        self, first: int, end: int, messages: Sequence[bytes]
    ) -> Iterator[tuple[np.ndarray[Any, np.dtype[np.int64]], PostgresRelation]]:
        """The places of changes of each table, as long as it has the same columns, among those up to a number."""
        ids = [relation.relation_id for _, relation in self._relations]
        relation_ids = np.array([relation_id_of(each) for each in messages]) if len(set(ids)) > 1 else None
        for at, (start, relation) in enumerate(self._relations):
            later = (self._relations[place][0] for place in range(at + 1, len(ids)) if ids[place] == ids[at])
            places = np.arange(max(start, first), min(next(later, end), end)) - first
            if relation_ids is not None:
                places = places[relation_ids[places] == relation.relation_id]
            if len(places):
                yield places, relation

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        import psycopg

        failing_since: float | None = None
        while not self._closing.is_set() and self._error is None and self._refused is None:
            taken = self._first + len(self._messages)
            try:
                self._receive()
                failing_since = None
            except (psycopg.Error, InfrastructureError) as error:
                what = f"changes of table {self._table}"
                fault = error if isinstance(error, HeadraceError) else error_of(error, what)
                if taken < self._first + len(self._messages):
                    failing_since = None
                failing_since = failing_since or time.monotonic()
                is_over = (time.monotonic() - failing_since) * 1000 > self._server.timeout
                if is_over or not isinstance(fault, InfrastructureError):
                    self._fail(fault)
                    return
                logger.warning("%s; connecting again", fault)
                self._closing.wait(_RETRY_SECONDS)
            except HeadraceError as error:
                self._fail(error)
                return
            except Exception as error:
                self._fail(InfrastructureError(f"changes of table {self._table}: {type(error).__name__}: {error}"))
                raise

    def _fail(self, error: HeadraceError) -> None:
        with self._changed:
            self._error = error

    def _receive(self) -> None:
        """Take over what comes, until the session ends."""
        with closing(self._server.connect(f"changes of {self._table}", replication=True)) as connection:
            self._begin(connection)
            sent = 0.0
            while not self._closing.is_set():
                if time.monotonic() - sent >= _STATUS_SECONDS:
                    self._send_status(connection)
                    sent = time.monotonic()
                with self._changed:
                    waits = self._is_full or self._refused is not None
                    if waits:
                        self._changed.wait(_WAIT_SECONDS)
                if not waits and not self._take_over(connection):
                    select.select([connection.pgconn.socket], [], [], _WAIT_SECONDS)
                    connection.pgconn.consume_input()
            self._send_status(connection)

    def _begin(self, connection: Connection) -> None:
        """Start the session where the last one ended, or at the first place."""
        system = identified(connection)
        if system != self._system:
            raise other_server(self._server, self._system, system)
        with self._changed:
            last = self._transactions[-1] if self._transactions else None
            if last is not None and last.last is None:  # of it, some was taken over
                taken = self._first + len(self._messages) - last.first
                self._next = ChangePlace(last.before.lsn, last.before.changes + taken)
            elif last is not None:
                self._next = ChangePlace(last.end or 0)
            if not self._next.changes:
                self._next = ChangePlace(max(self._next.lsn, self._reached))
            self._to_skip = self._next.changes
            self._open = None
        self._current.clear()
        self._others.clear()
        command = (
            f"START_REPLICATION SLOT {quoted(self._table.slot)} LOGICAL {lsn_text(self._next.lsn)} "
            f"(proto_version '1', publication_names {literal(quoted(self._table.publication))})"
        )
        from psycopg.pq import ExecStatus

        result = connection.pgconn.exec_(command.encode())
        if result.status != ExecStatus.COPY_BOTH:
            text = result.error_message.decode(errors="replace").strip()
            raise InfrastructureError(f"changes of table {self._table}: {text}")
        connection.pgconn.nonblocking = 1

    def _send_status(self, connection: Connection) -> None:
        """Tell the server how far its log is not needed any more, and ask it how far it has come."""
        status = _STATUS.pack(b"r", max(self._reached, self._confirmed), self._confirmed, self._confirmed, 0, 1)
        connection.pgconn.put_copy_data(status)
        connection.pgconn.flush()

    def _take_over(self, connection: Connection) -> bool:
        """Take over the messages that are there; whether there were any."""
        get = connection.pgconn.get_copy_data
        messages: list[bytes] = []
        while len(messages) < _BATCH:
            count, data = get(1)
            if count == 0:
                break
            if count < 0:
                result = connection.pgconn.get_result()
                text = result.error_message.decode(errors="replace").strip() if result is not None else ""
                raise InfrastructureError(
                    f"changes of table {self._table}: {text or 'the server has ended the session'}"
                )
            messages.append(bytes(data))
        with self._changed:
            for message in messages:
                if self._refused is None:
                    self._handle(message)
        return bool(messages)

    def _handle(self, message: bytes) -> None:
        if message[0] == _DATA:
            kind = message[_HEADER]
            if kind in _CHANGES:
                self._add_change(message[_HEADER:])
            else:
                handler = self._handlers.get(kind)
                if handler is not None:
                    handler(self, message[_HEADER:])
        elif message[0] == _KEEPALIVE and self._open is None:
            self._reached = max(self._reached, _ALIVE.unpack_from(message)[0])

    def _begin_transaction(self, message: bytes) -> None:
        self._open = Begin.parse(message)
        self._has_skipped = False

    def _add_change(self, message: bytes) -> None:
        if relation_id_of(message) not in self._current:
            return
        assert self._open is not None
        if self._to_skip:
            self._to_skip -= 1
            self._has_skipped = True
            return
        last = self._transactions[-1] if self._transactions else None
        if last is None or last.begin != self._open:
            self._transactions.append(_Transaction(self._first + len(self._messages), self._open, self._next))
        self._bytes_upto.append(self._bytes_at(len(self._messages)) + len(message))
        self._messages.append(message)

    def _end_transaction(self, message: bytes) -> None:
        end = end_of_commit(message)
        last = self._transactions[-1] if self._transactions else None
        if last is not None and last.begin == self._open and last.last is None:
            last.end, last.last = end, self._first + len(self._messages)
        if self._to_skip and self._has_skipped and self._open is not None:
            self._refuse(
                SourceChangedError(
                    f"table {self._table}: the transaction that was committed at {lsn_text(self._open.lsn)} has "
                    f"{self._to_skip} changes less than before: the publication {self._table.publication!r} was "
                    "changed while the job had read a part of it. Start the job without its checkpoints"
                )
            )
        self._open, self._next = None, ChangePlace(end)
        self._reached = max(self._reached, end)

    def _take_relation(self, message: bytes) -> None:
        relation = PostgresRelation.parse(message)
        table = self._tables.get((relation.schema, relation.table))
        if table is None:
            self._others.add(relation.relation_id)
            return
        try:
            table.check_relation(relation)
        except HeadraceError as error:
            self._refuse(error)
            return
        # A table that was made again has another id than before
        others = {
            key: each for key, each in self._current.items() if (each.schema, each.table) != (table.schema, table.table)
        }
        self._current = {**others, relation.relation_id: relation}
        known = (each for _, each in reversed(self._relations) if each.relation_id == relation.relation_id)
        if next(known, None) != relation:
            self._relations.append((self._first + len(self._messages), relation))

    def _truncate(self, message: bytes) -> None:
        truncated = truncated_relations(message)
        is_ours = any(each in self._current or each not in self._others for each in truncated)
        if is_ours and not self._to_skip:
            ours = [f"{each.schema}.{each.table}" for key, each in self._current.items() if key in truncated]
            self._refuse(
                SourceChangedError(
                    f"table {', '.join(ours) or self._table} was truncated: PostgreSQL does not tell which rows are "
                    "gone. Delete rows by DELETE instead; or start the job without its checkpoints, to read the "
                    "table anew"
                )
            )

    def _refuse(self, error: HeadraceError) -> None:
        """Read no further: what was read before is still given out."""
        self._refused = (self._first + len(self._messages), error)

    _handlers: Final = {
        BEGIN: _begin_transaction,
        COMMIT: _end_transaction,
        RELATION: _take_relation,
        TRUNCATE: _truncate,
    }


def _taken(messages: Sequence[bytes], places: np.ndarray[Any, np.dtype[np.int64]]) -> Sequence[bytes]:
    """The messages at some places, which are in order and often without gaps."""
    first, last = int(places[0]), int(places[-1])
    if last - first + 1 == len(places):
        return messages[first : last + 1]
    return [messages[at] for at in places.tolist()]


def _end(transaction: _Transaction) -> Any:
    """The number behind the last change of a transaction; infinite while not all of it has come."""
    return float("inf") if transaction.last is None else transaction.last


def identified(connection: Connection) -> str:
    """The id of the server of a session that speaks the replication protocol, which is unique."""
    row = connection.execute("IDENTIFY_SYSTEM").fetchone()
    assert row is not None
    return row[0].decode() if isinstance(row[0], bytes) else str(row[0])


def other_server(server: PostgresServer, known: str, found: str) -> SourceChangedError:
    """The error about a server that is another one than the job has read."""
    return SourceChangedError(
        f"PostgreSQL at {server} is not the server that the job has read (its system identifier is {found}, and was "
        f"{known}): places in its log mean something else. Start the job without its checkpoints"
    )
