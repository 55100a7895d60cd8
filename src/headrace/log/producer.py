"""``Producer``: adds records to a log."""

from __future__ import annotations

import random
import threading
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from headrace.common.errors import InvalidProgramError, InvalidTypeError, LogError, UnknownTopicError
from headrace.log.commits import Author, Commit
from headrace.log.groups import CommittedOffset
from headrace.log.log import Log
from headrace.log.outbox import SentBatch, bases_of, merged
from headrace.log.partitioner import Partitioner
from headrace.log.records import RecordMetadata, TopicPartition, batches_of, checked_headers, normalised
from headrace.log.staging import StagedRecordsError, discard, publish, stage
from headrace.log.state import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    import pyarrow as pa

    from headrace.log.staging import Staged
    from headrace.log.state import LogState

_BATCH_BYTES: Final = 16 << 20
"""A batch with so much does not linger."""

_RECORD_BYTES: Final = 256
"""What a record counts besides its value, so that a batch has 65,536 at most."""

_MAX_RECORD_BYTES: Final = 1 << 30

_FULL_BATCHES: Final = 4
"""How many full batches wait before ``send`` does."""


class Delivery(tuple["Producer", SentBatch, int]):
    """What becomes of a record that was sent."""

    __slots__ = ()  # a tuple, as it is made for each record

    def done(self) -> bool:
        """Whether the record is committed."""
        return self[1].is_committed

    def result(self) -> RecordMetadata:
        """Where the record has come to be; it is committed first, if it is not yet.

        Raises:
            UnknownTopicError: when its topic was deleted before it was committed.
            LogError: when it is part of a transaction that has not been committed.
            OSError: when it cannot be committed.
        """
        producer, batch, row = self
        if not batch.is_committed and batch.error is None:
            producer.flush()
        if batch.error is not None:
            raise batch.error
        if not batch.is_committed:
            raise LogError("the record is part of a transaction that has not been committed")
        return batch.metadata(row)


@dataclass(slots=True)
class _Written:
    """Records on their way.

    Attributes:
        staged: where they are.
        batches: what they were sent as, and how many of each are in which partition.
        author: of the commit that was tried; None before.
    """

    staged: list[Staged]
    batches: list[tuple[SentBatch, list[tuple[TopicPartition, int]]]]
    author: Author | None = None


