"""The ends of a job under test: sources whose records come from the test, and sinks that record results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import InvalidProgramError, InvalidTypeError, refused
from headrace.common.typeinfo import TypeInformation
from headrace.connectors.driver_sink import DriverSink, EncodedRecords
from headrace.connectors.source import (
    Boundedness,
    EnumeratorContext,
    FunctionReader,
    Json,
    Pending,
    ReadBudget,
    Source,
    SourceReader,
    SourceRecords,
    SplitEnumerator,
    SplitRead,
)


class PushedInput:
    """The sources of a job, and what waits to be given to them, in the order in which it was pushed."""

    def __init__(self) -> None:
        self._sources: dict[str, tuple[ManualSource, bool]] = {}
        self._waiting: deque[tuple[str, int, Sequence[tuple[Any, int]] | int]] = deque()
        """Records with their timestamps, or a watermark, for a split of a source."""

    def __contains__(self, source: str) -> bool:
        return source in self._sources

    @property
    def is_waiting(self) -> bool:
        """Return whether anything waits."""
        return bool(self._waiting)

    def add_source(self, name: str, source: ManualSource, *, is_by_hand: bool) -> None:
        """Adds a source.

        Args:
            name: its name.
            source: the source.
            is_by_hand: whether watermarks are set by hand, and not made of the records.

        Raises:
            InvalidProgramError: when there is one of that name.
        """
        check_new(name, self._sources, "source")
        self._sources[name] = source, is_by_hand

    def push(self, source: str, split: int, records: Sequence[tuple[Any, int]]) -> None:
        """Has records, with their timestamps, wait for a split of a source."""
        self._feed(source, split)
        self._waiting.append((source, split, records))

    def set_watermark(self, source: str, split: int | None, watermark: int) -> None:
        """Has a watermark wait, for one split of a source, or for all.

        Raises:
            InvalidProgramError: when the source makes watermarks of its records.
        """
        manual, is_by_hand = self._source(source)
        if not is_by_hand:
            raise InvalidProgramError(
                f"source {source!r} makes watermarks of its records: push a record to move them, or leave the "
                "watermark strategy out of add_source()"
            )
        for number in range(len(manual.feeds)) if split is None else (split,):
            self._feed(source, number)
            self._waiting.append((source, number, int(watermark)))

    def take_records(self) -> bool:
        """Puts all up to the next watermark into the feeds; whether there are records in them now."""
        while self._waiting and not isinstance(pushed := self._waiting[0][2], int):
            source, split, _ = self._waiting.popleft()
            self._feed(source, split).records.extend(pushed)
        return any(feed.records for feed in self._feeds())

    def take_watermarks(self, advance: Callable[[str, str, int], None]) -> None:
        """Hands every watermark up to the next records to ``advance``: the source, the split, the watermark."""
        while self._waiting and isinstance(watermark := self._waiting[0][2], int):
            source, split, _ = self._waiting.popleft()
            advance(source, str(split), watermark)

    def end(self, source: str, split: int) -> None:
        """Lets nothing follow in a split."""
        self._feed(source, split).is_finished = True

    def end_all(self) -> None:
        """Lets nothing follow anywhere."""
        for feed in self._feeds():
            feed.is_finished = True

    def _source(self, name: str) -> tuple[ManualSource, bool]:
        if name not in self._sources:
            raise unknown("source", name, list(self._sources))
        return self._sources[name]

    def _feed(self, name: str, split: int) -> Feed:
        feeds = self._source(name)[0].feeds
        if str(split) not in feeds:
            raise InvalidProgramError(
                f"source {name!r} has the splits 0 to {len(feeds) - 1}, there is no split {split}"
            )
        return feeds[str(split)]

    def _feeds(self) -> Iterator[Feed]:
        for source, _ in self._sources.values():
            yield from source.feeds.values()


def stamped(records: Sequence[object], timestamps: Iterable[int] | None) -> list[tuple[Any, int]]:
    """Records, each with its timestamp, or with none where there are none.

    Raises:
        InvalidTypeError: when the timestamps are no ints.
        InvalidProgramError: when there are more or fewer of them than records.
    """
    if timestamps is None:
        return [(record, NO_TIMESTAMP) for record in records]
    if isinstance(timestamps, int):
        raise refused(f"push_all takes a list of timestamps, one for each record, not {timestamps}", InvalidTypeError)
    times = list(timestamps)
    if len(times) != len(records):
        raise refused(f"push_all was given {len(records)} records and {len(times)} timestamps: each record has its own")
    for time in times:
        check_millis(time, "a timestamp")
    return list(zip(records, times, strict=True))


def check_millis(time: object, what: str) -> None:
    """Refuse a moment that is no int.

    Raises:
        InvalidTypeError: when it is none.
    """
    if isinstance(time, bool) or not isinstance(time, int | np.integer):
        raise refused(f"{what} is an int, the milliseconds since 1970, not {time!r}", InvalidTypeError)


def check_new(name: str, known: Container[str], what: str) -> None:
    """Refuse a name that another source, or sink, has.

    Raises:
        InvalidProgramError: when there is one.
    """
    if name in known:
        raise InvalidProgramError(f"there are two {what}s of the name {name!r}: give each its own")


def unknown(what: str, name: str, known: Sequence[str]) -> InvalidProgramError:
    """The error for a name that the job does not have."""
    return InvalidProgramError(f"the job has no {what} {name!r}; it has {', '.join(map(repr, known)) or 'none'}")


_SHOWN: Final = 20
"""The most records of one kind that are shown."""


class PushedRecords(list[Any]):
    """Records in the order in which they came; equal to a list of the same."""

    def difference(self, expected: list[Any]) -> list[str]:
        """Return how they differ from what was expected: lines of text, none where they are equal.

        Args:
            expected: the records that should have come, in order.
        """
        if self == expected:
            return []
        missing, surplus = _without(expected, self), _without(self, expected)
        if missing or surplus:
            return [*_listed("expected, but not there", missing), *_listed("there, but not expected", surplus)]
        place = next(i for i, (found, wanted) in enumerate(zip(self, expected, strict=True)) if found != wanted)
        return [
            f"the same {len(self)} records in another order, from number {place} on",
            f"  found:    {self[place]!r}",
            f"  expected: {expected[place]!r}",
        ]


def _without(records: list[Any], others: list[Any]) -> list[Any]:
    """The records that are not among others, each as often as it is not."""
    left, kept = list(others), []
    for record in records:
        try:
            left.remove(record)
        except ValueError:
            kept.append(record)
    return kept


def _listed(title: str, records: list[Any]) -> list[str]:
    if not records:
        return []
    lines = [f"{title}: {len(records)}", *(f"  {record!r}" for record in records[:_SHOWN])]
    return lines if len(records) <= _SHOWN else [*lines, f"  and {len(records) - _SHOWN} more"]


class RecordingSink(DriverSink):
    """Keeps the records of complete epochs, in epoch order and within one in the order of each subtask.

    Attributes:
        records: the records so far, each with its timestamp; in the process that made the sink.
    """

    def __init__(self) -> None:
        super().__init__(self._record)
        self.records: list[tuple[Any, int]] = []

    def _record(self, records: Sequence[EncodedRecords], type_: TypeInformation) -> None:
        for part in records:
            self.records.extend(zip(part.as_rows(type_), part.timestamps.tolist(), strict=True))


@dataclass(slots=True)
class Feed:
    """The records of a split that can be read now: the driver's side of a :class:`ManualSource`.

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
        return FunctionReader(_read)

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


def _read(piece: Json) -> Iterator[SourceRecords]:
    rows = [row for row, _ in piece]
    timestamps = np.array([timestamp for _, timestamp in piece], dtype=np.int64)
    yield SourceRecords(rows=rows, timestamps=None if (timestamps == NO_TIMESTAMP).all() else timestamps)
