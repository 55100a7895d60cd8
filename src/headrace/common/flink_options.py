"""Flink's options that headrace does not have: those that may be set without effect, and those that are refused.

The first are checked, kept and given back, with a warning when they are set to something else than what holds anyway.
The others would be missed: a job without them would do something else, unnoticed.
"""

from dataclasses import dataclass
from typing import Any, Final

from headrace.common.config_options import ConfigOption, boolean, choice, duration, integer, memory_size, number
from headrace.common.type_variables import T

_COUNT: Final = 2**31 - 1


@dataclass(frozen=True)
class FlinkOption(ConfigOption[T]):
    """An option without effect.

    Attributes:
        reason: why, for the warning; begins in lower case.
    """

    reason: str = ""


def _option(key: str, parse: Any, default: Any, reason: str, *older_keys: str) -> FlinkOption:
    return FlinkOption(key, parse, default, deprecated_keys=older_keys, reason=reason)


_SIZED_BY_SPARK: Final = "Spark starts and sizes the processes, by its own settings"
_CHAINS: Final = "what runs chained follows from the shuffles"
_NO_BARRIERS: Final = "no barriers travel among the records: an epoch's end is the checkpoint, so nothing is aligned"
_NO_JAVA_TYPES: Final = "no record is ever a Java object"
_ENDS_WITH_EPOCH: Final = "a job that is cancelled gives up its epoch, and is left behind after a quarter of a minute"
_SENT_WITH_EPOCH: Final = "records travel at the end of an epoch; see headrace.epoch.target-duration"
_IS_A_LOG: Final = "state is a log of changes as it is"
_AS_STREAMS: Final = "in batch mode records and state are worked on as in streaming mode"


def _buffer_timeout(text: str) -> int:
    return -1 if text.strip() == "-1" else duration(text)  # -1: until the buffer is full


BUFFER_TIMEOUT: Final = _option(
    "execution.buffer-timeout.interval",
    _buffer_timeout,
    100,
    _SENT_WITH_EPOCH,
    "execution.buffer-timeout",
)
OPERATOR_CHAINING: Final = _option(
    "pipeline.operator-chaining.enabled", boolean, True, _CHAINS, "pipeline.operator-chaining"
)
CHAIN_DIFFERENT_MAX_PARALLELISM: Final = _option(
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism", boolean, True, _CHAINS
)
CHANGELOG: Final = _option("state.changelog.enabled", boolean, False, _IS_A_LOG, "state.backend.changelog.enabled")
MAX_CONCURRENT_CHECKPOINTS: Final = _option(
    "execution.checkpointing.max-concurrent-checkpoints",
    integer(1, _COUNT),
    1,
    "the commit of one epoch overlaps the next one, and no more",
)
UNALIGNED: Final = _option(
    "execution.checkpointing.unaligned.enabled", boolean, False, _NO_BARRIERS, "execution.checkpointing.unaligned"
)
FORCE_UNALIGNED: Final = _option("execution.checkpointing.unaligned.forced", boolean, False, _NO_BARRIERS)
ALIGNED_TIMEOUT: Final = _option(
    "execution.checkpointing.aligned-checkpoint-timeout",
    duration,
    0,
    _NO_BARRIERS,
    "execution.checkpointing.alignment-timeout",
)
SNAPSHOT_COMPRESSION: Final = _option(
    "execution.checkpointing.snapshot-compression",
    boolean,
    False,
    "state files are columns, written as they are mapped",
)
AUTO_WATERMARK_INTERVAL: Final = _option(
    "pipeline.auto-watermark-interval",
    duration,
    200,
    "a watermark is in force from the record on that makes it, not at intervals",
)
LATENCY_INTERVAL: Final = _option("metrics.latency.interval", duration, 0, "no markers travel among the records")
CLOSURE_CLEANER: Final = _option(
    "pipeline.closure-cleaner-level",
    choice("RECURSIVE", "TOP_LEVEL", "NONE"),
    "RECURSIVE",
    "functions travel as they are",
)
OBJECT_REUSE: Final = _option(
    "pipeline.object-reuse", boolean, False, "operators hand whole batches on, and never copy records"
)
FORCE_KRYO: Final = _option("pipeline.force-kryo", boolean, False, _NO_JAVA_TYPES)
FORCE_AVRO: Final = _option("pipeline.force-avro", boolean, False, _NO_JAVA_TYPES)
GENERIC_TYPES: Final = _option("pipeline.generic-types", boolean, True, _NO_JAVA_TYPES)
CANCELLATION_INTERVAL: Final = _option(
    "task.cancellation.interval", duration, 30_000, _ENDS_WITH_EPOCH, "task.cancellation-interval"
)
CANCELLATION_TIMEOUT: Final = _option("task.cancellation.timeout", duration, 180_000, _ENDS_WITH_EPOCH)

