"""All that pages show of a job: plain values, so that it travels as JSON, and outlasts the job in an archive."""

from collections.abc import Mapping, Sequence

from headrace.server.wire import model


@model
class StatusView:
    """Since when, in milliseconds since 1970, a job has had a status."""

    status: str
    time: int


@model
class EpochView:
    """An epoch that is complete; times are seconds.

    Attributes:
        number: its number.
        ended: when it was complete, in milliseconds since 1970.
        records: the number of records that it has read.
        planning: the time in which sources looked what there is.
        reading: the time in which tasks read.
        shuffling: the time in which records travelled, and tasks were begun.
        operating: the time in which operators were at work.
        checkpointing: the time for the manifest and what belongs to it.
        committing: the time in which the job waited for sinks that have yet to commit epochs before.
        is_measured: whether reading, shuffling and operating are measured; else all of it is operating.
        watermark: the lowest event time of all sources, in milliseconds.
        state_bytes: bytes of all state.
        pending_commits: of how many epochs and sinks output had yet to be committed.
    """

    number: int
    ended: int
    records: int
    planning: float
    reading: float
    shuffling: float
    operating: float
    checkpointing: float
    committing: float
    is_measured: bool
    watermark: int
    state_bytes: int
    pending_commits: int


@model
class SubtaskView:
    """One subtask of an operator in the last minute; shares are of its time, from 0 to 1."""

    number: int
    busy: float
    idle: float
    back_pressured: float
    records_in: int
    rate_in: float
    state_bytes: int
    watermark: int | None


@model
class OperatorView:
    """An operator.

    Attributes:
        node: its number in the graph.
        uid: the identity of its state.
        has_explicit_uid: whether the program gave it.
        name: its name.
        role: ``Data Source``, ``Operator`` or ``Data Sink``.
        stage: its stage.
        parallelism: the number of its subtasks.
        call_site: the line of the program that declares it.
        busy: the share of its time in the last minute in which its busiest subtask was at work; None if not measured.
        idle: the share in which the subtask that idles most had nothing to do.
        back_pressured: the share in which the subtask that waits most waited for what comes behind it.
        records_in: records that went into it, since the job's first start.
        records_out: records that it has emitted.
        rate_in: records into it in a second.
        rate_out: records out of it in a second.
        late: late records that it has dropped.
        unreadable: messages that no record could be made of.
        unwritable: records that no message could be made of.
        violations: records that violate its expectations.
        watermark: the event time that it has reached, in milliseconds; None before it has any.
        pending_commits: of how many epochs its output has yet to be committed; None for what is no sink.
        subtasks: one by one.
    """

    node: int
    uid: str
    has_explicit_uid: bool
    name: str
    role: str
    stage: int
    parallelism: int
    call_site: str
    busy: float | None
    idle: float | None
    back_pressured: float | None
    records_in: int
    records_out: int
    rate_in: float
    rate_out: float
    late: int
    unreadable: int
    unwritable: int
    violations: int
    watermark: int | None
    pending_commits: int | None
    subtasks: tuple[SubtaskView, ...]


@model
class SplitView:
    """A split of a source.

    Attributes:
        uid: its source.
        source: the name of that.
        split_id: its id.
        watermark: how far its event time has come, in milliseconds; None where its source has no event time.
        is_idle: whether nothing waits for it.
        is_held_back: whether it waits for others that it is aligned with.
        is_slowest: whether it holds the event time of the job.
        pending_records: what is there and not read; None where that is not known.
        pending_bytes: likewise.
        read_at: when something of it was last read in this run, in milliseconds of the job's clock; None for never.
        idle_timeout: after how many milliseconds of silence nothing waits for it; None for never.
    """

    uid: str
    source: str
    split_id: str
    watermark: int | None
    is_idle: bool
    is_held_back: bool
    is_slowest: bool
    pending_records: int | None
    pending_bytes: int | None
    read_at: int | None
    idle_timeout: int | None


