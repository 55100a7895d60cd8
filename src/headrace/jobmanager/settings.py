"""The settings of a job, and how they follow from its configuration."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from headrace.common import options, scheduler_options, server_options
from headrace.common.configuration import Configuration
from headrace.common.errors import CheckpointStorageError, ConfigurationError
from headrace.common.job_status import JobStatus
from headrace.common.logs import get_logger
from headrace.graph.specs import OperatorSpec
from headrace.jobmanager.autoscaler import AutoscalerSettings, ReactiveSettings
from headrace.jobmanager.failover import (
    NO_RESTART,
    ExponentialDelay,
    FailureEnricher,
    FailureRate,
    FailureRules,
    FixedDelay,
    RestartStrategy,
    load_enrichers,
)
from headrace.jobmanager.start import PositionsStart, SavepointStart
from headrace.plan.job_plan import JobPlan
from headrace.plan.window_paths import BY_COLUMNS, gives_at_end, is_join, path_of, spills
from headrace.runtime.task.messages import SerializedJob
from headrace.savepoint.uid_mapping import SAME_UIDS, UidMapping

logger = get_logger(__name__)


class Retention(Enum):
    """After which last statuses of a job its checkpoints are deleted; names as in Flink."""

    RETAIN_ON_CANCELLATION = frozenset[JobStatus]()
    DELETE_ON_CANCELLATION = frozenset({JobStatus.CANCELED})
    NO_EXTERNALIZED_CHECKPOINTS = frozenset({JobStatus.CANCELED, JobStatus.FAILED, JobStatus.FINISHED})

    def deletes(self, status: JobStatus) -> bool:
        """Return whether checkpoints go when a job has ended like that."""
        return status in self.value


RESTARTS_WITHOUT_CHECKPOINTS: Final = 10
"""The restarts in a row of a job that has neither a checkpoint directory nor a restart strategy of its own.

It can be restarted here, unlike in Flink, as an epoch can be run again from memory; but a program that is tried out
should fail at some time if it can never work."""

MOST_DEATHS_WITHOUT_CHECKPOINTS: Final = 3
"""The workers of such a job that may die in a row in one epoch: native code that crashes, and a function that ends its
process, do it again, and a program that is tried out is to fail soon."""


class _EpochDefaults(NamedTuple):
    """The aims of epochs where the configuration does not set them.

    Attributes:
        target_duration: how long an epoch should take, in milliseconds.
        first_records: how many records the first one reads.
        max_records: how many records one subtask reads at most.
        timeout: how long one may take before it is run again, in milliseconds.
        max_bytes: how many bytes one subtask reads at most.
    """

    target_duration: int
    first_records: int
    max_records: int
    timeout: int
    max_bytes: int = options.EPOCH_MAX_BYTES.default


_IN_STREAMING_MODE: Final = _EpochDefaults(
    options.EPOCH_TARGET_DURATION.default,
    options.EPOCH_FIRST_RECORDS.default,
    options.EPOCH_MAX_RECORDS.default,
    options.CHECKPOINT_TIMEOUT.default,
)

_WHERE_NOBODY_WAITS: Final = 60_000

_IN_BATCH_MODE: Final = _EpochDefaults(_WHERE_NOBODY_WAITS, 500_000, 5_000_000, 7_200_000)
"""Single results are not awaited, and large epochs write less. At ten milliseconds a record the first one still
ends in time. What an epoch holds in memory is bounded by its records, as an epoch may take a minute."""

_MOST_IN_COLUMNS: Final = 10_000_000
"""The most records that one subtask reads where all state is in columns, which take less memory than objects."""

_UNBOUNDED: Final = 1 << 40

_IN_ONE_EPOCH: Final = _EpochDefaults(_WHERE_NOBODY_WAITS, _UNBOUNDED, _UNBOUNDED, 7 * 24 * 3_600_000, _UNBOUNDED)
"""With all input in one epoch joins in batch mode have nothing to keep between two, which would be written into state
and read again. What they hold within it goes to the machine's own disk when it is much."""


