"""``Sender``: writes the batches that wait, and commits them."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.common.errors import UnknownTopicError
from headrace.common.topic_partition import TopicPartition
from headrace.log.accumulator import Partitioner, bases_of, merged
from headrace.log.staging import StagedRecordsError, discard, publish, stage

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.log.accumulator import ProducerBatch, RecordAccumulator
    from headrace.log.commits import Author
    from headrace.log.journal import Journal
    from headrace.log.staging import Staged
    from headrace.log.transactions import TransactionManager


@dataclass(slots=True)
class _Written:
    """Records that are written and not committed.

    Attributes:
        staged: where they are.
        batches: what they were sent as, and how many of each are in which partition.
        author: of the commit that was tried; None before.
    """

    staged: list[Staged]
    batches: list[tuple[ProducerBatch, list[tuple[TopicPartition, int]]]]
    author: Author | None = None


class Sender:
    """Delivers what waits in an accumulator: when it is told to, and by a thread of its own when it has lingered.

    Args:
        journal: of the log.
        accumulator: where records wait.
        transactions: who commits.

    Attributes:
        delivering: who holds it is the only one to deliver.
    """

    def __init__(self, journal: Journal, accumulator: RecordAccumulator, transactions: TransactionManager) -> None:
        self.delivering = threading.RLock()
        self._journal = journal
        self._accumulator = accumulator
        self._transactions = transactions
        self._partitioner = Partitioner(random.randrange(1 << 16))
        self._written: _Written | None = None
        self._refused: UnknownTopicError | None = None
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def is_in_doubt(self) -> bool:
        """Whether a transaction may have been committed."""
        return self._transactions.in_transaction and self._written is not None and self._written.author is not None

    def start(self) -> None:
        """Have records be delivered by themselves."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._deliver_lingering, name="headrace-producer", daemon=True)
                self._thread.start()

    def join(self) -> None:
        """Wait for the end of the thread, which comes when the accumulator is closed."""
        if self._thread is not None:
            self._thread.join()

    def deliver(self) -> None:
        """Write all that waits, and commit it unless there is a transaction.

        Raises:
            UnknownTopicError: when there were records of topics or partitions that there are not any more.
            OSError: when it cannot be written or committed; it is tried again by the next call.
        """
        with self.delivering:
            if not self._transactions.in_transaction:
                self._commit_written()
            batches, size = self._accumulator.take()
            if batches:
                self._write_all(batches, size)
                if not self._transactions.in_transaction:
                    self._commit_written()
            self._tell_refused()

    def commit_transaction(self) -> None:
        """Commit all that was delivered in the transaction, and its offsets."""
        written = self._written or _Written([], [])
        if written.staged or self._transactions.offsets:
            self._commit(written)
        self._end_transaction()

    def abort_transaction(self) -> None:
        """Forget all that was sent in the transaction."""
        self._accumulator.take()
        written = self._written
        if written is not None and written.author is not None:
            self._transactions.give_up(written.author)
        self._end_transaction()
        if written is not None:
            discard(self._journal, written.staged)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _end_transaction(self) -> None:
        self._written = None
        self._refused = None
        self._transactions.end()
        self._accumulator.seal()

    def _deliver_lingering(self) -> None:
        while self._accumulator.wait_until_due():
            try:
                self.deliver()
            except Exception as error:  # told by the next call
                self._accumulator.fail(error)

    def _write_all(self, batches: list[ProducerBatch], size: int) -> None:
        try:
            written = self._write(batches)
        except BaseException:
            self._accumulator.put_back(batches, size)
            raise
        so_far = self._written or _Written([], [])
        self._written = _Written(so_far.staged + written.staged, so_far.batches + written.batches)

    def _write(self, batches: list[ProducerBatch]) -> _Written:
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
        return _Written(stage(self._journal, merged(pieces), self._transactions.staged_for()), counts)

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

    def _commit(self, written: _Written) -> None:
        if written.author is None:
            written.author = self._transactions.next_author()
            self._written = written
        known = publish(self._journal, written.author, written.staged, self._transactions.checked_offsets)
        firsts = dict[TopicPartition, int]()
        for topic, partition, base, _ in known.placed:
            firsts.setdefault(TopicPartition(topic, partition), base)
        bases_of(written.batches, firsts)

    def _tell_refused(self) -> None:
        """Say once that records were refused; within a transaction whenever it is to be committed."""
        error = self._refused
        if error is None:
            return
        if not self._transactions.in_transaction:
            self._refused = None
        raise error
