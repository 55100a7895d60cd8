"""The messages between the driver and the tasks: the job, each epoch, and the reports of tasks, failures included.

A user function that failed fails again when the task is run again, so Spark must not try again: it is reported.
What a machine may do better next time (a read error, a lost file, a lost envelope) is raised.
"""

from __future__ import annotations

import os
import socket
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from headrace.checkpoint.manifest import OperatorProgress, PartitionSnapshot
from headrace.common import errors
from headrace.common.errors import FailureOrigin, program_lines, shows_all
from headrace.common.logs import UNCONFIGURED, LogSettings
from headrace.metrics.registry import Measurements
from headrace.operators.user_code import RecordError, text_of
from headrace.plan.job_plan import PlannedOperator
from headrace.runtime.task.dependencies import NOTHING, JobDependencies
from headrace.runtime.task.task_clock import TaskTimes
from headrace.state.backend import CompactionOutcome
from headrace.state.state_file import VersionRef
from headrace.storage.folder import Folder


@dataclass(frozen=True, slots=True)
class SerializedJob:
    """A job as it travels to the tasks: constant for the job's life.

    The plan is unpickled for each chain of operators, which has functions of its own. So what else a process has to
    know of it lies beside it.

    Attributes:
        plan: the pickled :class:`~headrace.plan.job_plan.JobPlan`.
        name: the job's name.
        parallelism: how many tasks each stage has.
        fresh_instances: as in :class:`~headrace.plan.job_plan.PlanSettings`.
        storage: where its state is, and what is shipped to its tasks.
        dependencies: what its functions need besides.
        storage_options: how its sources and sinks reach object stores; not shown, since there are secrets among them.
        logs: how the processes that tasks run in are to print logs.
        payloads: the folder through which tasks on one machine hand large payloads to each other; None where Spark has
            them all.
        ends_in_driver: whether its last stage may run in the driver, where all tasks run on the driver's machine.
    """

    plan: bytes
    name: str
    parallelism: tuple[int, ...]
    fresh_instances: bool
    storage: Folder
    dependencies: JobDependencies = NOTHING
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    logs: LogSettings = UNCONFIGURED
    payloads: str | None = None
    ends_in_driver: bool = False

    @property
    def state(self) -> Folder:
        """The folder of the state files."""
        return self.storage.folder("state")

    @property
    def shipped(self) -> Folder:
        """The hash of what the blob holds, as of :func:`shipped_in`."""
        return shipped_in(self.storage)


def shipped_in(storage: Folder) -> Folder:
    """The folder of a job's storage that holds what is too large to be sent along with every task."""
    return storage.folder("shipped")


@dataclass(frozen=True, slots=True)
class SplitAssignment:
    """One piece of one split, or all of them, to be read by one task of stage 0.

    Attributes:
        source: uid of the source.
        channel: the number of the split within the job.
        piece: its number among the split's pieces in this epoch.
        reads: what the reader needs, one after the other; none when the split has no input in this epoch.
        starts: by uid of the operators that make watermarks, what each has reached; for pieces after the first nothing
            is known of the pieces before, so all start from the beginning and the receivers make it whole.
        generators: for each of them whose generator has a memory, that memory.
        ends: whether the split ends with this piece.
        idle: the watermark-making operators that have been silent for their idle timeout.
    """

    source: str
    channel: int
    piece: int
    reads: tuple[Any, ...]
    starts: Mapping[str, int]
    generators: Mapping[str, object] = field(default_factory=dict)
    ends: bool = False
    idle: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PartitionContext:
    """The input of one task of a later stage, or of a stage 0 that holds state.

    Attributes:
        versions: the state to read; several after a change of parallelism.
        progress: by uid of the operators, how far each has come.
        adoptions: runs that were compacted in the background and now replace others.
        dealt: by uid, the operators whose state without keys is dealt out again, with the numbers of subtasks that they
            had; only in the first epoch after a start of the job.
    """

    versions: tuple[VersionRef, ...] = ()
    progress: Mapping[str, OperatorProgress] = field(default_factory=dict)
    adoptions: tuple[CompactionOutcome, ...] = ()
    dealt: Mapping[str, int] = field(default_factory=dict)

    def reached(self, uid: str) -> OperatorProgress:
        """Return how far an operator has come."""
        return self.progress.get(uid, _NOT_BEGUN)

    def event_time_of(self, operator: PlannedOperator) -> int:
        """The event time that an operator has reached: that of its inputs, or, behind these, what it has passed on."""
        reached = self.reached(operator.uid)
        return reached.output if operator.node.spec.event_time_lag else reached.watermark


_NOT_BEGUN: Final = OperatorProgress()


@dataclass(frozen=True, slots=True)
class EpochContext:
    """Everything that is fixed before an epoch runs; a task that runs again gets the same.

    Attributes:
        job_id: the job's id.
        epoch: the epoch's number.
        previous: the epoch that was run before it; manifests without an epoch take numbers as well.
        generation: that of the job manager, as in :class:`headrace.checkpoint.manifest.Manifest`.
        processing_time: the clock's reading in milliseconds.
        assignments: for each task of stage 0, what it reads.
        partitions: what each task of a later stage starts from; and each of stage 0, if that holds state.
        stalled: uids of operators behind a source that waits for its next split: their event time stands still.
        is_last: whether every source ends in this epoch.
        goes_on_from: the checkpoint that it begins with; None where no epoch of the job was ever completed.
    """

    job_id: str
    epoch: int
    previous: int
    generation: int
    processing_time: int
    assignments: Mapping[int, tuple[SplitAssignment, ...]]
    partitions: Mapping[tuple[int, int], PartitionContext]
    stalled: frozenset[str] = frozenset()
    is_last: bool = False
    goes_on_from: int | None = None

    def for_sources(self) -> list[EpochContext]:
        """For each task of stage 0, only what it needs: what it reads, its state, and what it passes to later tasks."""
        handed_on: list[dict[tuple[int, int], PartitionContext]] = [{} for _ in self.assignments]
        for (stage, partition), start in self.partitions.items():
            handed_on[hands_on(partition, len(self.assignments))][stage, partition] = start
        return [
            replace(self, assignments={subtask: self.assignments[subtask]}, partitions=partitions)
            for subtask, partitions in enumerate(handed_on)
        ]


