"""What tests do to a topic, of Kafka or of the embedded log, and sources that are read by hand."""

from __future__ import annotations

import itertools
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from headrace.connectors.partitions import OffsetResetStrategy, OffsetsInitializer
from headrace.connectors.source import EnumeratorContext, ReadBudget, ReaderContext, Source, SplitEnumerator
from headrace.connectors.topic_builders import TopicSourceBuilder
from headrace.storage.folder import Folder

ALL = ReadBudget(10**9, 10**12)


class OpenTransaction(ABC):
    """A transaction that the test ends."""

    @abstractmethod
    def put(self, values: Iterable[Any]) -> None:
        """Messages of texts in the first partition."""

    @abstractmethod
    def commit(self) -> None:
        """Have them seen."""

    @abstractmethod
    def abort(self) -> None:
        """Have them never seen."""


class TopicDriver(ABC):
    """A topic of a name of its own; what is only said by one partition is about the first.

    Args:
        partitions: how many it has.
        prefix: what its name begins with.
        config: settings by Kafka's names with underscores.
    """

    compacted: ClassVar[Mapping[str, str]] = {"cleanup_policy": "compact"}
    """What a topic is told that :meth:`compact` is called for."""

    def __init__(self, partitions: int = 1, prefix: str = "t", **config: str) -> None:
        self.name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        self.make(partitions, **config)

    @abstractmethod
    def another(self, partitions: int = 1, prefix: str = "t", **config: str) -> TopicDriver:
        """Another topic beside it."""

    @abstractmethod
    def make(self, partitions: int = 1, **config: str) -> None:
        """Have it there, under its name."""

    @abstractmethod
    def delete(self) -> None:
        """Have it gone."""

    @abstractmethod
    def grow(self, partitions: int) -> None:
        """Give it so many partitions."""

    @abstractmethod
    def put(self, values: Iterable[Any], partition: int = 0, **more: Any) -> None:
        """Messages of texts, at once, with ``key``, ``headers`` and ``timestamp``; None has no value."""

    @abstractmethod
    def transaction(self) -> OpenTransaction:
        """Begin a transaction."""

    @abstractmethod
    def delete_before(self, offset: int) -> None:
        """Delete the records before an offset, as retention does."""

    @abstractmethod
    def compact(self) -> None:
        """Have old values of keys gone; the last messages may stay as they are."""

    @abstractmethod
    def commit_offset(self, group: str, offset: int) -> None:
        """How far a group has come."""

    @abstractmethod
    def committed(self, group: str) -> dict[int, int]:
        """How far a group has come in each partition."""

    @abstractmethod
    def delete_group(self, group: str) -> None:
        """Forget how far a group has come."""

    @abstractmethod
    def builder(self) -> TopicSourceBuilder:
        """The beginning of a source of bytes, which does not say yet what it reads."""

    @abstractmethod
    def configure(self, builder: Any, group: str | None, discovery_millis: int, reset: OffsetResetStrategy) -> None:
        """Say what builders have methods of their own for."""

    def reading(
        self,
        start: OffsetsInitializer | None = None,
        *,
        group: str | None = None,
        discovery_millis: int = 300_000,
        reset: OffsetResetStrategy = OffsetResetStrategy.NONE,
        pattern: str | None = None,
    ) -> Any:
        """The beginning of a source of the whole topic, or of all that are like a pattern."""
        made = self.builder()
        if pattern is None:
            made.set_topics(self.name)
        else:
            made.set_topic_pattern(pattern)
        self.configure(made, group, discovery_millis, reset)
        return made if start is None else made.set_starting_offsets(start)

    def put_in_transaction(self, values: Iterable[Any], *, commit: bool) -> None:
        """Messages of a transaction, which is over then."""
        transaction = self.transaction()
        transaction.put(values)
        (transaction.commit if commit else transaction.abort)()


def message(value: Any) -> bytes | None:
    """What a test means by a value."""
    return value if value is None or isinstance(value, bytes) else str(value).encode()


def texts(numbers: Iterable[int]) -> list[bytes]:
    """The messages of some numbers."""
    return [str(number).encode() for number in numbers]


def enumerator(source: Source, folder: Folder, state: Any = None) -> SplitEnumerator:
    """The driver's half of a source."""
    return source.create_enumerator(EnumeratorContext(1, folder, state))


def start_of(source: Source, folder: Folder) -> list[int]:
    """Where each partition would begin."""
    planner = enumerator(source, folder)
    return [planner.initial_position(split) for split in planner.discover(0)]


def read(source: Source, piece: Any) -> list[Any]:
    """The records of a range of offsets."""
    reader = source.create_reader()
    reader.open(ReaderContext())
    found = [row for records in reader.read(piece) for row in rows_of(records)]
    reader.close()
    return found


def read_rest(
    source: Source,
    planner: SplitEnumerator,
    positions: dict[str, int],
    now: int = 0,
    budgets: Iterable[int] = (10**9,),
) -> dict[str, list[Any]]:
    """What there is beyond some positions, which are moved on; read epoch by epoch, one budget each, over and over."""
    found: dict[str, list[Any]] = {}
    reader = source.create_reader()
    reader.open(ReaderContext())
    for budget in itertools.cycle(budgets):
        splits = list(planner.discover(now))
        positions |= {split: planner.initial_position(split) for split in splits if split not in positions}
        plans = [planner.plan(split, positions[split], ReadBudget(budget, 10**12), now) for split in splits]
        reads = [planned for planned in plans if planned is not None]
        for planned in reads:
            for piece in planned.pieces:
                rows = found.setdefault(planned.split_id, [])
                rows += [row for records in reader.read(piece) for row in rows_of(records)]
            positions[planned.split_id] = planned.end
        if not reads:
            reader.close()
            return found
    raise AssertionError


def rows_of(records: Any) -> list[Any]:
    """Records as Python objects; of rows with nothing but a value, the values."""
    if records.rows is not None:
        return list(records.rows)
    rows: list[Mapping[str, Any]] = records.columns.to_pylist()
    return [row["value"] if list(row) == ["value"] else row for row in rows]