@dataclass(frozen=True, slots=True)
class EpochLimits:
    """The limits that the configuration sets.

    Attributes:
        max_records: records an epoch.
        max_bytes: bytes an epoch, as the sources store them.
        target_seconds: how long an epoch should take.
        first_records: how many records the first epoch has.
        backlog_seconds: how long an epoch should take while history is read; as all others when left out.
    """

    max_records: int
    max_bytes: int
    target_seconds: float
    first_records: int = options.EPOCH_FIRST_RECORDS.default
    backlog_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class JobSettings:
    """The settings of a job manager.

    Attributes:
        limits: how large epochs may be.
        restart: what happens when something fails that may pass.
        rules: which failures may pass.
        poll_seconds: how often sources are looked at while nothing happens.
        min_interval_seconds: the shortest time between two epochs.
        min_pause_seconds: how long the work of an epoch takes at least, or the next one begins later.
        retention: when checkpoints are deleted.
        exception_history_size: how many of the latest failures are kept.
        enrichers: what labels failures.
        epoch_timeout_seconds: an epoch that takes longer is given up and run again.
        ignore_unclaimed_state: whether what the program has no operators for is left behind.
        backlog_lag: what is further behind the clock is history, in milliseconds; None: only sources say what is.
        rescaling: how the parallelism follows the cluster, or the input; None when it is fixed.
        start: the savepoint that a job begins with which has no checkpoint of its own; None for none.
        uids: the program's uids where they are others in the job's own checkpoint; those in ``start`` it knows itself.
        savepoint_directory: that of savepoints whose request names none; None where a request has to name one.
        job_id: the id that the job gets where its checkpoint directory has none; None for any.
    """

    limits: EpochLimits
    restart: RestartStrategy
    rules: FailureRules = field(default_factory=FailureRules)
    poll_seconds: float = 0.1
    min_interval_seconds: float = 0.0
    min_pause_seconds: float = 0.0
    retention: Retention = Retention.RETAIN_ON_CANCELLATION
    exception_history_size: int = 16
    enrichers: tuple[FailureEnricher, ...] = ()
    epoch_timeout_seconds: float = 600.0
    ignore_unclaimed_state: bool = False
    backlog_lag: int | None = None
    rescaling: ReactiveSettings | AutoscalerSettings | None = None
    start: SavepointStart | None = None
    uids: UidMapping = SAME_UIDS
    savepoint_directory: str | None = None
    job_id: str | None = None


def job_settings(configuration: Configuration, plan: JobPlan) -> JobSettings:
    """The settings of the job manager that follow from the configuration and the plan."""
    readers = plan.stages[0].parallelism
    defaults = _defaults(configuration, plan)
    start = _start(configuration)
    return JobSettings(
        limits=EpochLimits(
            max_records=configuration.get(options.EPOCH_MAX_RECORDS, defaults.max_records) * readers,
            max_bytes=configuration.get(options.EPOCH_MAX_BYTES, defaults.max_bytes) * readers,
            target_seconds=_target_duration(configuration, defaults) / 1000,
            first_records=configuration.get(options.EPOCH_FIRST_RECORDS, defaults.first_records),
            backlog_seconds=(configuration.get(options.BACKLOG_INTERVAL) or _WHERE_NOBODY_WAITS) / 1000,
        ),
        restart=restart_strategy(configuration),
        rules=FailureRules(
            restarts_functions=configuration.get(scheduler_options.RESTART_STRATEGY) is not None,
            most_deaths=MOST_DEATHS_WITHOUT_CHECKPOINTS if _would_fail_in_flink(configuration) else None,
            tolerable_checkpoints=configuration.get(options.TOLERABLE_FAILED_CHECKPOINTS),
        ),
        poll_seconds=configuration.get(options.SOURCE_POLL_INTERVAL) / 1000,
        min_interval_seconds=configuration.get(options.EPOCH_MIN_INTERVAL) / 1000,
        min_pause_seconds=configuration.get(options.MIN_PAUSE) / 1000,
        retention=Retention[configuration.get(options.CHECKPOINT_RETENTION)],
        exception_history_size=configuration.get(scheduler_options.EXCEPTION_HISTORY_SIZE),
        enrichers=tuple(load_enrichers(configuration.get(scheduler_options.FAILURE_ENRICHERS))),
        epoch_timeout_seconds=configuration.get(options.CHECKPOINT_TIMEOUT, defaults.timeout) / 1000,
        ignore_unclaimed_state=configuration.get(options.IGNORE_UNCLAIMED_STATE),
        backlog_lag=configuration.get(options.BACKLOG_WATERMARK_LAG),
        rescaling=_rescaling(configuration),
        start=start,
        uids=UidMapping(configuration.get(options.UID_MAPPING)) if start is None else SAME_UIDS,
        savepoint_directory=configuration.get(options.SAVEPOINT_DIR),
        job_id=configuration.get(server_options.FIXED_JOB_ID),
    )