def hands_on(partition: int, sources: int) -> int:
    """Return which of the ``sources`` tasks of stage 0 sends a later task its start, in fair shares."""
    return partition % sources


@dataclass(frozen=True, slots=True)
class ChannelReport:
    """The progress of one operator that makes watermarks, after one piece of a split.

    Attributes:
        operator: uid of the operator.
        channel: the split.
        watermark: what it has reached, by the piece alone.
        saw_records: whether any record reached it.
        generator: the memory of its generator, if it has one.
        event_time: the timestamp of the last record that reached it, in milliseconds; None where there was none.
    """

    operator: str
    channel: int
    watermark: int
    saw_records: bool
    generator: object = None
    event_time: int | None = None


class Traffic(NamedTuple):
    """The numbers of what went through an operator in an epoch.

    Attributes:
        records_out: records that it has emitted.
        bytes_in: bytes of records that came from other tasks.
        bytes_out: bytes of records that went to other tasks.
    """

    records_out: int
    bytes_in: int
    bytes_out: int


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The report of one task about an epoch; operators are identified by uid.

    Attributes:
        stage: its stage.
        partition: its number within the stage.
        snapshot: what the manifest keeps of it.
        state_sizes: bytes in all runs of its state, by uid and name of the store.
        channels: stage 0 only.
        committables: those of each sink.
        counters: the epoch's counters.
        records: records that went into the operator.
        traffic: what went through the operator, where anything has.
        metrics: those of the user's functions.
        held: why an operator holds the epoch's output back, where one does.
        error: why the epoch cannot be finished, for the user; the task itself has not failed.
        times: where its time went; the runtime adds that in the driver, as it is another in each attempt.
    """

    stage: int
    partition: int
    snapshot: PartitionSnapshot = field(default_factory=PartitionSnapshot)
    state_sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    channels: tuple[ChannelReport, ...] = ()
    committables: Mapping[str, list[object]] = field(default_factory=dict)
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    records: Mapping[str, int] = field(default_factory=dict)
    traffic: Mapping[str, Traffic] = field(default_factory=dict)
    metrics: Mapping[str, Measurements] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    error: TaskFailure | None = None
    times: TaskTimes | None = field(default=None, compare=False)


def with_times(reports: Iterable[TaskReport], times: Iterable[TaskTimes]) -> list[TaskReport]:
    """The reports of an epoch, each with where the time of its task went, as far as that is known."""
    known = {(each.stage, each.partition): each for each in times}
    return [replace(report, times=known.get((report.stage, report.partition))) for report in reports]


REPORTED = (
    errors.UserFunctionError,
    errors.InvalidProgramError,
    errors.BadRecordError,
    errors.SourceChangedError,
    errors.StateMigrationError,
    errors.StateCorruptedError,
    errors.UnsupportedOperationError,
    ArithmeticError,
    SystemExit,  # of user code that is called outside of operators: a __reduce__, say
)
"""Errors that running the task again cannot repair."""

_HOW_TO_REPAIR: Final = (
    " (in {}). Put it back as it was, and the job goes on; where there is no intact copy, start with a fresh "
    "checkpoint directory and a fresh output"
)


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """A failure of the user's code or input, on its way to the driver.

    Attributes:
        error: name of the class in :mod:`headrace.common.errors`.
        message: what was wrong, where, and what to do.
        details: the traceback inside the task.
        program: the part of it that is the program's own, when that has more than the message.
        origin: what failed, where that is known, with the process of the task.
    """

    error: str
    message: str
    details: str
    program: str
    origin: FailureOrigin | None = None

    @staticmethod
    def of(error: BaseException, state: Folder) -> TaskFailure:
        """An error in a form that travels.

        Args:
            error: what was raised.
            state: where the state files are, of which errors have the names only.
        """
        kind = next((cls.__name__ for cls in type(error).__mro__ if hasattr(errors, cls.__name__)), "JobExecutionError")
        details = "".join(traceback.format_exception(error))
        message = text_of(error) or type(error).__name__
        if isinstance(error, errors.StateCorruptedError):
            message += _HOW_TO_REPAIR.format(state)
        program = details
        if isinstance(error, errors.HeadraceError):
            cause = error.__cause__
            raised = cause.__cause__ if isinstance(cause, RecordError) else cause
            program = program_lines(raised) if raised else ""
        return TaskFailure(kind, message, details, program, _here(getattr(error, "origin", None)))

    def to_error(self) -> errors.HeadraceError:
        """The error, to be raised in the driver."""
        error: errors.HeadraceError = getattr(errors, self.error)(self.message)
        error.origin = self.origin
        note = self.details if shows_all() else self.program
        if note:
            error.add_note(f"in the task:\n{note.rstrip()}")
        return error


def _here(origin: FailureOrigin | None) -> FailureOrigin | None:
    """Return where a failure came from, with this process."""
    if origin is None:
        return None
    return replace(origin, executor=f"{socket.gethostname()}, process {os.getpid()}")