_WITHOUT_SETTERS: Final[dict[str, tuple[tuple[Any, ...], ...]]] = {
    "functions are handed whole Arrow batches, whose size follows from that of the epoch": (
        ("python.fn-execution.bundle.size", integer(1, _COUNT), 1000),
        ("python.fn-execution.arrow.batch.size", integer(1, _COUNT), 1000),
    ),
    _SENT_WITH_EPOCH: (
        ("python.fn-execution.bundle.time", duration, 1000),
        ("execution.buffer-timeout.enabled", boolean, True),
    ),
    "no memory is managed: spark.executor.pyspark.memory limits that of Python": (
        ("python.fn-execution.memory.managed", boolean, True),
    ),
    "what jobs count is counted by batch, and always": (("python.metric.enabled", boolean, True),),
    _SIZED_BY_SPARK: (("heartbeat.interval", duration, 10_000),),  # and sources have an option heartbeat.interval.ms
    "there is no profiler": (("python.profile.enabled", boolean, False),),
    "workers have the environment of executors": (("python.systemenv.enabled", boolean, True),),
    _CHAINS: (("python.operator-chaining.enabled", boolean, True),),
    "a program runs in the Python that it is started with": (("python.client.executable", str, "python"),),
    "it follows from headrace.runtime": (("python.execution-mode", choice("process", "thread"), "process"),),
    "state is looked up for all keys of a batch at once, and kept in memory for an epoch": (
        ("python.state.cache-size", integer(0, _COUNT), 1000),
        ("python.map-state.read-cache-size", integer(0, _COUNT), 1000),
        ("python.map-state.write-cache-size", integer(0, _COUNT), 1000),
        ("python.map-state.iterate-response-batch-size", integer(1, _COUNT), 1000),
        ("execution.async-state.total-buffer-size", integer(1, _COUNT), 6000),
        ("execution.async-state.active-buffer-size", integer(1, _COUNT), 1000),
        ("execution.async-state.active-buffer-timeout", duration, 1000),
    ),
    "the processes of tasks log as headrace.log.level and headrace.log.format say": (
        ("python.logging.default.level", str, None),
        ("python.logging.level.overrides", str, None),
    ),
    "it is for processes of PyFlink's own, which do not exist here": (
        ("python.job-options", str, None),
        ("python.internal.files-key-map", str, None),
        ("python.internal.requirements-file-key", str, None),
        ("python.internal.archives-key-map", str, None),
        ("python.loopback-server.address", str, None),
    ),
    _NO_JAVA_TYPES: (
        ("pipeline.force-kryo-avro", boolean, False),
        ("pipeline.serialization-config", str, None),
    ),
    "plans are drawn in a way of their own; see headrace explain": (
        ("pipeline.vertex-description-mode", choice("TREE", "CASCADING"), "TREE"),
        ("pipeline.vertex-name-include-index-prefix", boolean, False),
    ),
    "the split with the lowest watermark is read first": (
        ("pipeline.watermark-alignment.allow-unaligned-source-splits", boolean, False),
        ("pipeline.watermark-alignment.buffer-size", integer(1, _COUNT), 3),
    ),
    "the first epoch is a checkpoint": (("pipeline.sources.pause-until-first-checkpoint", boolean, False),),
    "there is a shuffle of Spark between all stages": (
        (
            "execution.batch-shuffle-mode",
            choice(
                "ALL_EXCHANGES_PIPELINED",
                "ALL_EXCHANGES_BLOCKING",
                "ALL_EXCHANGES_HYBRID_FULL",
                "ALL_EXCHANGES_HYBRID_SELECTIVE",
            ),
            "ALL_EXCHANGES_BLOCKING",
        ),
    ),
    _AS_STREAMS: (
        ("execution.sort-partition.memory", memory_size, 128 << 20),
        ("execution.sort-keyed-partition.memory", memory_size, 128 << 20),
        ("execution.sorted-inputs.enabled", boolean, True),
        ("execution.sorted-inputs.memory", memory_size, 128 << 20),
        ("execution.batch-state-backend.enabled", boolean, True),
    ),
    "the program itself is the driver, and its jobs run while it does": (
        ("execution.attached", boolean, False),
        ("execution.shutdown-on-attached-exit", boolean, False),
        ("execution.shutdown-on-application-finish", boolean, True),
        ("execution.submit-failed-job-on-application-error", boolean, False),
        ("execution.terminate-application-on-any-job-terminated-exceptionally", boolean, True),
        ("execution.program-config.enabled", boolean, True),
        ("execution.program-config.wildcards", str, None),
        ("execution.allow-client-job-configurations", boolean, True),
    ),
    "execution.checkpointing.dir alone says where checkpoints are": (
        (
            "execution.checkpointing.storage",
            choice("filesystem", "jobmanager"),
            "filesystem",
            "state.checkpoint-storage",
        ),
    ),
    "a checkpoint has what has changed, and refers to the files of earlier ones": (
        ("execution.checkpointing.incremental", boolean, True, "state.backend.incremental"),
    ),
    "execution.checkpointing.dir is the directory of one job": (
        ("execution.checkpointing.create-subdir", boolean, False, "state.checkpoints.create-subdir"),
    ),
    "the job manager deletes old files between epochs": (
        ("execution.checkpointing.cleaner.parallel-mode", boolean, True, "state.checkpoint.cleaner.parallel-mode"),
    ),
    "a task writes one state file in an epoch, or none": (
        (
            "execution.checkpointing.write-buffer-size",
            integer(1, _COUNT),
            4096,
            "state.storage.fs.write-buffer-size",
            "state.backend.fs.write-buffer-size",
        ),
        ("execution.checkpointing.file-merging.enabled", boolean, False),
        ("execution.checkpointing.file-merging.across-checkpoint-boundary", boolean, False),
        ("execution.checkpointing.file-merging.max-file-size", memory_size, 32 << 20),
        ("execution.checkpointing.file-merging.pool-blocking", boolean, False),
        ("execution.checkpointing.file-merging.max-subtasks-per-file", integer(1, _COUNT), 4),
        ("execution.checkpointing.file-merging.max-space-amplification", number(), 2.0),
    ),
    "tasks map state files from the checkpoint directory, and keep them open": (
        ("execution.checkpointing.local-backup.enabled", boolean, False),
        ("execution.checkpointing.local-backup.dirs", str, None, "taskmanager.state.local.root-dirs"),
        ("execution.state-recovery.from-local", boolean, False, "state.backend.local-recovery"),
    ),
    "a failure never loses what an operator has taken in": (
        (
            "execution.state-recovery.approximate-local-recovery",
            boolean,
            False,
            "execution.checkpointing.approximate-local-recovery",
        ),
    ),
    _NO_BARRIERS: (
        (
            "execution.state-recovery.without-channel-state.checkpoint-id",
            integer(-1, 2**63 - 1),
            -1,
            "execution.checkpointing.recover-without-channel-state.checkpoint-id",
        ),
        ("execution.checkpointing.unaligned.interruptible-timers.enabled", boolean, False),
        ("execution.checkpointing.unaligned.max-subtasks-per-channel-state-file", integer(1, _COUNT), 5),
        ("execution.checkpointing.unaligned.recover-output-on-downstream.enabled", boolean, False),
        ("execution.checkpointing.during-recovery.enabled", boolean, False),
    ),
    "every epoch is a checkpoint, to the last": (
        (
            "execution.checkpointing.checkpoints-after-tasks-finish",
            boolean,
            True,
            "execution.checkpointing.checkpoints-after-tasks-finish.enabled",
        ),
    ),
    _IS_A_LOG: (
        (
            "state.changelog.periodic-materialize.enabled",
            boolean,
            True,
            "state.backend.changelog.periodic-materialize.enabled",
        ),
        (
            "state.changelog.periodic-materialize.interval",
            duration,
            600_000,
            "state.backend.changelog.periodic-materialize.interval",
        ),
        ("state.changelog.max-failures-allowed", integer(0, _COUNT), 3, "state.backend.changelog.max-failures-allowed"),
        ("state.changelog.storage", str, "memory", "state.backend.changelog.storage"),
    ),
    _ENDS_WITH_EPOCH: (("task.cancellation.timers.timeout", duration, 7_500),),
}
"""Options that only a configuration sets, by the reason: key, parser, default, and deprecated keys."""

