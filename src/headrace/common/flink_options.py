"""Options of Flink that have nothing to act on here: they are checked, kept and given back, with a warning when set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeVar

from headrace.common.config_options import ConfigOption
from headrace.common.config_values import boolean, choice, duration, integer

T = TypeVar("T")

_COUNT: Final = 2**31 - 1


@dataclass(frozen=True)
class FlinkOption(ConfigOption[T]):
    """An option without effect.

    Attributes:
        reason: why, for the warning; begins in lower case.
    """

    reason: str = ""


def _option(key: str, parse: Any, default: Any, reason: str, *older_keys: str) -> FlinkOption[Any]:
    return FlinkOption(key, parse, default, deprecated_keys=older_keys, reason=reason)


_CHAINS: Final = "what runs chained follows from the shuffles"
_NO_BARRIERS: Final = "no barriers travel among the records: an epoch's end is the checkpoint, so nothing is aligned"
_NO_JAVA_TYPES: Final = "no record is ever a Java object"
_ENDS_WITH_EPOCH: Final = "a job that is cancelled gives up its epoch, and is left behind after a quarter of a minute"


def _buffer_timeout(text: str) -> int:
    return -1 if text.strip() == "-1" else duration(text)  # -1: until the buffer is full


BUFFER_TIMEOUT: Final = _option(
    "execution.buffer-timeout.interval",
    _buffer_timeout,
    100,
    "records travel at the end of an epoch; see headrace.epoch.target-duration",
    "execution.buffer-timeout",
)
OPERATOR_CHAINING: Final = _option(
    "pipeline.operator-chaining.enabled", boolean, True, _CHAINS, "pipeline.operator-chaining"
)
CHAIN_DIFFERENT_MAX_PARALLELISM: Final = _option(
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism", boolean, True, _CHAINS
)
CHANGELOG: Final = _option("state.changelog.enabled", boolean, False, "state is a log of changes as it is")
SAVEPOINT_DIR: Final = _option(
    "execution.checkpointing.savepoint-dir",
    str,
    None,
    "there are no savepoints yet; execution.checkpointing.dir has checkpoints",
    "state.savepoints.dir",
)
MIN_PAUSE: Final = _option(
    "execution.checkpointing.min-pause",
    duration,
    0,
    "epochs follow as data arrives; see headrace.epoch.min-interval",
)
MAX_CONCURRENT_CHECKPOINTS: Final = _option(
    "execution.checkpointing.max-concurrent-checkpoints",
    integer(1, _COUNT),
    1,
    "the commit of one epoch overlaps the next one, and no more",
)
TOLERABLE_FAILED_CHECKPOINTS: Final = _option(
    "execution.checkpointing.tolerable-failed-checkpoints",
    integer(0, _COUNT),
    0,
    "an epoch that fails is run again, under the restart strategy of the configuration",
)
CHECKPOINT_RETENTION: Final = _option(
    "execution.checkpointing.externalized-checkpoint-retention",
    choice("RETAIN_ON_CANCELLATION", "DELETE_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"),
    "RETAIN_ON_CANCELLATION",
    "the latest checkpoints are always kept",
)
UNALIGNED: Final = _option(
    "execution.checkpointing.unaligned.enabled", boolean, False, _NO_BARRIERS, "execution.checkpointing.unaligned"
)
FORCE_UNALIGNED: Final = _option("execution.checkpointing.unaligned.forced", boolean, False, _NO_BARRIERS)
ALIGNED_TIMEOUT: Final = _option("execution.checkpointing.aligned-checkpoint-timeout", duration, 0, _NO_BARRIERS)
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
CANCELLATION_INTERVAL: Final = _option("task.cancellation.interval", duration, 30_000, _ENDS_WITH_EPOCH)
CANCELLATION_TIMEOUT: Final = _option("task.cancellation.timeout", duration, 180_000, _ENDS_WITH_EPOCH)

FLINK_OPTIONS: Final[dict[str, FlinkOption[Any]]] = {
    key: option
    for option in tuple(globals().values())
    if isinstance(option, FlinkOption)
    for key in (option.key, *option.deprecated_keys)
}
"""All of them by key, the older keys included."""
