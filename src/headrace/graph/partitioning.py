"""The partitioning of records among the subtasks of an operator: their key, and the subtask for it."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from headrace.common.batch import Batch
from headrace.common.call_site import UNKNOWN_CALL_SITE, CallSite
from headrace.common.errors import InvalidProgramError
from headrace.expressions import Bound
from headrace.operators.user_code import RecordError
from headrace.state.keys import KeyCodec, KeyColumn
from headrace.state.keys.hashing import partitions_of_hashes


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
class Sending:
    """By which way a batch comes to be routed.

    Attributes:
        channel: the split or the sending subtask that it comes by.
        receivers: where it goes.
        epoch: the epoch.
        batch: the number of the batch among those of the channel's piece; another attempt sends the same batches.
        piece: the number of the piece.
        keys_travel: whether the keys are wanted with the parts; else they may be left out.
    """

    channel: int
    receivers: Receivers
    epoch: int = 0
    batch: int = 0
    piece: int = 0
    keys_travel: bool = True

    @property
    def turn(self) -> int:
        """A number that goes on from batch to batch and from epoch to epoch."""
        return self.epoch + self.channel + self.piece + self.batch


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
        keeps_parallelism: whether there have to be as many subtasks behind it as before it.
        requested_by: the method that the program calls for it, where it may be refused.
    """

    label: ClassVar[str]
    redistributes: ClassVar[bool] = True
    keeps_parallelism: ClassVar[bool] = False
    requested_by: ClassVar[str] = ""

    def between(self, producers: int, consumers: int | None) -> "Partitioning":
        """The partitioning for so many subtasks at both ends; ``consumers`` is None where the consumer adapts."""
        return self

    @abstractmethod
    def route(self, batch: Batch, keys: KeyColumn | None, sending: Sending) -> Iterator[Routed]:
        """Cut a batch into one part for each subtask that gets any of it; the order of records stays.

        Args:
            batch: the records, at least one.
            keys: their keys, where they have some.
            sending: by which way they come, and where they go.
        """


@dataclass(frozen=True, slots=True)
class Forward(Partitioning):
    """Records stay with the subtask that made them; where the numbers of subtasks differ, they are rebalanced."""

    label = "FORWARD"
    redistributes = False

    def between(self, producers: int, consumers: int | None) -> Partitioning:
        return self if consumers in (None, producers) else REBALANCE

    def route(self, batch: Batch, keys: KeyColumn | None, sending: Sending) -> Iterator[Routed]:
        yield Routed(sending.channel % sending.receivers.parallelism, batch, keys)


@dataclass(frozen=True, slots=True)
class Rebalance(Partitioning):
    """Every subtask gets the same share of each batch, in consecutive slices; the first one goes round."""

    label = "REBALANCE"

    def route(self, batch: Batch, keys: KeyColumn | None, sending: Sending) -> Iterator[Routed]:
        return _in_turn(batch, keys, sending, range(sending.receivers.parallelism))


@dataclass(frozen=True, slots=True)
class Hash(Partitioning):
    """Records go to the subtask that owns the key group of their key."""

    label = "HASH"

    def route(self, batch: Batch, keys: KeyColumn | None, sending: Sending) -> Iterator[Routed]:
        assert keys is not None, "only edges with a key are partitioned by it"
        if sending.receivers.parallelism == 1:
            yield Routed(0, batch, keys)
            return
        order, bounds = _by_key_group(keys, sending.receivers)
        batch = Batch.take(batch, order)  # as it would be without keys beside it, which travel apart
        taken = keys.take(order) if sending.keys_travel else None
        for target, (start, stop) in enumerate(pairwise(bounds)):
            if stop > start:
                yield Routed(target, batch.slice(start, stop), None if taken is None else taken.slice(start, stop))


@dataclass(frozen=True, slots=True)
class Broadcast(Partitioning):
    """Every subtask gets every record."""

    label = "BROADCAST"

    def route(self, batch: Batch, keys: KeyColumn | None, sending: Sending) -> Iterator[Routed]:
        for target in range(sending.receivers.parallelism):
            yield Routed(target, batch, keys)


