"""``Producer``: adds records to a log; a thread beside it commits what has waited long enough."""

import os
import random
import threading
import uuid
import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from headrace.common.errors import (
    ConfigurationError,
    InvalidProgramError,
    InvalidTypeError,
    LogError,
    UnknownTopicError,
)
from headrace.common.messages import TopicPartition, checked_headers
from headrace.log.accumulator import (
    GROWTH_BYTES,
    RECORD_BYTES,
    DefaultPartitioner,
    Details,
    ProducerBatch,
    RecordAccumulator,
    bases_of,
    merged,
)
from headrace.log.commits import ANONYMOUS, Author, Commit, LogState
from headrace.log.groups import GroupMetadata
from headrace.log.journal import StagedFor, tag_of
from headrace.log.log import Log
from headrace.log.membership import may_commit
from headrace.log.records import RecordMetadata, batches_of, normalised
from headrace.log.transactions import Staged, StagedRecordsError, discard, publish, stage

_MAX_RECORD_BYTES: Final = 1 << 30


class Delivery(tuple["Producer", ProducerBatch, int]):
    """A record that was sent, and its place in the log once it is committed."""

    __slots__ = ()  # a tuple, as it is made for each record: the producer, the batch, the place in that

    def done(self) -> bool:
        """Tell whether the record is committed."""
        return self[1].is_committed

    def result(self) -> RecordMetadata:
        """The place of the record in the log; it is committed first, if it is not yet.

        Raises:
            UnknownTopicError: when its topic was deleted before it was committed.
            LogError: when it is part of a transaction that has not been committed.
            OSError: when it cannot be committed.
        """
        producer, batch, place = self
        if not batch.is_committed and batch.error is None:
            producer.flush()
        if batch.error is not None:
            raise batch.error
        if not batch.is_committed:
            raise LogError("the record is part of a transaction that has not been committed")
        return batch.metadata(place)


_NO_BATCH: Final = ProducerBatch("")
_NO_BATCH.seal()


class _OwnBatch(threading.local):
    """The batch that a thread adds records to."""

    batch = _NO_BATCH


