"""The base of operators: batches and watermarks in, batches and watermarks out, state beside it, no I/O of its own.

A keyed operator gets its records together with their keys.

An operator never reads a clock, the environment or randomness: everything that is not in its input comes with the
:class:`EpochScope`. So the same epoch gives the same bytes, on any machine and at any attempt.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from headrace.common.batch import Batch, Stamps, concat
from headrace.common.call_site import CallSite
from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import StateError, StateMigrationError
from headrace.metrics.registry import MetricRegistry
from headrace.state.evolution import NOTHING_RENAMED, RenamedFields
from headrace.state.keys import KeyColumn
from headrace.state.protocols import OperatorStates
from headrace.windowing.definition import ChangedWindows


class Output(Protocol):
    """The receiver of what an operator emits."""

    def emit(self, batch: Batch) -> None:
        """Records of the main output; ``batch.watermarks`` are the output watermarks they were made under."""

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        """Records of a side output."""

    def advance_watermark(self, watermark: int) -> None:
        """Nothing at or below ``watermark`` will follow; called after what the advance itself made was emitted."""


@dataclass(frozen=True, slots=True)
class EpochScope:
    """The values that are fixed for one epoch before it runs.

    Attributes:
        epoch: the epoch's number.
        processing_time: the reading of the job's clock for this epoch, in milliseconds.
        watermark: the operator's event time at the end of the last epoch.
    """

    epoch: int
    processing_time: int
    watermark: int = MIN_WATERMARK


class ProcessLocalCache(Protocol):
    """The caches of an operator instance, which save time and change no result."""

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """The context of an operator instance for its whole life.

    Attributes:
        name: the operator's name, as shown to the user.
        uid: the stable identity that its state is stored under.
        subtask: which of the parallel instances this is, from 0.
        parallelism: how many parallel instances there are.
        max_parallelism: how many key groups there are.
        call_site: the line of the user's program that made the operator.
        optional_state: where the operator keeps its state; None for one that declares none. See :attr:`state`.
        job_parameters: the job's configuration as the user gave it.
        cache: by name, what earlier instances of the same subtask have cached in this process, and where this one
            leaves it for later ones. It is empty where the process is another one, an epoch has failed, or memory is
            short.
        metrics: those that functions have made.
        watermark: the event time that it has reached when it is opened.
        changed_windows: what becomes of what windows hold that are declared otherwise now.
        renamed_fields: which fields of the records that the operator itself keeps have other names than in what is
            stored.
        counted: counters of what happens while it is opened, which belong to the epoch that follows.
        machine_folder: a folder of the job that all tasks on this machine share; None where there is none.
    """

    name: str
    uid: str
    subtask: int
    parallelism: int
    max_parallelism: int
    call_site: CallSite
    optional_state: OperatorStates | None = None
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    cache: dict[str, ProcessLocalCache] = field(default_factory=dict)
    metrics: MetricRegistry = field(default_factory=MetricRegistry)
    watermark: int = MIN_WATERMARK
    changed_windows: ChangedWindows = ChangedWindows.FAIL
    renamed_fields: RenamedFields = NOTHING_RENAMED
    counted: dict[str, int] = field(default_factory=dict)
    machine_folder: Path | None = None

    @property
    def state(self) -> OperatorStates:
        """The state of an operator whose spec declares some.

        Raises:
            StateError: when it declares none.
        """
        if self.optional_state is None:
            raise StateError(f"the spec of operator {self.name!r} (uid {self.uid}) declares no state")
        return self.optional_state


def cannot_go_on(context: OperatorContext, error: StateMigrationError) -> StateMigrationError:
    """The error that an operator cannot take up what is stored, with the operator and the line that made it."""
    return StateMigrationError(
        f"operator {context.name!r} (uid {context.uid}): {error}\n  operator defined at {context.call_site}"
    )


class UserCode(Protocol):
    """A caller of user functions, which opens and closes them with its operator."""

    def open(self, context: OperatorContext) -> None:
        """Open the functions, before the first call."""

    def close(self) -> None:
        """Close the functions, after the last call."""


class Operator(ABC):
    """One operator of one subtask, for the life of a worker; an epoch is one ``begin_epoch`` … ``end_epoch``.

    The task calls, in this order: ``open`` once; then per epoch ``begin_epoch``, any number of ``process`` and
    ``advance_watermark``, ``finish`` in the epoch in which the last input ended, ``end_epoch``; and ``close`` once.
    A batch may carry rising watermarks: the operator advances its own event time before the record that meets them.

    Attributes:
        maker: the user's function whose results are the records that are emitted, if there is one alone.
        why_insertions_only: why the operator takes only insertions, so that other records are refused before they
            reach it; empty if it takes all row kinds.
        user_code: expressions and aggregators that call functions of the user.
        hold: why nothing of the epoch may be published before the user releases it; empty if it may.
    """

    context: OperatorContext
    output: Output
    counters: dict[str, int]
    maker: Callable[..., Any] | None = None
    why_insertions_only: str = ""
    user_code: Sequence[UserCode] = ()
    hold: str = ""

    def __init__(self) -> None:
        self.counters = {}

    def open(self, context: OperatorContext, output: Output) -> None:
        """Called once before anything else; user functions are opened here."""
        self.context = context
        self.output = output
        for each in self.user_code:
            each.open(context)

    def restore_state(self, context: OperatorContext) -> None:
        """Restores the operator's own state from epoch to epoch; ``open`` does that too. Nothing else is called.

        The driver calls this on an operator of its own before a job runs, on states that have types but no rows, to
        check them: functions of the user stay closed.

        Raises:
            StateMigrationError: when something else is stored.
        """

    def begin_epoch(self, scope: EpochScope) -> None:
        """Start of an epoch: due processing-time timers fire here."""

    def begin_channel(self, watermark: int) -> None:
        """Before a shuffle only: what follows comes from another split, or piece of one, that reached ``watermark``."""

    @abstractmethod
    def process(self, input_index: int, batch: Batch) -> None:
        """Handle records of one input, in order."""

    def advance_watermark(self, watermark: int) -> None:
        """Event time has reached ``watermark``: fire what is due, then pass it on."""
        self.output.advance_watermark(watermark)

    def wake_up_time(self) -> int | None:
        """After an epoch: when the operator wants another one by the clock, beside its timers; None for never."""
        return None

    def finish(self) -> None:
        """Every input has ended (the watermark is at its maximum already): emit what was held back until now."""

    def end_epoch(self) -> None:
        """End of an epoch: put what is still buffered into state; nothing may be emitted any more after this."""

    def close(self) -> None:
        """Called once at the end of the life of the instance."""
        for each in reversed(self.user_code):
            each.close()

    def count(self, name: str, amount: int = 1) -> None:
        """Add to one of the epoch's counters (``numLateRecordsDropped``, say)."""
        if amount:
            self.counters[name] = self.counters.get(name, 0) + amount


