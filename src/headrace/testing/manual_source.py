"""``ManualSource``: a source whose records come from the test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.common.constants import NO_TIMESTAMP
from headrace.connectors.source import (
    Boundedness,
    Pending,
    Source,
    SourceReader,
    SourceRecords,
    SplitEnumerator,
    SplitRead,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.source import EnumeratorContext, Json, ReadBudget


@dataclass(slots=True)
class Feed:
    """What a split has to offer now: the driver's side of a :class:`ManualSource`.

    Attributes:
        records: the records that the next epoch reads, each with its timestamp; kept until it is complete.
        position: how many records were read before them.
        is_finished: whether nothing will follow them.
    """

    records: list[tuple[Any, int]] = field(default_factory=list)
    position: int = 0
    is_finished: bool = False


class ManualSource(Source):
    """Reads what a test has put into its feeds; for the local runtime only, since records stay in this process.

    The position of a split is the number of records that were read of it, so a restored source goes on behind them.

    Args:
        type_info: the type of the records.
        splits: how many splits there are, each with its own event time.
    """

    def __init__(self, type_info: TypeInformation, splits: int = 1) -> None:
        self._type = type_info
        self.feeds = {str(split): Feed() for split in range(splits)}

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def produced_type(self) -> TypeInformation:
        return self._type

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        return _Enumerator(self.feeds)

    def create_reader(self) -> SourceReader:
        return _Reader()

    def __getstate__(self) -> dict[str, Any]:
        return {"_type": self._type, "feeds": {}}


class _Enumerator(SplitEnumerator):
    """Hands out the records themselves as pieces, which the manifest does not hold."""

    def __init__(self, feeds: dict[str, Feed]) -> None:
        self._feeds = feeds

    def discover(self, now: int) -> Sequence[str]:
        return list(self._feeds)

    def initial_position(self, split_id: str) -> Json:
        return 0

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        feed = self._feeds[split_id]
        feed.position = position
        if not feed.records:
            return None
        end = position + len(feed.records)
        return SplitRead(split_id, position, end, (list(feed.records),), records=len(feed.records))

    def pending(self, split_id: str, position: Json, now: int) -> Pending:
        feed = self._feeds[split_id]
        return Pending(records=feed.position + len(feed.records) - position)

    def is_finished(self, split_id: str, position: Json) -> bool:
        feed = self._feeds[split_id]
        return feed.is_finished and position == feed.position + len(feed.records)

    def checkpoint_completed(self, positions: dict[str, Json]) -> None:
        for split_id, position in positions.items():
            feed = self._feeds[split_id]
            del feed.records[: position - feed.position]
            feed.position = position


class _Reader(SourceReader):
    def read(self, piece: Json) -> Iterator[SourceRecords]:
        rows = [row for row, _ in piece]
        timestamps = np.array([timestamp for _, timestamp in piece], dtype=np.int64)
        yield SourceRecords(rows=rows, timestamps=None if (timestamps == NO_TIMESTAMP).all() else timestamps)