class Producer:
    """Adds records to a log. Several threads may use one, but no fork of the process that made it.

    Records are committed together: when there are many, after they have lingered, or by :meth:`flush`. What was sent
    and not committed when the process ends is lost; :meth:`close`, or a ``with`` statement, commits it.

    Args:
        log: the log, or its location.
        transactional_id: makes it a producer of transactions. One that begins with the same id later fences this one.
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
        if linger_ms < 0:
            raise ConfigurationError(f"linger_ms is {linger_ms}; expected 0 milliseconds or more")
        self._journal = Log.open(log).journal
        if transactional_id is not None and (not transactional_id or transactional_id.startswith(ANONYMOUS)):
            raise InvalidProgramError(
                f"{transactional_id!r} is no transactional id: one is not empty, nor begins with ~"
            )
        self._clock = self._journal.clock
        self._own = _OwnBatch()
        self._accumulator = RecordAccumulator(linger_ms / 1000)
        self._partitioner = DefaultPartitioner(random.randrange(1 << 16))
        self._transactional_id = transactional_id
        self._author = Author(transactional_id or f"{ANONYMOUS}{uuid.uuid4().hex}")
        self._is_initialised = False
        self._in_transaction = False
        self._offsets: list[tuple[GroupMetadata, dict[TopicPartition, int]]] = []
        """The offsets that groups commit with the transaction, and on whose behalf."""
        self._delivering = threading.RLock()
        """Only the holder may write and commit."""
        self._staged: list[Staged] = []
        """Records that are written and not committed."""
        self._batches: list[tuple[ProducerBatch, list[tuple[TopicPartition, int]]]] = []
        """The records that were sent, and how many of each are in which partition."""
        self._tried: Author | None = None
        """The author of their commit, once that was tried: whether it was done may not be known."""
        self._refused: UnknownTopicError | None = None
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._process = os.getpid()
        _PRODUCERS.add(self)

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
        batch = self._own.batch
        if batch.is_sealed or batch.topic != topic:
            batch = self._begin_batch(topic)
        if type(value) is bytes and type(key) is bytes:  # as a rule: a call would take a tenth of all that send() does
            size = RECORD_BYTES + len(value) + len(key)
        else:
            size = _checked_size(batch, value, key)
        if size > _MAX_RECORD_BYTES:
            raise InvalidTypeError(f"a record of {size} bytes is too large for a log, which takes 1 GiB at most")
        timestamp = self._clock() if timestamp is None else _checked_timestamp(timestamp)
        details = self._details(topic, headers, partition) if headers or partition is not None else None
        records = batch.records
        place = len(records)
        records += (timestamp, key, value, details)
        batch.size += size
        if batch.is_sealed and self._accumulator.has_missed(batch, place):
            return self.send(topic, value, key, headers, partition, timestamp)
        if batch.size >= GROWTH_BYTES:
            self._accumulator.has_grown(batch)
        return Delivery((self, batch, place))

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
        self._check_may_send()
        if self._is_compacted(topic) and any(columns.column("key").null_count for columns in batches):
            raise _without_key(topic)
        if partition is not None:
            self._checked_partition(topic, partition)
        if data.num_rows:
            self._own.batch = _NO_BATCH
            size = sum(columns.nbytes + RECORD_BYTES * columns.num_rows for columns in batches)
            self._start()  # first: it makes room
            self._accumulator.add([ProducerBatch(topic, columns, partition) for columns in batches], size)

    def flush(self) -> None:
        """Commit all that was sent; within a transaction, write it.

        Raises:
            ProducerFencedError: when another producer has taken over the transactional id.
            OSError: when it cannot be committed. It may have been all the same; calling again does not do it twice.
        """
        self._check_process()
        self._accumulator.fail(None)
        self._deliver()

    def close(self) -> None:
        """Commit all that was sent, or abort the transaction; closing it again does nothing.

        In a fork of the process that made it nothing is done either: that process commits what was sent.

        Raises:
            OSError: when it cannot be committed.
        """
        if self._closed or self._process != os.getpid():
            return
        if self._in_transaction:
            self.abort_transaction()
        self.flush()
        self._closed = True
        self._accumulator.close()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # --- transactions ------------------------------------------------------------------------------------------------

    def init_transactions(self) -> None:
        """Take over the transactional id: its predecessor is fenced. The first transaction does so by itself.

        Raises:
            InvalidProgramError: when there is none.
            OSError: when that cannot be done.
        """
        self._check_process()
        with self._delivering:
            producer = self._needed_id()

            def next_epoch(state: LogState) -> Author:
                known = state.producers.get(producer)
                return Author(producer, known.epoch + 1 if known else 0)

            self._author = Author(producer, self._journal.commit(next_epoch).epoch)
            self._is_initialised = True

    def begin_transaction(self) -> None:
        """Begin a transaction: what is sent from now on is committed together, or not at all.

        Raises:
            InvalidProgramError: when there is a transaction already, or no transactional id.
        """
        self._check_process()
        with self._delivering:
            self._needed_id()
            if self._in_transaction:
                raise InvalidProgramError("there is a transaction already: commit it or abort it first")
            if not self._is_initialised:
                self.init_transactions()
            self._in_transaction = True

    def send_offsets_to_transaction(self, offsets: Mapping[TopicPartition, int], group: GroupMetadata | str) -> None:
        """Commit offsets of a consumer group together with the transaction.

        Args:
            offsets: of the next records to read.
            group: what :meth:`Consumer.group_metadata` gives. A member that was away for so long that others have its
                partitions then commits neither offsets nor records. A group that has no members may be named.

        Raises:
            CommitFailedError: when others have a partition by now; the transaction can only be aborted.
            OSError: when the log cannot be read.
        """
        self._check_transaction()
        self._offsets.append((GroupMetadata(group) if isinstance(group, str) else group, dict(offsets)))
        self._journal.look(self._checked_offsets)

    def commit_transaction(self) -> None:
        """Make all visible that was sent since the transaction began.

        Raises:
            ProducerFencedError: when another producer has taken over the transactional id.
            CommitFailedError: when others have a partition by now whose offset is to be committed with it.
            OSError: when it cannot be committed. It may have been all the same; calling again does not do it twice.
        """
        self._check_transaction()
        with self._delivering:
            self.flush()
            if self._staged or self._offsets:
                self._commit()
            self._end_transaction()

    def abort_transaction(self) -> None:
        """Forget all that was sent since the transaction began.

        Raises:
            LogError: when the transaction was committed, which :meth:`commit_transaction` could not tell.
            OSError: when it is not known whether it was.
        """
        self._check_transaction()
        with self._delivering:
            self._accumulator.take()
            if self._tried is not None:
                self._give_up(self._tried)
            staged = self._staged
            self._end_transaction()
            discard(self._journal, staged)

    def _checked_offsets(self, state: LogState) -> dict[str, dict[TopicPartition, int]]:
        """By group, how far it comes with the transaction.

        Raises:
            CommitFailedError: when others have a partition by now.
        """
        found = dict[str, dict[TopicPartition, int]]()
        for group, offsets in self._offsets:
            found.setdefault(group.group_id, {}).update(may_commit(group, offsets, state))
        return found

    def _give_up(self, author: Author) -> None:
        """See to it that a commit whose answer never came is not done after all: another takes its place.

        Raises:
            LogError: when it was done.
        """
        later = author._replace(sequence=author.sequence + 1)

        def unless_done(commit: Commit, state: LogState) -> Commit:
            known = state.producers.get(author.producer)
            if known is not None and (known.epoch, known.sequence) == (author.epoch, author.sequence):
                raise LogError(
                    "the transaction was committed, though the answer was lost: it cannot be aborted any more"
                )
            return commit

        self._journal.commit(later, unless_done)
        self._author = later

    def _end_transaction(self) -> None:
        self._forget_written()
        self._refused = None
        self._offsets = []
        self._in_transaction = False
        self._accumulator.seal()

    def _needed_id(self) -> str:
        if self._transactional_id is None:
            raise InvalidProgramError("transactions need a transactional id: Producer(log, transactional_id=…)")
        return self._transactional_id

    # --- inside: delivery --------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Have records be delivered by themselves once they have lingered."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._deliver_lingering, name="headrace-producer", daemon=True)
                self._thread.start()

    def _deliver_lingering(self) -> None:
        while self._accumulator.wait_until_due():
            try:
                self._deliver()
            except Exception as error:  # raised by the next call
                self._accumulator.fail(error)

    def _deliver(self) -> None:
        """Write all that waits, and commit it unless there is a transaction.

        Raises:
            UnknownTopicError: when there were records of topics or partitions that there are not any more.
            OSError: when it cannot be written or committed; it is tried again by the next call.
        """
        with self._delivering:
            if not self._in_transaction:
                self._commit_written()
            batches, size = self._accumulator.take()
            if batches:
                try:
                    staged, counts = self._write(batches)
                except BaseException:
                    self._accumulator.put_back(batches, size)
                    raise
                self._staged += staged
                self._batches += counts
                if not self._in_transaction:
                    self._commit_written()
            self._tell_refused()

    def _write(
        self, batches: list[ProducerBatch]
    ) -> tuple[list[Staged], list[tuple[ProducerBatch, list[tuple[TopicPartition, int]]]]]:
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
        # In a transaction the files are all there is of the records; otherwise they wait in memory as well.
        author = self._next_author()
        staged_for = StagedFor(tag_of(author.producer), author.epoch, author.sequence) if self._in_transaction else None
        return stage(self._journal, merged(pieces), staged_for), counts

    def _commit_written(self) -> None:
        """Commit what was written, but for records of topics that were deleted meanwhile.

        What is not there any more, as an older copy of the log has taken its place, is written again.
        """
        while self._batches:
            try:
                self._commit()
            except (UnknownTopicError, StagedRecordsError):
                former = self._staged
                for batch, _ in self._batches:
                    batch.forget_partitions()
                self._staged, self._batches = self._write([batch for batch, _ in self._batches])
                self._tried = None
                discard(self._journal, former)
            else:
                break
        self._forget_written()

    def _commit(self) -> None:
        if self._tried is None:
            self._author = self._tried = self._next_author()
        known = publish(self._journal, self._tried, self._staged, self._checked_offsets)
        firsts = dict[TopicPartition, int]()
        for topic, partition, base, _ in known.placed:
            firsts.setdefault(TopicPartition(topic, partition), base)
        bases_of(self._batches, firsts)

    def _next_author(self) -> Author:
        return self._author._replace(sequence=self._author.sequence + 1)

    def _forget_written(self) -> None:
        self._staged, self._batches, self._tried = [], [], None

    def _tell_refused(self) -> None:
        """Say once that records were refused; within a transaction whenever it is to be committed."""
        error = self._refused
        if error is not None:
            self._refused = error if self._in_transaction else None
            raise error

    # --- inside: checks ----------------------------------------------------------------------------------------------

    def _check_process(self) -> None:
        """See whether this is the process that made the producer.

        A fork has no thread that commits what lingers, and what it would commit itself would count as the other's.

        Raises:
            InvalidProgramError: when it is a fork of that.
        """
        if self._process != os.getpid():
            raise InvalidProgramError(
                f"the producer is of process {self._process}, of which this one is a fork: make one in the fork; what "
                "was sent before is committed by the process that sent it"
            )

    def _check_may_send(self) -> None:
        self._check_process()
        if self._transactional_id is not None and not self._in_transaction:
            raise InvalidProgramError(
                "a producer with a transactional id sends within transactions: begin_transaction()"
            )
        if self._in_transaction and self._tried is not None:
            raise InvalidProgramError(
                "the transaction may have been committed: call commit_transaction() again, or abort_transaction(), "
                "before anything else is sent"
            )

    def _check_transaction(self) -> None:
        self._check_process()
        self._needed_id()
        if not self._in_transaction:
            raise InvalidProgramError("there is no transaction: begin_transaction() begins one")

    def _begin_batch(self, topic: str) -> ProducerBatch:
        """A batch for records of a topic that this thread sends."""
        self._check_may_send()
        batch = ProducerBatch(topic, needs_keys=self._is_compacted(topic))
        self._start()  # first: it makes room
        self._accumulator.add([batch])
        self._own.batch = batch
        return batch

    def _details(self, topic: str, headers: Sequence[tuple[str, bytes | None]], partition: int | None) -> Details:
        if partition is not None:
            self._checked_partition(topic, partition)
        return checked_headers(headers), partition

    def _is_compacted(self, topic: str) -> bool:
        """Tell whether a topic is compacted.

        Raises:
            UnknownTopicError: when there is no such topic.
        """
        with self._journal.lock:
            if topic not in self._journal.state().topics:
                self._journal.refresh()
            return self._journal.state().topic(topic).config.compacts

    def _checked_partition(self, topic: str, partition: int) -> None:
        with self._journal.lock:
            self._journal.state().partition(TopicPartition(topic, partition))


_PRODUCERS: Final = weakref.WeakSet[Producer]()


def _drop_batches() -> None:
    """Have each producer find with its next record that this is a fork."""
    for producer in list(_PRODUCERS):
        producer._own = _OwnBatch()


os.register_at_fork(after_in_child=_drop_batches)


def _checked_size(batch: ProducerBatch, value: bytes | None, key: bytes | None) -> int:
    """Return how large a record is, if a batch can have it."""
    if (value is not None and type(value) is not bytes) or (key is not None and type(key) is not bytes):
        raise InvalidTypeError(
            f"key and value of a record are bytes or None, not {key!r} and {value!r}: encode() text first"
        )
    if key is None and batch.needs_keys:
        raise _without_key(batch.topic)
    return RECORD_BYTES + len(value or b"") + len(key or b"")


def _checked_timestamp(timestamp: int) -> int:
    if type(timestamp) is not int or not -(1 << 63) <= timestamp < 1 << 63:
        raise InvalidTypeError(f"the timestamp of a record is milliseconds as an integer, not {timestamp!r}")
    return timestamp


def _without_key(topic: str) -> InvalidTypeError:
    return InvalidTypeError(
        f"topic {topic!r} is compacted to the latest value of each key: every record needs one, and one has none"
    )