@dataclass(frozen=True, slots=True)
class ForwardAlways(Forward):
    """Records stay with the subtask that made them, as the program says: the numbers of subtasks must not differ."""

    keeps_parallelism = True
    requested_by = "forward()"

    def between(self, producers: int, consumers: int | None) -> Partitioning:
        return self


@dataclass(frozen=True, slots=True)
class ForwardByKey(ForwardAlways):
    """Keeps records that are, as the program says, where their keys belong; which is checked.

    Attributes:
        call_site: where ``reinterpret_as_keyed`` was called.
    """

    requested_by = "reinterpret_as_keyed(...)"
    call_site: CallSite

    def route(self, batch: Batch, keys: KeyColumn | None, sending: Sending) -> Iterator[Routed]:
        subtask = sending.channel % sending.receivers.parallelism
        self.check(batch, keys, subtask, sending.receivers)
        yield Routed(subtask, batch, keys)

    def check(self, batch: Batch, keys: KeyColumn | None, subtask: int, receivers: Receivers) -> None:
        """Refuse records whose keys belong to other subtasks.

        Raises:
            RecordError: with the first of them.
        """
        assert keys is not None, "only edges with a key are checked"
        owners = partitions_of_hashes(keys.hashes, receivers.parallelism, receivers.max_parallelism)
        strays = np.flatnonzero(owners != subtask)
        if strays.size:
            row = int(strays[0])
            raise RecordError(Batch.slice(batch, row, row + 1).rows[0], self.call_site, "reinterpret_as_keyed") from (
                InvalidProgramError(
                    f"the record is in subtask {subtask}, and its key belongs to subtask {int(owners[row])}: the "
                    "stream is not partitioned by this key, or its type was another one there; give both the same "
                    "key_type, or call key_by(...) instead"
                )
            )