_BOUNDARY: Final = 0.3
"""The distance of the utilization from its target at which a job is rescaled, as in Flink."""


_BUSIEST: Final = 0.95
"""The utilization of a job that reads all it can: between epochs its tasks have nothing to do."""


def _rescaling(configuration: Configuration) -> ReactiveSettings | AutoscalerSettings | None:
    """Return how the parallelism follows the cluster, or the input; None where it does not.

    Raises:
        ConfigurationError: when it is to follow both, or utilizations are not in order.
    """
    is_reactive = configuration.get(scheduler_options.SCHEDULER_MODE) is not None
    if not configuration.get(scheduler_options.AUTOSCALER):
        stable = configuration.get(scheduler_options.RESCALE_STABILIZATION)
        cooldown = configuration.get(scheduler_options.RESCALE_COOLDOWN)
        return ReactiveSettings(stable, cooldown) if is_reactive else None
    if is_reactive:
        raise ConfigurationError(
            f"{scheduler_options.SCHEDULER_MODE.key}=reactive has the cluster say the parallelism, and "
            f"{scheduler_options.AUTOSCALER.key} the input: leave one of them out"
        )
    target = configuration.get(scheduler_options.AUTOSCALER_TARGET)
    lowest = configuration.get(scheduler_options.AUTOSCALER_MIN_UTILIZATION)
    highest = configuration.get(scheduler_options.AUTOSCALER_MAX_UTILIZATION)
    lowest = max(0.01, target - _BOUNDARY) if lowest is None else lowest
    highest = min(_BUSIEST, target + _BOUNDARY) if highest is None else highest
    if not 0 < lowest < target < highest:
        raise ConfigurationError(
            f"{scheduler_options.AUTOSCALER_MIN_UTILIZATION.key} ({lowest:g}), "
            f"{scheduler_options.AUTOSCALER_TARGET.key} ({target:g}) and "
            f"{scheduler_options.AUTOSCALER_MAX_UTILIZATION.key} ({highest:g}) have to rise, from above 0"
        )
    return AutoscalerSettings(
        is_applied=configuration.get(scheduler_options.AUTOSCALER_SCALING),
        window=configuration.get(scheduler_options.AUTOSCALER_WINDOW),
        stabilization=configuration.get(scheduler_options.AUTOSCALER_STABILIZATION),
        target=target,
        lowest_utilization=lowest,
        highest_utilization=highest,
        catch_up=configuration.get(scheduler_options.AUTOSCALER_CATCH_UP),
        restart=configuration.get(scheduler_options.AUTOSCALER_RESTART),
        most_up=configuration.get(scheduler_options.AUTOSCALER_SCALE_UP),
        most_down=configuration.get(scheduler_options.AUTOSCALER_SCALE_DOWN),
        lowest=configuration.get(scheduler_options.AUTOSCALER_LOWEST),
        highest=configuration.get(scheduler_options.AUTOSCALER_HIGHEST),
    )


def _start(configuration: Configuration) -> SavepointStart | None:
    location = configuration.get(options.RECOVERY_PATH)
    uids = configuration.get(options.UID_MAPPING)
    claims = configuration.get(options.CLAIM_MODE) == "CLAIM"
    for needed in (options.RECOVERY_PATH, options.CHECKPOINT_DIR) if claims else ():
        if configuration.get(needed) is None:
            logger.warning("%s is CLAIM and nothing is claimed: %s is not set", options.CLAIM_MODE.key, needed.key)
            claims = False
    if location is None:
        return None
    start = PositionsStart if configuration.get(options.RECOVERS_POSITIONS) else SavepointStart
    if uids and start is PositionsStart:
        raise ConfigurationError(
            f"{options.RECOVERS_POSITIONS.key} finds sources by what they read: leave {options.UID_MAPPING.key} out"
        )
    try:
        return start(location, configuration.storage_options(), claims=claims, uids=uids)
    except CheckpointStorageError as error:
        raise ConfigurationError(f"{options.RECOVERY_PATH.key} (-s): {error}") from error


def _target_duration(configuration: Configuration, defaults: _EpochDefaults) -> int:
    """Return how many milliseconds an epoch should take: a checkpoint ends it, which has an interval and a pause."""
    target = configuration.get(options.EPOCH_TARGET_DURATION, defaults.target_duration)
    longest = configuration.get(options.CHECKPOINT_INTERVAL)
    return max(target if longest is None else min(target, longest), configuration.get(options.MIN_PAUSE))


