"""The options by which a job is rescaled, and restarted when it fails."""

from typing import Final

from headrace.common.config_options import (
    ConfigOption,
    boolean,
    choice,
    duration,
    integer,
    number,
    positive_duration,
    share,
)

_COUNT: Final = integer(1, 2**31 - 1)

SCHEDULER_MODE: Final = ConfigOption[str | None](
    "scheduler-mode",
    choice("reactive"),
    None,
    "reactive: the job goes on at another parallelism when executors come and go: as many subtasks as the cluster runs "
    "tasks at the same time, for all operators that do not set their own. Not with parallelism.default.",
)
RESCALE_STABILIZATION: Final = ConfigOption(
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout",
    duration,
    60_000,
    "In reactive mode, for how long the number of slots has to be the same before the job follows it.",
)
RESCALE_COOLDOWN: Final = ConfigOption(
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling",
    duration,
    30_000,
    "In reactive mode, how long after a change of parallelism there is none.",
    ("jobmanager.adaptive-scheduler.scaling-interval.min",),
)
AUTOSCALER: Final = ConfigOption(
    "job.autoscaler.enabled",
    boolean,
    False,
    "Whether the job is measured to find the parallelism at which it keeps up. Not in reactive mode.",
)
AUTOSCALER_SCALING: Final = ConfigOption(
    "job.autoscaler.scaling.enabled",
    boolean,
    True,
    "Whether the autoscaler rescales the job; else the log says to what it would.",
)
AUTOSCALER_WINDOW: Final = ConfigOption(
    "job.autoscaler.metrics.window", positive_duration, 900_000, "The time over which the autoscaler measures a job."
)
AUTOSCALER_STABILIZATION: Final = ConfigOption(
    "job.autoscaler.stabilization.interval",
    duration,
    300_000,
    "For how long after a start or a change the autoscaler measures nothing.",
)
AUTOSCALER_TARGET: Final = ConfigOption(
    "job.autoscaler.utilization.target",
    share,
    0.7,
    "The share of their time in which subtasks are to be busy.",
    ("job.autoscaler.target.utilization",),
)
AUTOSCALER_MIN_UTILIZATION: Final = ConfigOption[float | None](
    "job.autoscaler.utilization.min",
    share,
    None,
    "The utilization below which the job is scaled down; 0.3 below the target when not set.",
)
AUTOSCALER_MAX_UTILIZATION: Final = ConfigOption[float | None](
    "job.autoscaler.utilization.max",
    share,
    None,
    "The utilization above which the job is scaled up; 0.3 above the target, and at most 0.95, when not set.",
)
AUTOSCALER_CATCH_UP: Final = ConfigOption(
    "job.autoscaler.catch-up.duration",
    duration,
    1_800_000,
    "The time in which a backlog is to be gone; 0 for no matter when.",
)
AUTOSCALER_RESTART: Final = ConfigOption(
    "job.autoscaler.restart.time", duration, 5_000, "The time that a change of parallelism is taken to need."
)
AUTOSCALER_SCALE_UP: Final = ConfigOption(
    "job.autoscaler.scale-up.max-factor",
    number(0),
    100_000.0,
    "A job is scaled up by at most so many times its parallelism.",
)
AUTOSCALER_SCALE_DOWN: Final = ConfigOption(
    "job.autoscaler.scale-down.max-factor",
    share,
    0.6,
    "A job is scaled down by at most this share of its parallelism.",
)
AUTOSCALER_LOWEST: Final = ConfigOption(
    "job.autoscaler.vertex.min-parallelism", _COUNT, 1, "The lowest parallelism that the autoscaler chooses."
)
AUTOSCALER_HIGHEST: Final = ConfigOption[int | None](
    "job.autoscaler.vertex.max-parallelism",
    _COUNT,
    None,
    "The highest parallelism that the autoscaler chooses; the slots that the cluster has at that time when not set. "
    "Set it where executors are added on demand (spark.dynamicAllocation.enabled).",
)
FAILURE_ENRICHERS: Final = ConfigOption[str | None](
    "jobmanager.failure-enrichers",
    str,
    None,
    "The plugins that label the failures of the job, with commas between their names.",
)
EXCEPTION_HISTORY_SIZE: Final = ConfigOption(
    "web.exception-history-size",
    _COUNT,
    16,
    "How many of the job's latest failures are kept beside its checkpoints; `headrace failures` shows them.",
)
RESTART_STRATEGY: Final = ConfigOption[str | None](
    "restart-strategy.type",
    choice(
        "none",
        "fixed-delay",
        "failure-rate",
        "exponential-delay",
        others={
            "off": "none",
            "disable": "none",
            "fixeddelay": "fixed-delay",
            "failurerate": "failure-rate",
            "exponentialdelay": "exponential-delay",
        },
    ),
    None,
    "What happens after a failure that may pass. Set, it covers what functions of the program raise as well. When not "
    "set, exponential-delay, and a function that raises ends the job; a job without a checkpoint "
    "directory then gets ten restarts in a row at most.",
    ("restart-strategy",),
)
FIXED_DELAY_ATTEMPTS: Final = ConfigOption(
    "restart-strategy.fixed-delay.attempts", _COUNT, 1, "How often the job is restarted before it fails for good."
)
FIXED_DELAY_DELAY: Final = ConfigOption(
    "restart-strategy.fixed-delay.delay", duration, 1_000, "The time between a failure and the restart."
)
FAILURE_RATE_MAX_FAILURES: Final = ConfigOption(
    "restart-strategy.failure-rate.max-failures-per-interval",
    _COUNT,
    1,
    "How many failures within the interval are followed by a restart.",
)
FAILURE_RATE_INTERVAL: Final = ConfigOption(
    "restart-strategy.failure-rate.failure-rate-interval",
    positive_duration,
    60_000,
    "The interval in which failures are counted.",
)
FAILURE_RATE_DELAY: Final = ConfigOption(
    "restart-strategy.failure-rate.delay", duration, 1_000, "The time between a failure and the restart."
)
EXPONENTIAL_INITIAL_BACKOFF: Final = ConfigOption(
    "restart-strategy.exponential-delay.initial-backoff",
    positive_duration,
    1_000,
    "The time between the first failure and the restart.",
)
EXPONENTIAL_MAX_BACKOFF: Final = ConfigOption(
    "restart-strategy.exponential-delay.max-backoff",
    positive_duration,
    60_000,
    "The longest time between a failure and the restart.",
)
EXPONENTIAL_MULTIPLIER: Final = ConfigOption(
    "restart-strategy.exponential-delay.backoff-multiplier",
    number(above=1),
    1.5,
    "By how much the time grows with every further failure.",
)
EXPONENTIAL_RESET: Final = ConfigOption(
    "restart-strategy.exponential-delay.reset-backoff-threshold",
    positive_duration,
    3_600_000,
    "When nothing fails for so long after a restart, the next failure counts as the first again.",
)
EXPONENTIAL_ATTEMPTS: Final = ConfigOption[int | None](
    "restart-strategy.exponential-delay.attempts-before-reset-backoff",
    _COUNT,
    None,
    "How many restarts there are without such a time between them; the failure after them is for good. When not set, "
    "there is no limit.",
)
EXPONENTIAL_JITTER: Final = ConfigOption(
    "restart-strategy.exponential-delay.jitter-factor",
    share,
    0.1,
    "The share of the delay by which it is varied at random, up and down.",
)