FLINK_OPTIONS: Final[dict[str, FlinkOption]] = {
    key: option
    for option in (
        *tuple(globals().values()),
        *(_option(*row[:3], reason, *row[3:]) for reason, rows in _WITHOUT_SETTERS.items() for row in rows),
    )
    if isinstance(option, FlinkOption)
    for key in (option.key, *option.deprecated_keys)
}
"""All of them by key, the older keys included."""

_OF_CLIENTS: Final = "what commands wait for is said by their --timeout"
_FROM_SNAPSHOT: Final = "every answer is made of a snapshot at once, and the sizes of requests are bounded"
_NO_PROFILER: Final = "there is no profiler"

FAMILIES: Final[dict[str, str]] = {
    "execution.batch.": _AS_STREAMS,
    "events.": "what happens to a job is logged, and reporters of spans get what takes a time",
    "heartbeat.rpc-failure-threshold": _SIZED_BY_SPARK,
    "heartbeat.timeout": _SIZED_BY_SPARK,
    "high-availability.": "a job that is started again goes on from its checkpoint directory",
    "jobmanager.": _SIZED_BY_SPARK,
    "metrics.fetcher.": "metrics come with what tasks report at the end of an epoch",
    "metrics.internal.": "metrics come with what tasks report at the end of an epoch",
    "metrics.latency.": LATENCY_INTERVAL.reason,
    "metrics.system-resource": "the machine is measured by what is made for that, as Prometheus's node exporter",
    "rest.await-leader-timeout": _OF_CLIENTS,
    "rest.cache.": _FROM_SNAPSHOT,
    "rest.client.": _OF_CLIENTS,
    "rest.connection-timeout": _OF_CLIENTS,
    "rest.flamegraph.": _NO_PROFILER,
    "rest.idleness-timeout": _OF_CLIENTS,
    "rest.profiling.": _NO_PROFILER,
    "rest.retry.": _OF_CLIENTS,
    "rest.server.": _FROM_SNAPSHOT,
    "slotmanager.": _SIZED_BY_SPARK,
    "state.backend.forst.": "state lies in files that are mapped into memory",
    "state.backend.latency-track.": "nothing of single accesses to state is measured",
    "state.backend.rocksdb.": "tables are written sorted, and at once: there are no write buffers, levels or threads",
    "state.latency-track.": "nothing of single accesses to state is measured",
    "state.size-track.": "nothing of single accesses to state is measured",
    "taskmanager.": _SIZED_BY_SPARK,
    "traces.checkpoint.": "the span of an epoch has all of its parts",
}
"""The beginnings of the keys of groups of options without effect, and why they have none."""

_LISTENERS: Final = "listeners are Java classes in Flink; a program can wait for its JobClient"
_WITH_HEADRACE: Final = "give the master of Spark, with headrace.spark.master or headrace run --master"

REFUSED_OPTIONS: Final[dict[str, str]] = {
    "python.pythonpath": "use python.files, or add_python_file(...)",
    "pipeline.jars": "use add_jars(...), or spark.jars",
    "pipeline.classpaths": "use add_classpaths(...), or spark.driver.extraClassPath and spark.executor.extraClassPath",
    "pipeline.global-job-parameters": "set each parameter as a key of its own, or use set_global_job_parameters(...)",
    "pipeline.jobvertex-parallelism-overrides": "call set_parallelism(...) on the operators",
    "execution.target": _WITH_HEADRACE,
    "execution.job-listeners": _LISTENERS,
    "execution.job-status-changed-listeners": _LISTENERS,
}
"""The alternatives of headrace, by key."""


def reason_of_family(key: str) -> str | None:
    """The reason why an option of one of :data:`FAMILIES` has no effect; None for any other key."""
    return next((reason for prefix, reason in FAMILIES.items() if key.startswith(prefix)), None)
