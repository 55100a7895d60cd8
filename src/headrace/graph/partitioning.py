"""How the records of an edge are spread over the subtasks of its consumer.

A partitioning says where records go and by which name plans show it; stage cuts, plans and senders ask nothing else.
All routing follows from the records and the channel that they come by, so it is the same at every attempt.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from headrace.common.batch import Batch
from headrace.state.keys.groups import partitions_of_hashes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace.state.keys import KeyColumn


@dataclass(frozen=True, slots=True)
class Receivers:
    """The subtasks of a consumer.

    Attributes:
        parallelism: how many there are.
        max_parallelism: how many key groups they share.
    """

    parallelism: int
    max_parallelism: int


@dataclass(frozen=True, slots=True)
class Routed:
    """Records for one subtask.

    Attributes:
        target: its number.
        batch: the records.
        keys: their keys, where they have some.
    """

    target: int
    batch: Batch
    keys: KeyColumn | None


@dataclass(frozen=True, slots=True)
class Partitioning(ABC):
    """The root of all partitionings.

    Class attributes:
        label: as Flink's plans show it (``ship_strategy``).
        redistributes: whether a record may go to another subtask than the one with the number of that it comes from, so
            that it has to pass a shuffle.
    """

    label: ClassVar[str]
    redistributes: ClassVar[bool]

    def between(self, producers: int, consumers: int | None) -> Partitioning:
        """The partitioning for so many subtasks at both ends; ``consumers`` is None where the consumer adapts."""
        return self

    @abstractmethod
    def route(
        self, batch: Batch, keys: KeyColumn | None, channel: int, receivers: Receivers, *, keys_travel: bool = True
    ) -> Iterator[Routed]:
        """Cut a batch into one part for each subtask that gets any of it; the order of records stays.

        Args:
            batch: the records, at least one.
            keys: their keys, where they have some.
            channel: the split or the sending subtask that they come by.
            receivers: where they go.
            keys_travel: whether the keys are wanted with the parts; else they may be left out.
        """


@dataclass(frozen=True, slots=True)
class Forward(Partitioning):
    """Records stay with the subtask that made them; where the numbers of subtasks differ, they are rebalanced."""

    label = "FORWARD"
    redistributes = False

    def between(self, producers: int, consumers: int | None) -> Partitioning:
        return self if consumers in (None, producers) else REBALANCE

    def route(
        self, batch: Batch, keys: KeyColumn | None, channel: int, receivers: Receivers, *, keys_travel: bool = True
    ) -> Iterator[Routed]:
        yield Routed(channel % receivers.parallelism, batch, keys)


@dataclass(frozen=True, slots=True)
class Rebalance(Partitioning):
    """Every subtask gets the same share of each batch, in consecutive slices."""

    label = "REBALANCE"
    redistributes = True

    def route(
        self, batch: Batch, keys: KeyColumn | None, channel: int, receivers: Receivers, *, keys_travel: bool = True
    ) -> Iterator[Routed]:
        bounds = np.linspace(0, len(batch), receivers.parallelism + 1).astype(np.int64).tolist()
        for target, (start, stop) in enumerate(pairwise(bounds)):
            if stop > start:
                yield Routed(target, batch.slice(start, stop), None if keys is None else keys.slice(start, stop))


@dataclass(frozen=True, slots=True)
class Hash(Partitioning):
    """Records go to the subtask that owns the key group of their key."""

    label = "HASH"
    redistributes = True

    def route(
        self, batch: Batch, keys: KeyColumn | None, channel: int, receivers: Receivers, *, keys_travel: bool = True
    ) -> Iterator[Routed]:
        assert keys is not None, "only edges with a key are partitioned by it"
        if receivers.parallelism == 1:
            yield Routed(0, batch, keys)
            return
        order, bounds = _by_key_group(keys, receivers)
        batch = Batch.take(batch, order)  # as it would be without keys beside it, which travel apart
        taken = keys.take(order) if keys_travel else None
        for target, (start, stop) in enumerate(pairwise(bounds)):
            if stop > start:
                yield Routed(target, batch.slice(start, stop), None if taken is None else taken.slice(start, stop))


@dataclass(frozen=True, slots=True)
class Broadcast(Partitioning):
    """Every subtask gets every record."""

    label = "BROADCAST"
    redistributes = True

    def route(
        self, batch: Batch, keys: KeyColumn | None, channel: int, receivers: Receivers, *, keys_travel: bool = True
    ) -> Iterator[Routed]:
        for target in range(receivers.parallelism):
            yield Routed(target, batch, keys)


FORWARD: Final = Forward()
REBALANCE: Final = Rebalance()
HASH: Final = Hash()
BROADCAST: Final = Broadcast()


def _by_key_group(keys: KeyColumn, receivers: Receivers) -> tuple[npt.NDArray[np.int64], list[int]]:
    """Row numbers, target by target and within one in the order of the rows; and where each target's begin and end."""
    parallelism = receivers.parallelism
    targets = partitions_of_hashes(keys.hashes, parallelism, receivers.max_parallelism)
    narrow = targets.astype(np.uint8 if parallelism <= 1 << 8 else np.uint16)
    order = np.argsort(narrow, kind="stable")
    return order, np.searchsorted(narrow[order], np.arange(parallelism + 1)).tolist()