def _defaults(configuration: Configuration, plan: JobPlan) -> _EpochDefaults:
    if not plan.settings.is_batch:
        return _IN_STREAMING_MODE
    kept = [operator.node.spec for operator in plan.operators() if operator.state_kinds]
    if kept and all(is_join(spec) or gives_at_end(spec) for spec in kept) and not _wants_checkpoints(configuration):
        return _of_joins(configuration, kept)
    paths = map(path_of, kept)
    is_in_columns = all(path is not None and path.name == BY_COLUMNS for path in paths)
    return _IN_BATCH_MODE._replace(max_records=_MOST_IN_COLUMNS) if is_in_columns else _IN_BATCH_MODE


def _wants_checkpoints(configuration: Configuration) -> bool:
    """Return whether the longest time of an epoch is set, so that a run that is broken off loses no more than that."""
    is_timed = configuration.contains_key(options.EPOCH_TARGET_DURATION.key)
    return is_timed or configuration.get(options.CHECKPOINT_INTERVAL) is not None


def _of_joins(configuration: Configuration, joins: Sequence[OperatorSpec]) -> _EpochDefaults:
    """One epoch; where it is held in memory, as the local runtime holds it, for as many records as memory is for."""
    if configuration.get(options.RUNTIME) == "local" or not all(map(spills, joins)):
        return _IN_BATCH_MODE._replace(first_records=_IN_BATCH_MODE.max_records)
    return _IN_ONE_EPOCH


def restart_strategy(configuration: Configuration) -> RestartStrategy:
    """The restart strategy that the options name; exponential delay when they name none, as Flink with checkpoints.

    Raises:
        ConfigurationError: when the longest delay is shorter than the first.
    """
    match configuration.get(scheduler_options.RESTART_STRATEGY):
        case "none":
            return NO_RESTART
        case "fixed-delay":
            return FixedDelay(
                configuration.get(scheduler_options.FIXED_DELAY_ATTEMPTS),
                configuration.get(scheduler_options.FIXED_DELAY_DELAY) / 1000,
            )
        case "failure-rate":
            return FailureRate(
                configuration.get(scheduler_options.FAILURE_RATE_MAX_FAILURES),
                configuration.get(scheduler_options.FAILURE_RATE_INTERVAL),
                configuration.get(scheduler_options.FAILURE_RATE_DELAY) / 1000,
            )
        case _:
            return _exponential_delay(configuration)


def _exponential_delay(configuration: Configuration) -> ExponentialDelay:
    initial = configuration.get(scheduler_options.EXPONENTIAL_INITIAL_BACKOFF)
    maximum = configuration.get(scheduler_options.EXPONENTIAL_MAX_BACKOFF)
    if initial > maximum:
        raise ConfigurationError(
            f"{scheduler_options.EXPONENTIAL_INITIAL_BACKOFF.key} ({initial} ms) is longer than "
            f"{scheduler_options.EXPONENTIAL_MAX_BACKOFF.key} ({maximum} ms): set both"
        )
    attempts = configuration.get(scheduler_options.EXPONENTIAL_ATTEMPTS)
    if attempts is None and _would_fail_in_flink(configuration):
        attempts = RESTARTS_WITHOUT_CHECKPOINTS
    return ExponentialDelay(
        initial,
        maximum,
        configuration.get(scheduler_options.EXPONENTIAL_MULTIPLIER),
        configuration.get(scheduler_options.EXPONENTIAL_JITTER),
        configuration.get(scheduler_options.EXPONENTIAL_RESET),
        attempts,
    )


def _would_fail_in_flink(configuration: Configuration) -> bool:
    """Flink never restarts a job without checkpoints unless a strategy is named."""
    return (
        configuration.get(scheduler_options.RESTART_STRATEGY) is None
        and configuration.get(options.CHECKPOINT_DIR) is None
    )


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job at one parallelism.

    Attributes:
        plan: its plan.
        blob: the same, as it travels to the tasks.
        settings: how it is run.
    """

    plan: JobPlan
    blob: SerializedJob
    settings: JobSettings


Replan: TypeAlias = Callable[[int], PlannedJob]
"""Plans a job anew, with so many subtasks of each operator that does not say otherwise."""