class Producer:
    """Adds records to a log. Several threads may use one.

    Records are committed together: when there are many, after they have lingered, or by :meth:`flush`. What was sent
    and not committed when the process ends is lost; :meth:`close`, or a ``with`` statement, commits it.

    Args:
        log: the log, or its location.
        transactional_id: makes it a producer of transactions. Whoever begins with the same id later fences this one.
        linger_ms: how long a record may wait for others, in milliseconds.

    Examples:
        >>> import pyarrow as pa
        >>> from headrace.log import Log, Producer
        >>> log = Log.open("accounts.log", create=True)
        >>> log.create_topic("bookings", partitions=4)
        >>> with Producer(log) as producer:
        ...     _ = producer.send("bookings", b"+5.00", key=b"ann")
        ...     producer.append("bookings", pa.table({"key": ["bob", "cid"], "value": ["-2.00", "+7.50"]}))

        Both or neither:

        >>> with Producer(log, transactional_id="transfers") as producer:
        ...     producer.begin_transaction()
        ...     _ = producer.send("bookings", b"-9.50", key=b"ann")
        ...     _ = producer.send("bookings", b"+9.50", key=b"bob")
        ...     producer.commit_transaction()
        >>> log.read("bookings").read_all().num_rows
        5
    """

    def __init__(self, log: Log | str, transactional_id: str | None = None, *, linger_ms: int = 50) -> None:
        if transactional_id is not None and (not transactional_id or transactional_id.startswith(ANONYMOUS)):
            raise InvalidProgramError(
                f"{transactional_id!r} is no transactional id: one is not empty, nor begins with ~"
            )
        self._journal = Log.open(log).journal
        self._transactional_id = transactional_id
        self._linger = linger_ms / 1000
        self._author = Author(transactional_id or f"{ANONYMOUS}{uuid.uuid4().hex}")
        self._partitioner = Partitioner(random.randrange(1 << 16))
        self._clock = self._journal.clock

        self._delivering = threading.RLock()  # taken before the other one
        self._written: _Written | None = None
        self._offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}

        self._lock = threading.Lock()
        self._waits = threading.Condition(self._lock)
        self._queue: list[SentBatch] = []
        self._open: SentBatch | None = None
        self._size = 0
        self._error: BaseException | None = None
        self._refused: UnknownTopicError | None = None
        self._sender: threading.Thread | None = None
        self._closed = False
        self._in_transaction = False
        self._initialised = False

    # --- records -----------------------------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery:
        """Add a record.

        Args:
            topic: the topic.
            value: None says, in a topic that is compacted, that the key is deleted.
            key: decides the partition, as in Kafka; records without one take turns.
            headers: names and values.
            partition: the partition, whatever the key.
            timestamp: in milliseconds; now if left out.

        Raises:
            UnknownTopicError: when there is no such topic or partition.
            InvalidTypeError: when key or value are no bytes or too large, or a topic that is compacted needs a key.
            OSError: when records that were sent before cannot be committed.
        """
        if (value is not None and type(value) is not bytes) or (key is not None and type(key) is not bytes):
            raise InvalidTypeError(
                f"key and value of a record are bytes or None, not {key!r} and {value!r}: encode() text first"
            )
        size = _RECORD_BYTES if value is None else _RECORD_BYTES + len(value)
        if key is not None:
            size += len(key)
        if size > _MAX_RECORD_BYTES:
            raise InvalidTypeError(f"a record of {size} bytes is too large for a log, which takes 1 GiB at most")
        with self._lock:
            batch = self._open
            if batch is None or batch.topic != topic:
                batch = self._open_batch(topic)
            if key is None and batch.needs_keys:
                raise _without_key(topic)
            row = len(batch.values)
            if timestamp is None:
                timestamp = self._clock()
            elif type(timestamp) is not int or not -(1 << 63) <= timestamp < 1 << 63:
                raise InvalidTypeError(f"the timestamp of a record is milliseconds as an integer, not {timestamp!r}")
            if headers or partition is not None:
                self._add_details(batch, headers, partition)
            batch.timestamps.append(timestamp)
            batch.keys.append(key)
            batch.values.append(value)
            self._size += size
            if self._size >= _BATCH_BYTES:
                self._wait_for_room()
        return Delivery((self, batch, row))

    def append(self, topic: str, data: pa.RecordBatch | pa.Table, partition: int | None = None) -> None:
        """Add records in columns.

        Args:
            topic: the topic.
            data: the columns ``value`` and, where there are such, ``key``, ``timestamp`` and ``headers``.
            partition: the partition of all; when left out, their keys decide.

        Raises:
            UnknownTopicError: when there is no such topic or partition.
            InvalidTypeError: when the columns do not fit, or a topic that is compacted needs keys.
            OSError: when records that were sent before cannot be committed.
        """
        now = self._clock()
        batches = [normalised(batch, now) for batch in batches_of(data)]
        with self._lock:
            self._check_ready()
            needs_keys = self._is_compacted(topic)
            if needs_keys and any(columns.column("key").null_count for columns in batches):
                raise _without_key(topic)
            if partition is not None:
                self._checked_partition(topic, partition)
            if not data.num_rows:
                return
            self._open = None
            for columns in batches:
                self._queue.append(SentBatch(topic, columns, partition))
                self._size += columns.nbytes + _RECORD_BYTES * columns.num_rows
            self._start()
            if self._size >= _BATCH_BYTES:
                self._wait_for_room()

    def flush(self) -> None:
        """Commit all that was sent; within a transaction, write it.

        Raises:
            ProducerFencedError: when somebody else has taken over the transactional id.
            OSError: when it cannot be committed. It may have been all the same; calling again does not do it twice.
        """
        with self._waits:
            self._error = None
        self._deliver()
        with self._waits:
            self._waits.notify_all()

    def close(self) -> None:
        """Commit all that was sent, or abort the transaction; closing it again does nothing.

        Raises:
            OSError: when it cannot be committed.
        """
        if self._closed:
            return
        if self._in_transaction:
            self.abort_transaction()
        self.flush()
        with self._waits:
            self._closed = True
            self._open = None
            self._waits.notify_all()
        if self._sender is not None:
            self._sender.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # --- transactions ------------------------------------------------------------------------------------------------

    def init_transactions(self) -> None:
        """Take over the transactional id: whoever had it is fenced. The first transaction does so by itself.

        Raises:
            OSError: when that cannot be done.
        """
        producer = self._needed_id()

        def describe(state: LogState) -> Commit:
            known = state.producers.get(producer)
            author = Author(producer, known.epoch + 1 if known else 0)
            return Commit(author, self._journal.clock())

        with self._delivering:
            known = self._journal.commit(None, describe)
            self._author = Author(producer, known.epoch)
            self._initialised = True

    def begin_transaction(self) -> None:
        """Begin a transaction: what is sent from now on is committed together, or not at all.

        Raises:
            InvalidProgramError: when there is a transaction already, or no transactional id.
        """
        self._needed_id()
        if self._in_transaction:
            raise InvalidProgramError("there is a transaction already: commit it or abort it first")
        if not self._initialised:
            self.init_transactions()
        self._in_transaction = True

    def send_offsets_to_transaction(self, offsets: Mapping[TopicPartition, int], group: str) -> None:
        """Commit offsets of a consumer group together with the transaction.

        Args:
            offsets: of the next records to read.
            group: the group.
        """
        self._needed_transaction()
        now = self._journal.clock()
        mine = self._offsets.setdefault(group, {})
        mine.update({partition: CommittedOffset(offset, "", now) for partition, offset in offsets.items()})

    def commit_transaction(self) -> None:
        """Make all visible that was sent since the transaction began.

        Raises:
            ProducerFencedError: when somebody else has taken over the transactional id.
            OSError: when it cannot be committed. It may have been all the same; calling again does not do it twice.
        """
        self._needed_transaction()
        with self._delivering:
            self.flush()
            written = self._written or _Written([], [])
            if written.staged or self._offsets:
                self._commit(written)
            self._end_transaction()

    def abort_transaction(self) -> None:
        """Forget all that was sent since the transaction began.

        Raises:
            LogError: when the transaction was committed, which :meth:`commit_transaction` could not tell.
            OSError: when it is not known whether it was.
        """
        self._needed_transaction()
        with self._delivering:
            with self._waits:
                self._take_all()
                self._waits.notify_all()
            written = self._written
            if written is not None and written.author is not None:
                self._give_up(written.author)
            self._end_transaction()
            if written is not None:
                discard(self._journal, written.staged)

    def _give_up(self, author: Author) -> None:
        """See to it that a commit whose answer never came is not done after all: another takes its place."""
        known = self._journal.commit(author, lambda _: Commit(author, self._journal.clock()))
        if known.placed:
            raise LogError("the transaction was committed, though the answer was lost: it cannot be aborted any more")

    def _end_transaction(self) -> None:
        self._written = None
        self._offsets = {}
        self._refused = None
        self._in_transaction = False
        with self._lock:
            self._open = None

    def _needed_id(self) -> str:
        if self._transactional_id is None:
            raise InvalidProgramError("transactions need a transactional id: Producer(log, transactional_id=…)")
        return self._transactional_id

    def _needed_transaction(self) -> None:
        self._needed_id()
        if not self._in_transaction:
            raise InvalidProgramError("there is no transaction: begin_transaction() begins one")

    # --- inside ------------------------------------------------------------------------------------------------------

    def _is_compacted(self, topic: str) -> bool:
        """Whether a topic is compacted.

        Raises:
            UnknownTopicError: when there is no such topic.
        """
        with self._journal.lock:
            if topic not in self._journal.state().topics:
                self._journal.refresh()
            return self._journal.state().topic(topic).config.compacts

    def _checked_partition(self, topic: str, partition: int) -> int:
        with self._journal.lock:
            self._journal.state().partition(TopicPartition(topic, partition))
        return partition

    def _check_ready(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            self._waits.notify_all()
            raise error
        if self._closed:
            raise InvalidProgramError("the producer is closed")
        if self._transactional_id is not None and not self._in_transaction:
            raise InvalidProgramError(
                "a producer with a transactional id sends within transactions: begin_transaction()"
            )
        if self._in_transaction and self._written is not None and self._written.author is not None:
            raise InvalidProgramError(
                "the transaction may have been committed: call commit_transaction() again, or abort_transaction(), "
                "before anything else is sent"
            )

    def _open_batch(self, topic: str) -> SentBatch:
        """A batch for records of a topic."""
        self._check_ready()
        batch = SentBatch(topic, needs_keys=self._is_compacted(topic))
        self._open = batch
        self._queue.append(batch)
        self._start()
        return batch

    def _add_details(
        self, batch: SentBatch, headers: Sequence[tuple[str, bytes | None]], partition: int | None
    ) -> None:
        """What not every record has, of the next one of a batch; nothing of it if anything is wrong."""
        found = checked_headers(headers)
        row = len(batch)
        if partition is not None:
            batch.partitions[row] = self._checked_partition(batch.topic, partition)
        if found:
            batch.headers[row] = found

    def _take_all(self) -> tuple[list[SentBatch], int]:
        """All that waits, and how large it is; nothing waits then."""
        taken, size = [batch for batch in self._queue if len(batch)], self._size
        self._queue, self._size, self._open = [], 0, None
        return taken, size

    def _start(self) -> None:
        """Have records delivered after they have lingered."""
        if self._sender is None:
            self._sender = threading.Thread(target=self._send_lingering, name="headrace-producer", daemon=True)
            self._sender.start()
        self._waits.notify_all()

    def _wait_for_room(self) -> None:
        self._waits.notify_all()
        if self._size >= _FULL_BATCHES * _BATCH_BYTES:
            self._open = None  # what is added later is for the next batch: one has 2 GiB in a column at most
            self._waits.wait_for(
                lambda: self._size < _FULL_BATCHES * _BATCH_BYTES or self._error is not None or self._closed
            )

    def _send_lingering(self) -> None:
        while True:
            with self._waits:
                self._waits.wait_for(lambda: (self._queue and self._error is None) or self._closed)
                self._waits.wait_for(self._is_full, self._linger)
                if self._closed:
                    return
            try:
                self._deliver()
            except Exception as error:  # told by the next call
                with self._waits:
                    self._error = error
                    self._open = None  # so that the next record is told
                    self._waits.notify_all()

    def _is_full(self) -> bool:
        return self._closed or self._size >= _BATCH_BYTES

    def _deliver(self) -> None:
        """Write all that waits, and commit it unless there is a transaction."""
        with self._delivering:
            if not self._in_transaction:
                self._commit_written()
            with self._waits:
                taken, size = self._take_all()
            if not taken:
                self._tell_refused()
                return
            try:
                written = self._write(taken)
            except BaseException:
                with self._waits:
                    self._queue = taken + self._queue
                    self._size += size
                raise
            finally:
                with self._waits:
                    self._waits.notify_all()
            so_far = self._written or _Written([], [])
            self._written = _Written(so_far.staged + written.staged, so_far.batches + written.batches)
            if not self._in_transaction:
                self._commit_written()
            self._tell_refused()

    def _commit_written(self) -> None:
        """Commit what was written, but for records of topics that were deleted meanwhile.

        What is not there any more, as an older copy of the log has taken its place, is written again.
        """
        while self._written is not None and self._written.batches:
            written = self._written
            try:
                self._commit(written)
            except (UnknownTopicError, StagedRecordsError):
                for batch, _ in written.batches:
                    batch.forget_partitions()
                self._written = self._write([batch for batch, _ in written.batches])
                discard(self._journal, written.staged)
            else:
                break
        self._written = None

    def _tell_refused(self) -> None:
        """Say once that records were refused; within a transaction whenever it is to be committed."""
        error = self._refused
        if error is None:
            return
        if not self._in_transaction:
            self._refused = None
        raise error

    def _write(self, batches: list[SentBatch]) -> _Written:
        """Write records, but for those of topics or partitions that are not there any more."""
        pieces = list[tuple[TopicPartition, "pa.RecordBatch"]]()
        counts = []
        for batch in batches:
            try:
                with self._journal.lock:
                    partitions = len(self._journal.state().topic(batch.topic).partitions)
                mine = batch.pieces(partitions, self._partitioner)
            except UnknownTopicError as error:
                batch.error = self._refused = error
                continue
            pieces += mine
            counts.append((batch, [(partition, columns.num_rows) for partition, columns in mine]))
        return _Written(stage(self._journal, merged(pieces)), counts)

    def _commit(self, written: _Written) -> None:
        if written.author is None:
            self._author = Author(self._author.producer, self._author.epoch, self._author.sequence + 1)
            written.author = self._author
            self._written = written
        known = publish(self._journal, written.author, written.staged, self._offsets)
        firsts = dict[TopicPartition, int]()
        for topic, partition, base, _ in known.placed:
            firsts.setdefault(TopicPartition(topic, partition), base)
        bases_of(written.batches, firsts)


def _without_key(topic: str) -> InvalidTypeError:
    return InvalidTypeError(
        f"topic {topic!r} is compacted to the latest value of each key: every record needs one, and one has none"
    )