_AnyBatch = TypeVar("_AnyBatch", bound=Batch)


class KeyedBatch(Batch):
    """A batch of a keyed stream. Each key is found and hashed once, before the first operator that needs it.

    Attributes:
        keys: the key of each record, in canonical form, with its hash.
    """

    __slots__ = ("keys",)

    keys: KeyColumn

    @classmethod
    def of(cls, batch: Batch, keys: KeyColumn) -> KeyedBatch:
        """The records of ``batch`` with their keys."""
        keyed = cls(
            batch.type,
            batch.timestamps,
            batch._watermarks,
            rows=batch._rows,
            columns=batch._columns,
            kinds=batch._kinds,
            ordinals=batch.ordinals,
        ).made_as(batch)
        keyed.keys = keys
        return keyed

    def take(self, indices: npt.NDArray[np.integer[Any]]) -> KeyedBatch:
        return KeyedBatch.of(super().take(indices), self.keys.take(indices))

    def slice(self, start: int, stop: int) -> KeyedBatch:
        return KeyedBatch.of(super().slice(start, stop), self.keys.slice(start, stop))

    def with_timestamps(self, timestamps: npt.NDArray[np.int64]) -> KeyedBatch:
        return self.with_times(timestamps, self._watermarks)

    def with_times(self, timestamps: npt.NDArray[np.int64], watermarks: npt.NDArray[np.int64] | Stamps) -> KeyedBatch:
        return KeyedBatch.of(super().with_times(timestamps, watermarks), self.keys)


def keys_of(batch: Batch) -> KeyColumn:
    """The keys of the records of a keyed input."""
    assert isinstance(batch, KeyedBatch), "the graph takes keyed records only"
    return batch.keys


class KeyedOperator(Operator):
    """An operator of which each input is keyed, as its spec declares.

    Its state is taken up before it is open, so that functions of the user find it in ``open``. Operators of which only
    some inputs are keyed override :meth:`process`.
    """

    def open(self, context: OperatorContext, output: Output) -> None:
        self.restore_state(context)
        super().open(context, output)

    def process(self, input_index: int, batch: Batch) -> None:
        if len(batch):
            assert isinstance(batch, KeyedBatch), "the graph takes keyed records only"
            self.process_keyed(input_index, batch)

    @abstractmethod
    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        """Handle records of one input, in order; there is at least one."""


def concat_keyed(batches: Sequence[_AnyBatch]) -> _AnyBatch:
    """The records of several batches of one stream, with their keys if they have any, one after the other."""
    if len(batches) == 1:
        return batches[0]
    joined: Any = concat(batches)
    keys = [batch.keys for batch in batches if isinstance(batch, KeyedBatch)]
    return KeyedBatch.of(joined, KeyColumn.concat(keys)) if keys else joined  # type: ignore[return-value]