@dataclass(frozen=True, slots=True)
class Rescale(Partitioning):
    """Each sending subtask shares its records among some receivers of its own, or several have one in common.

    Attributes:
        producers: how many sending subtasks there are.
    """

    label = "RESCALE"
    producers: int = 1

    def between(self, producers: int, consumers: int | None) -> Partitioning:
        return Rescale(producers)

    def route(self, batch: Batch, keys: KeyColumn | None, sending: Sending) -> Iterator[Routed]:
        sender, count = sending.channel % self.producers, sending.receivers.parallelism
        first = sender * count // self.producers
        last = max(first + 1, (sender + 1) * count // self.producers)
        return _in_turn(batch, keys, sending, range(first, last))


@dataclass(frozen=True, slots=True)
class Shuffle(Partitioning):
    """Each record goes to any of the subtasks. Chance follows from the epoch, so it is the same at each attempt."""

    label = "SHUFFLE"

    def route(self, batch: Batch, keys: KeyColumn | None, sending: Sending) -> Iterator[Routed]:
        chance = np.random.default_rng([sending.epoch, sending.channel, sending.piece, sending.batch])
        targets = chance.integers(sending.receivers.parallelism, size=len(batch))
        return _to_targets(batch, keys, targets, sending.receivers)


@dataclass(frozen=True, slots=True)
class Global(Partitioning):
    """The first subtask gets every record."""

    label = "GLOBAL"

    def route(self, batch: Batch, keys: KeyColumn | None, sending: Sending) -> Iterator[Routed]:
        yield Routed(0, batch, keys)


@dataclass(frozen=True, slots=True)
class Custom(Partitioning):
    """A function of the user says where each record goes.

    Attributes:
        partition: called with the key of a record and the number of subtasks, gives the number of one.
        select: takes the key from a record.
        call_site: where ``partition_custom`` was called.
    """

    label = "CUSTOM"
    partition: Callable[[Any, int], int]
    select: Callable[[Any], Any]
    call_site: CallSite

    def route(self, batch: Batch, keys: KeyColumn | None, sending: Sending) -> Iterator[Routed]:
        count = sending.receivers.parallelism
        targets: list[int] = []
        row = None
        try:
            for row in batch.rows:
                targets.append(_checked(self.partition(self.select(row), count), count))
        except BaseException as error:
            raise RecordError(row, self.call_site, "partition_custom") from error
        return _to_targets(batch, keys, np.array(targets, dtype=np.int64), sending.receivers)


FORWARD: Final = Forward()
FORWARD_ALWAYS: Final = ForwardAlways()
REBALANCE: Final = Rebalance()
RESCALE: Final = Rescale()
SHUFFLE: Final = Shuffle()
GLOBAL: Final = Global()
HASH: Final = Hash()
BROADCAST: Final = Broadcast()


def _checked(target: object, count: int) -> int:
    """The number of a subtask that a function of the user gave.

    Raises:
        InvalidProgramError: when there is no such subtask.
    """
    if not isinstance(target, int | np.integer) or isinstance(target, bool) or not 0 <= target < count:
        raise InvalidProgramError(f"the partitioner gave {target!r}; it has to be a number from 0 to {count - 1}")
    return int(target)


def _in_turn(batch: Batch, keys: KeyColumn | None, sending: Sending, targets: range) -> Iterator[Routed]:
    """Slices of the same size for some subtasks; the one that begins goes round, so that small batches do as well."""
    count = len(targets)
    bounds = np.linspace(0, len(batch), count + 1).astype(np.int64).tolist()
    for number, (start, stop) in enumerate(pairwise(bounds)):
        if stop > start:
            target = targets[(number + sending.turn) % count]
            yield Routed(target, batch.slice(start, stop), None if keys is None else keys.slice(start, stop))


def _to_targets(
    batch: Batch, keys: KeyColumn | None, targets: npt.NDArray[np.int64], receivers: Receivers
) -> Iterator[Routed]:
    """Each record to a subtask of its own, in the order of the records."""
    order = np.argsort(targets, kind="stable")
    bounds = np.searchsorted(targets[order], np.arange(receivers.parallelism + 1)).tolist()
    for target, (start, stop) in enumerate(pairwise(bounds)):
        if stop > start:
            rows = order[start:stop]
            yield Routed(target, Batch.take(batch, rows), None if keys is None else keys.take(rows))


def _by_key_group(keys: KeyColumn, receivers: Receivers) -> tuple[npt.NDArray[np.int64], list[int]]:
    """Row numbers, target by target and within one in the order of the rows; and where each target's begin and end."""
    parallelism = receivers.parallelism
    targets = partitions_of_hashes(keys.hashes, parallelism, receivers.max_parallelism)
    narrow = targets.astype(np.uint8 if parallelism <= 1 << 8 else np.uint16)
    order = np.argsort(narrow, kind="stable")
    return order, np.searchsorted(narrow[order], np.arange(parallelism + 1)).tolist()


@dataclass(frozen=True, slots=True)
class KeySelection:
    """The extraction of the key of a record, and its type.

    Attributes:
        codec: encodes and hashes keys; knows their type.
        selector: the user's key function, called for each record where nothing else finds the key; None when it is an
            expression.
        fields: names or indices of the fields that make the key, when that is known: then no Python call is needed.
        expression: computes the keys from columns, unless they are one column anyway.
        names: what aggregates call the columns of the key: one for all of it, or one for each field or expression; by
            default they have the names of the fields, or are one column ``key``.
        is_single: whether the key is the one field itself, not a tuple of fields.
        call_site: where ``key_by`` was called.
        is_attached: whether the producer hands over keyed batches already.
        only_routes: whether the receiver has no use for the keys (it finds them in the records).
    """

    codec: KeyCodec
    selector: Any
    fields: tuple[str | int, ...] | None
    is_single: bool = True
    expression: Bound | None = None
    names: tuple[str, ...] | None = None
    call_site: CallSite = UNKNOWN_CALL_SITE
    is_attached: bool = False
    only_routes: bool = False

    @property
    def label(self) -> str:
        """Return what records are keyed by: the fields, the expression, or the name of the function."""
        if self.fields is not None and (self.expression is None or not self.is_single):
            return ", ".join(map(str, self.fields))
        return _selector_name(self.selector) if self.expression is None else self.expression.text


def _selector_name(selector: object) -> str:
    if isinstance(found := getattr(selector, "field", None), str | int):
        return str(found)
    if inspect.ismethod(selector):
        return type(selector.__self__).__name__
    name = str(getattr(selector, "__name__", type(selector).__name__))
    return "lambda" if name == "<lambda>" else name