@model
class StateView:
    """A state of an operator.

    Attributes:
        uid: the operator.
        operator: its name.
        name: the name of the state.
        kind: what kind of state: ``keyed``, ``timers``, ``broadcast`` and so on; empty for what an operator keeps.
        bytes: its size.
        by_task: that in each task.
        growth: bytes in a second, over the last minutes; None before there is enough to tell.
    """

    uid: str
    operator: str
    name: str
    kind: str
    bytes: int
    by_task: tuple[int, ...]
    growth: float | None


@model
class SavepointView:
    """A savepoint of this run; times in milliseconds since 1970, 0 for not yet."""

    number: int
    epoch: int
    directory: str
    place: str
    error: str
    format: str
    begun: int
    ended: int


@model
class ResumptionView:
    """The job went on from a checkpoint in this run: after a failure, or with another parallelism."""

    time: int
    epoch: int
    is_rescaled: bool
    parallelism: int


@model
class FailureView:
    """A failure of the job.

    Attributes:
        number: counts them.
        time: when, in milliseconds of the job's clock.
        epoch: which epoch was at work.
        error: the class of the error.
        message: what it says.
        restart_in: after how many seconds the job began again; None where it did not.
        operator: the name of the operator that failed; None where it was none.
        uid: its uid.
        subtask: its subtask.
        record: the record that it failed on.
        executor: where that was.
        labels: what failure enrichers have found.
    """

    number: int
    time: int
    epoch: int
    error: str
    message: str
    restart_in: float | None
    operator: str | None
    uid: str | None
    subtask: int | None
    record: str | None
    executor: str | None
    labels: Mapping[str, str]


@model
class SeriesView:
    """One line of a chart: what it is of, and its values at the times of the trend; None where there is none."""

    name: str
    values: tuple[float | None, ...]


@model
class TrendView:
    """The course of the run, from its first epoch to the newest one.

    Attributes:
        times: in milliseconds since 1970.
        rate: records read in a second since the point before.
        pending: records that were there and not read.
        lag: by how many seconds event time was behind the clock, for each split.
        backlog: records that were there and not read, for each split.
        state: bytes, for each state.
        late: late records that were dropped in a second.
        rejected: records that could not be read or written, in a second.
    """

    times: tuple[int, ...]
    rate: tuple[float | None, ...]
    pending: tuple[float | None, ...]
    lag: tuple[SeriesView, ...]
    backlog: tuple[SeriesView, ...]
    state: tuple[SeriesView, ...]
    late: tuple[float | None, ...]
    rejected: tuple[float | None, ...]


@model
class BoxView:
    """An operator in the picture of the graph."""

    id: int
    name: str
    role: str
    notes: tuple[str, ...]
    asides: tuple[str, ...]


@model
class FrameView:
    """Operators that run together."""

    title: str | None
    boxes: tuple[BoxView, ...]


@model
class ArrowView:
    """Records on their way."""

    source: int
    target: int
    label: str
    is_exchange: bool


@model
class GraphView:
    """The graph of the job, as ``explain`` draws it."""

    headline: str
    frames: tuple[FrameView, ...]
    arrows: tuple[ArrowView, ...]


