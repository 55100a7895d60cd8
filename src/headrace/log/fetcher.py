"""``Fetcher``: reads records of the partitions of a consumer, in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.common.errors import OffsetOutOfRangeError

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.common.topic_partition import TopicPartition
    from headrace.log.log import Log
    from headrace.log.subscription_state import SubscriptionState

_FETCH_BYTES: Final = 16 << 20

_POLL_BYTES: Final = 256 << 20
"""With so much no other partition has its turn: a column of a batch has 2 GiB at most, and one record may have half."""


class Fetcher:
    """Reads what comes next.

    Args:
        log: the log.
        subscriptions: which partitions are read, and how far.
    """

    def __init__(self, log: Log, subscriptions: SubscriptionState) -> None:
        self._log = log
        self._subscriptions = subscriptions

    def take(self, max_records: int) -> list[tuple[TopicPartition, pa.RecordBatch]]:
        """The next records of partitions in turn, as far as this process knows the log; few enough for one batch.

        Raises:
            OffsetOutOfRangeError: when a position was deleted, and that was said to be an error.
            LogCorruptedError: when a file is damaged.
            OSError: when a file cannot be read.
        """
        found = []
        size = 0
        partitions = self._subscriptions.partitions
        for partition in [each for each, state in partitions.items() if not state.paused]:
            if max_records <= 0 or size >= _POLL_BYTES:
                break
            batches = self._next(partition, max_records)
            if batches:
                found += [(partition, batch) for batch in batches]
                max_records -= sum(batch.num_rows for batch in batches)
                size += sum(batch.nbytes for batch in batches)
                partitions[partition] = partitions.pop(partition)  # others have their turn first next time
        return found

    def _next(self, partition: TopicPartition, count: int) -> list[pa.RecordBatch]:
        """The next records of a partition, of those that were fetched together."""
        position = self._subscriptions.position(partition)
        state = self._subscriptions.partitions[partition]
        waiting, state.fetched = state.fetched, []
        if not waiting or state.fetched_from != position:
            waiting = self._fetch(partition)
        taken: list[pa.RecordBatch] = []
        for number, batch in enumerate(waiting):
            taken.append(batch.slice(0, count))
            count -= taken[-1].num_rows
            if not count:
                rest = batch.slice(taken[-1].num_rows)
                state.fetched = [*([rest] if rest.num_rows else []), *waiting[number + 1 :]]
                break
        if taken:
            state.position = state.fetched_from = taken[-1].column("offset")[-1].as_py() + 1
        return taken

    def _fetch(self, partition: TopicPartition) -> list[pa.RecordBatch]:
        while True:
            position = self._subscriptions.position(partition)
            state = self._subscriptions.partitions[partition]
            try:
                fetched = self._log.fetch(partition, position, max_bytes=_FETCH_BYTES)
            except OffsetOutOfRangeError:
                if self._subscriptions.reset == "none":
                    raise
                state.position = self._subscriptions.reset_offset(partition)
                return []
            if fetched.batches or fetched.next_offset <= position:
                return list(fetched.batches)
            state.position = fetched.next_offset  # all there was has been superseded