@model
class JobView:
    """A job at one moment; what is not known yet is None or empty.

    Attributes:
        id: its id.
        name: its name.
        now: the moment, in milliseconds since 1970.
        clock: the reading of the job's clock at that moment, which watermarks are compared with.
        history: the statuses of this run, the present one at the end.
        mode: ``STREAMING`` or ``BATCH``.
        parallelism: that of operators that have none of their own.
        max_parallelism: the highest one that it can be given.
        runtime: where its tasks run.
        web_url: where that is shown; empty for nowhere.
        version: that of headrace.
        generation: a number that rises with each start of the job.
        restored_epoch: the epoch that this run has begun from; None where it has not.
        savepoint: the savepoint that it has begun from; empty for none.
        stopped_with: the savepoint that it was stopped with; empty for none.
        end: how it has ended, in words; empty before.
        error: what it has failed with; empty for nothing.
        checkpoint_directory: where its checkpoints are; empty for a temporary folder.
        savepoint_directory: where savepoints are made by default; empty for nowhere.
        interval: milliseconds between two checkpoints.
        completed: the number of epochs that this run has completed.
        failed: the number of those that have failed.
        restarts: how often this run has begun again.
        rescales: how often it has got another plan.
        records: the number of records that this run has read.
        rate: records in a second, over the last minute.
        watermark: the lowest event time of all sources, in milliseconds; None before the first epoch.
        pending_records: records that are there and not read; None where that is not known.
        is_processing_backlog: whether a source reads what is history.
        state_bytes: bytes of all state.
        running_epoch: the epoch that runs; None between two epochs.
        running_since: since when, in milliseconds since 1970.
        at_work: the lines of the program that are at work, where that takes long and is known.
        waits_for: what it waits for before it begins; empty when it has begun.
        held_epoch: the epoch that waits for its release, since records of it violate expectations; None for none.
        held_for: the first violations of that.
        retry_in: after how many seconds the epoch that has failed is run again; None where nothing is repaired.
        epochs: the last ones.
        operators: all, producers before consumers.
        splits: those of all sources.
        states: all states, the largest first.
        savepoints: the last ones of this run.
        resumptions: when this run has gone on from a checkpoint.
        failures: the latest failures, of earlier runs too, the newest first.
        trend: what the run was like.
        graph: None before the job has begun.
        configuration: what it was submitted with; secrets are masked.
    """

    id: str
    name: str
    now: int
    clock: int
    history: tuple[StatusView, ...]
    mode: str
    parallelism: int
    max_parallelism: int
    runtime: str
    web_url: str
    version: str
    generation: int
    restored_epoch: int | None
    savepoint: str
    stopped_with: str
    end: str
    error: str
    checkpoint_directory: str
    savepoint_directory: str
    interval: int
    completed: int
    failed: int
    restarts: int
    rescales: int
    records: int
    rate: float
    watermark: int | None
    pending_records: int | None
    is_processing_backlog: bool
    state_bytes: int
    running_epoch: int | None
    running_since: int
    at_work: tuple[str, ...]
    waits_for: str
    held_epoch: int | None
    held_for: tuple[str, ...]
    retry_in: float | None
    epochs: tuple[EpochView, ...]
    operators: tuple[OperatorView, ...]
    splits: tuple[SplitView, ...]
    states: tuple[StateView, ...]
    savepoints: tuple[SavepointView, ...]
    resumptions: tuple[ResumptionView, ...]
    failures: tuple[FailureView, ...]
    trend: TrendView
    graph: GraphView | None
    configuration: Mapping[str, str]

    @property
    def status(self) -> str:
        """The present status."""
        return self.history[-1].status

    @property
    def is_over(self) -> bool:
        """Return whether it has ended."""
        return self.status in ENDED

    @property
    def started(self) -> int:
        """Return when this run was submitted, in milliseconds since 1970."""
        return self.history[0].time

    @property
    def ended(self) -> int | None:
        """Return when it has ended; None before."""
        return self.history[-1].time if self.is_over else None

    @property
    def seconds(self) -> float:
        """Return for how long it has run."""
        return ((self.ended or self.now) - self.started) / 1000

    @property
    def late(self) -> int:
        """Return the number of late records that were dropped."""
        return sum(operator.late for operator in self.operators)

    @property
    def rejected(self) -> int:
        """Return the number of records that could not be read or written."""
        return sum(operator.unreadable + operator.unwritable for operator in self.operators)

    @property
    def sinks(self) -> Sequence[OperatorView]:
        """Return the operators that write."""
        return [operator for operator in self.operators if operator.role == "Data Sink"]


ENDED = ("FINISHED", "FAILED", "CANCELED", "SUSPENDED")
"""The statuses of jobs that are over as far as their process is concerned."""
