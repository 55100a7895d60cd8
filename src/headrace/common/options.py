"""Every option of headrace: its key, how it is read, its default and what it is for."""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from headrace.common.config_options import (
    ConfigOption,
    boolean,
    choice,
    choices,
    duration,
    integer,
    job_id,
    location,
    member,
    memory_size,
    number,
    port_range,
    positive_duration,
    share,
    text_mapping,
)
from headrace.common.constants import DEFAULT_MAX_PARALLELISM, UPPER_BOUND_MAX_PARALLELISM
from headrace.common.durable import Permissions


class RuntimeExecutionMode(Enum):
    """The mode in which a program runs.

    Examples:
        >>> from headrace.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> _ = env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    """

    STREAMING = 0
    """Epoch after epoch, with checkpoints, and results as watermarks pass."""

    BATCH = 1
    """The whole of a bounded input, with final results only."""

    AUTOMATIC = 2
    """``BATCH`` when every source is bounded, else ``STREAMING``."""


OWN_NAMESPACES: Final = (
    "execution.",
    "state.",
    "parallelism.",
    "pipeline.",
    "restart-strategy.",
    "python.",
    "metrics.",
    "rest.",
    "traces.",
    "openlineage.",
    "job.autoscaler.",
    "historyserver.",
    "headrace.",
)
"""Where an unknown key is a mistake. Other keys belong to others: ``spark.`` ones are handed to Spark."""

SPARK_NAMESPACE: Final = "spark."

STORAGE_NAMESPACE: Final = "headrace.storage."
"""What an object store's client is told: endpoint, region, credentials. There are secrets among them."""

REPORTER_NAMESPACE: Final = "metrics.reporter."
"""What reporters of metrics are told: behind it come the name of a reporter and one of its options, which it checks."""

TRACE_REPORTER_NAMESPACE: Final = "traces.reporter."
"""The same of reporters of spans."""

OPENLINEAGE_NAMESPACE: Final = "openlineage.transport."
"""The namespace of options of the transport of OpenLineage's client."""

_COUNT: Final = integer(1, 2**31 - 1)

PARALLELISM: Final = ConfigOption[int | None](
    "parallelism.default",
    integer(1, UPPER_BOUND_MAX_PARALLELISM),
    None,
    "How many subtasks an operator has unless it says otherwise; the cores of the runtime when not set.",
)
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
MAX_PARALLELISM: Final = ConfigOption(
    "pipeline.max-parallelism",
    integer(1, UPPER_BOUND_MAX_PARALLELISM),
    DEFAULT_MAX_PARALLELISM,
    "How many key groups the job has: the highest parallelism it can be rescaled to. It is fixed by the first run.",
)
PIPELINE_NAME: Final = ConfigOption[str | None]("pipeline.name", str, None, "The job's name in logs and interfaces.")
AUTO_GENERATE_UIDS: Final = ConfigOption(
    "pipeline.auto-generate-uids",
    boolean,
    True,
    "Whether operators may do without uid(): theirs are derived from the program's shape then. Else they are refused.",
)
RUNTIME_MODE: Final = ConfigOption(
    "execution.runtime-mode",
    member(RuntimeExecutionMode),
    RuntimeExecutionMode.STREAMING,
    "STREAMING, BATCH or AUTOMATIC (batch when all sources are bounded).",
)
CHECKPOINT_DIR: Final = ConfigOption[str | None](
    "execution.checkpointing.dir",
    str,
    None,
    "The directory of the job's checkpoints, a path, or the URI of an object store or of HDFS; driver and executors "
    "share it.",
    ("state.checkpoints.dir", "state.backend.fs.checkpointdir"),
)
CHECKPOINT_INTERVAL: Final = ConfigOption[int | None](
    "execution.checkpointing.interval",
    positive_duration,
    None,
    "The longest time between two checkpoints. Epochs follow one another as data arrives, so they are often closer.",
)
CHECKPOINT_PERMISSIONS: Final = ConfigOption(
    "headrace.checkpoint.permissions",
    member(Permissions),
    Permissions.OWNER,
    "Who may read and write what is in the checkpoint directory: the owner alone; the group too, for executors that "
    "run as another user of it; or whoever the umask lets.",
)
CHECKPOINTS_RETAINED: Final = ConfigOption(
    "execution.checkpointing.num-retained",
    _COUNT,
    1,
    "How many of the latest checkpoints are kept. Another job can start from an older one, and its state can be read: "
    "they are named by the paths of their manifests.",
    ("state.checkpoints.num-retained",),
)
CHECKPOINT_RETENTION: Final = ConfigOption(
    "execution.checkpointing.externalized-checkpoint-retention",
    choice("RETAIN_ON_CANCELLATION", "DELETE_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"),
    "RETAIN_ON_CANCELLATION",
    "When checkpoints are deleted: never; when the job is cancelled; or when it is cancelled, fails or has finished. A "
    "job that is stopped keeps them, and so does one that fails before its first epoch.",
)
MIN_PAUSE: Final = ConfigOption(
    "execution.checkpointing.min-pause",
    duration,
    0,
    "How long the work between two checkpoints takes at least: epochs aim at that, whatever the target duration and "
    "the interval say, and where the last one took less, the next one begins later.",
)
TOLERABLE_FAILED_CHECKPOINTS: Final = ConfigOption(
    "execution.checkpointing.tolerable-failed-checkpoints",
    integer(0, 2**31 - 1),
    0,
    "How many checkpoints in a row may fail, with storage that cannot be written or an epoch that takes longer than "
    "the timeout, before the restart strategy is asked. Their epochs are run again meanwhile.",
)
CHECKPOINT_INLINE_THRESHOLD: Final = ConfigOption(
    "execution.checkpointing.data-inline-threshold",
    memory_size,
    20 << 10,
    "States of a task up to this size travel within the manifest instead of a file of their own; those of all tasks "
    "together up to 256 kb, so with more than 12 tasks it is less for each.",
    ("state.storage.fs.memory-threshold", "state.backend.fs.memory-threshold"),
)
CHECKPOINT_TIMEOUT: Final = ConfigOption(
    "execution.checkpointing.timeout",
    positive_duration,
    600_000,
    "How long an epoch may take before it is given up and run again; when not set, two hours in batch mode, and a week "
    "where a job joins all of its input in one epoch.",
)
CHECKPOINT_MODE: Final = ConfigOption(
    "execution.checkpointing.mode",
    choice("EXACTLY_ONCE", "AT_LEAST_ONCE"),
    "EXACTLY_ONCE",
    "The guarantee that is asked for. Every job gets exactly once, which is at least once and more; so both are met.",
)
IGNORE_UNCLAIMED_STATE: Final = ConfigOption(
    "execution.state-recovery.ignore-unclaimed-state",
    boolean,
    False,
    "Whether a job may leave behind what its checkpoint holds of operators, sources and sinks that the program no "
    "longer has, or of a source that is another one now. A warning names it.",
    ("execution.savepoint.ignore-unclaimed-state",),
)
SAVEPOINT_DIR: Final = ConfigOption[str | None](
    "execution.checkpointing.savepoint-dir",
    location,
    None,
    "Where the directories of savepoints are made, unless who asks for one says it.",
    ("state.savepoints.dir", "savepoints.state.backend.fs.dir"),
)
RECOVERY_PATH: Final = ConfigOption[str | None](
    "execution.state-recovery.path",
    location,
    None,
    "A savepoint, or a checkpoint directory, that the job starts from. A job that finds a checkpoint in its own "
    "checkpoint directory goes on from that instead.",
    ("execution.savepoint.path",),
)
RECOVERS_POSITIONS: Final = ConfigOption(
    "execution.state-recovery.only-positions",
    boolean,
    False,
    "Whether a job takes of what it starts from only how far sources have been read: each source of the program goes "
    "on where one has come to that has read the same, under whatever uid, and operators begin without state.",
)
UID_MAPPING: Final[ConfigOption[Mapping[str, str]]] = ConfigOption(
    "execution.state-recovery.uid-mapping",
    text_mapping("old=new; other=newer"),
    MappingProxyType({}),
    "The program's uids of operators, sources and sinks that have another one in what the job starts from, or in its "
    "own checkpoint directory where it starts from nothing else: `old=new; other=newer`. All change at once.",
)
CHANGED_WINDOWS: Final[ConfigOption[Mapping[str, str]]] = ConfigOption(
    "execution.state-recovery.changed-windows",
    text_mapping("totals=reaggregate; sessions=drop"),
    MappingProxyType({}),
    "What becomes of what windows hold that the program declares otherwise now, by the uid of their operator: "
    "`uid=drop; other=reaggregate`. Else the job is refused.",
)
CLAIM_MODE: Final = ConfigOption(
    "execution.state-recovery.claim-mode",
    choice("NO_CLAIM", "CLAIM", others={"legacy": "NO_CLAIM"}),
    "NO_CLAIM",
    "Whose the savepoint is that a job starts from: NO_CLAIM leaves it alone, CLAIM removes it once the job has a "
    "checkpoint of its own. Either way the job never needs it again.",
    ("execution.savepoint-restore-mode",),
)
STATE_BACKEND: Final = ConfigOption(
    "state.backend.type",
    str,
    "hashmap",
    "What keeps the state of operators: `hashmap` (in columns, in files that are mapped into memory, so that it may be "
    "larger than that), `rocksdb` (in tables of RocksDB, of which as much is in memory as is said), or one that a "
    "plugin brings. Fixed for the life of the state.",
    ("state.backend",),
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
EPOCH_MAX_RECORDS: Final = ConfigOption(
    "headrace.epoch.max-records",
    _COUNT,
    # Well above what a core does within the target duration, which is what sizes epochs; it bounds memory where records
    # are tiny.
    20_000_000,
    "The most records that one source subtask reads in an epoch. When not set, 5000000 in batch mode, where epochs may "
    "take long, 10000000 where no operator has state but windows that are computed column by column, and no limit "
    "where none has any but joins on Spark that can spill.",
)
EPOCH_FIRST_RECORDS: Final = ConfigOption(
    "headrace.epoch.first-records",
    _COUNT,
    # Enough to tell the fixed cost of an epoch, some tenths of a second, from that of its records; few enough that a
    # function which takes a millisecond a record ends it within a minute on one core.
    50_000,
    "How many records all sources together read in a run's first epoch, when nothing is known of what a record costs. "
    "Later epochs follow the target duration, each with eight times the records of the one before at most, unless that "
    "was a first one of 250000 or more. Where a function takes milliseconds a record, one that asks a service say, set "
    "it to what can be done in some seconds. When not set, 500000 in batch mode, and as many as "
    "headrace.epoch.max-records allows where no operator has state but joins, and groups and orders of SQL.",
)
EPOCH_MAX_BYTES: Final = ConfigOption(
    "headrace.epoch.max-bytes",
    memory_size,
    256 << 20,
    "The most bytes that one source subtask reads in an epoch. When not set, there is no limit in batch mode where no "
    "operator has state but joins that can spill, and groups and orders of SQL, on Spark.",
)
EPOCH_TARGET_DURATION: Final = ConfigOption(
    "headrace.epoch.target-duration",
    positive_duration,
    1_000,
    "How long an epoch should take: the job manager sizes epochs by what the last ones took. When not set, a minute in "
    "batch mode.",
)
BACKLOG_INTERVAL: Final = ConfigOption(
    "execution.checkpointing.interval-during-backlog",
    duration,
    10_000,
    "How long an epoch should take, and so the time between two checkpoints, while a source reads history: while it "
    "says so (the first source of a HybridSource), or is further behind than pipeline.backlog.watermark-lag-threshold. "
    "0 stands for a minute. Without effect where it is less than headrace.epoch.target-duration.",
)
BACKLOG_WATERMARK_LAG: Final = ConfigOption[int | None](
    "pipeline.backlog.watermark-lag-threshold",
    positive_duration,
    None,
    "When the watermark of a source is further behind the clock, what it reads is history. When not set, sources alone "
    "say so.",
)
EPOCH_MIN_INTERVAL: Final = ConfigOption(
    "headrace.epoch.min-interval",
    duration,
    0,
    "The shortest time from the beginning of an epoch to that of the next.",
)
RUNTIME: Final = ConfigOption(
    "headrace.runtime", choice("spark", "local"), "spark", "What executes the stages of an epoch."
)
SPARK_MASTER: Final = ConfigOption[str | None](
    "headrace.spark.master", str, None, "The master of a Spark session that headrace starts, such as local[4]."
)
SPARK_CLASS_ARCHIVE: Final = ConfigOption(
    "headrace.spark.class-archive",
    boolean,
    True,
    "Whether the Java of a local Spark session that headrace starts maps its classes from an archive, which makes the "
    "start shorter by seconds. The archive is made once, in the background, when the first such program has ended, and "
    "takes 170 MB in $XDG_CACHE_HOME/headrace/classes or ~/.cache/headrace/classes. The ten that were used last are "
    "kept there: each installation of PySpark or Java has its own.",
)
PYTHON_FILES: Final = ConfigOption[str | None](
    "python.files",
    str,
    None,
    "Modules (.py), folders and zips, eggs or wheels of modules that functions import, with commas between them.",
)
PYTHON_REQUIREMENTS: Final = ConfigOption[str | None](
    "python.requirements",
    str,
    None,
    "A list of packages for pip, which the driver installs and ships; `file#folder` takes them from a folder only.",
)
PYTHON_ARCHIVES: Final = ConfigOption[str | None](
    "python.archives",
    str,
    None,
    "Archives that are unpacked wherever tasks run, `path` or `path#folder`, with commas between them.",
)
CACHED_FILES: Final = ConfigOption[str | None](
    "pipeline.cached-files",
    str,
    None,
    "Files that are copied to wherever tasks run, `name:rates,path:'/data/rates.csv'`, with semicolons between them; "
    "`RuntimeContext.get_distributed_cache()` finds them.",
)
PYTHON_EXECUTABLE: Final = ConfigOption[str | None](
    "python.executable", str, None, "The Python interpreter of Spark's workers; that of the driver when not set."
)
PROGRESS: Final = ConfigOption[bool | None](
    "headrace.progress",
    boolean,
    None,
    "Whether a program shows the progress of its jobs on the standard error, or in the cell of a notebook. When not "
    "set, it does in a notebook, and on a terminal unless it is an interactive session; `headrace run` does "
    "everywhere.",
)
LOG_LEVEL: Final = ConfigOption[str | None](
    "headrace.log.level",
    choice("DEBUG", "INFO", "WARNING", "ERROR"),
    None,
    "The lowest level of what `logging` prints. When neither this nor the format is set, headrace configures nothing.",
)
LOG_FORMAT: Final = ConfigOption[str | None](
    "headrace.log.format",
    choice("text", "json"),
    None,
    "How `logging` prints to the standard error: a line of text or one of JSON a record. Like the level it has no "
    "effect where the program has given the root logger a handler.",
)
FRESH_FUNCTIONS: Final = ConfigOption(
    "headrace.functions.fresh-instances",
    boolean,
    False,
    "A test mode: every epoch unpickles the user's functions anew, so that fields used as state are found out.",
)
SOURCE_POLL_INTERVAL: Final = ConfigOption(
    "headrace.source.poll-interval",
    positive_duration,
    100,
    "How often a job without input looks at its sources.",
)

OPENLINEAGE_TRANSPORT: Final = ConfigOption[str | None](
    "openlineage.transport.type",
    str,
    None,
    "How OpenLineage is told of the job: `http`, `kafka`, `file`, `console` or another transport of its client, which "
    "is given all other keys that begin with `openlineage.transport.`. Nothing is told when not set.",
)
OPENLINEAGE_JOB_NAMESPACE: Final = ConfigOption(
    "openlineage.job.namespace", str, "default", "The namespace of the job there."
)
OPENLINEAGE_JOB: Final = ConfigOption[str | None](
    "openlineage.job.name", str, None, "The name of the job there; that of the job when not set."
)
OPENLINEAGE_INTERVAL: Final = ConfigOption(
    "openlineage.trackingIntervalInSeconds", _COUNT, 60, "How often OpenLineage is told that the job still runs."
)

METRIC_REPORTERS: Final = ConfigOption[str | None](
    "metrics.reporters",
    str,
    None,
    "The reporters of metrics that are used, by their names, with commas between them; all that the configuration has "
    "options of (`metrics.reporter.<name>.*`) when not set.",
)
TRACE_REPORTERS: Final = ConfigOption[str | None](
    "traces.reporters", str, None, "Likewise the reporters of spans (`traces.reporter.<name>.*`)."
)
METRIC_SCOPE_DELIMITER: Final = ConfigOption(
    "metrics.scope.delimiter",
    str,
    ".",
    "What stands between the parts of names of metrics in reports without labels.",
)
METRIC_SCOPE_JOB_MANAGER: Final = ConfigOption(
    "metrics.scope.jm", str, "<host>.jobmanager", "What such names of metrics of the driver begin with."
)
METRIC_SCOPE_JOB: Final = ConfigOption(
    "metrics.scope.jm-job",
    str,
    "<host>.jobmanager.<job_name>",
    "The same of metrics of a job.",
    ("metrics.scope.jm.job",),
)
METRIC_SCOPE_TASK_MANAGER: Final = ConfigOption(
    "metrics.scope.tm",
    str,
    "<host>.taskmanager.<tm_id>",
    "What `*` stands for in front of metrics.scope.tm-job.",
)
METRIC_SCOPE_TASK_MANAGER_JOB: Final = ConfigOption(
    "metrics.scope.tm-job",
    str,
    "<host>.taskmanager.<tm_id>.<job_name>",
    "What `*` stands for in front of metrics.scope.task.",
    ("metrics.scope.tm.job",),
)
METRIC_SCOPE_TASK: Final = ConfigOption(
    "metrics.scope.task",
    str,
    "<host>.taskmanager.<tm_id>.<job_name>.<task_name>.<subtask_index>",
    "What names of metrics of tasks begin with.",
)
METRIC_SCOPE_OPERATOR: Final = ConfigOption(
    "metrics.scope.operator",
    str,
    "<host>.taskmanager.<tm_id>.<job_name>.<operator_name>.<subtask_index>",
    "What names of metrics of operators begin with.",
)
METRICS_OF_JOB_STATUS: Final = ConfigOption[tuple[str, ...]](
    "metrics.job.status.enable",
    choices("STATE", "CURRENT_TIME", "TOTAL_TIME"),
    ("CURRENT_TIME",),
    "What is told of each status of a job (`running`, say): whether it has it (`runningState`, 1 or 0), since when "
    "(`runningTime`), for how long altogether (`runningTimeTotal`); with `;` between them.",
)
REST_PORT: Final = ConfigOption[int | None](
    "rest.port",
    integer(0, 65535),
    None,
    "The port at which the REST API of the program's jobs is served, 0 for any free one. When neither this nor "
    "rest.bind-port is set, there is none.",
)
REST_BIND_PORT: Final = ConfigOption[tuple[int, ...] | None](
    "rest.bind-port",
    port_range,
    None,
    "Ports of which the first free one is taken in place of that: `8081`, `8081-8180`, `8081,9000-9010`.",
)
REST_BIND_ADDRESS: Final = ConfigOption(
    "rest.bind-address",
    str,
    "localhost",
    "The address of this machine at which the REST API is served, `0.0.0.0` for all. Off this machine nobody is let in "
    "without a token (rest.authentication.token-file) or a certificate (security.ssl.rest.authentication-enabled).",
)
REST_ADDRESS: Final = ConfigOption[str | None](
    "rest.address",
    str,
    None,
    "The name at which clients reach that address; it is shown, and requests may be to it. When not set, the address "
    "itself, or the name of this machine for all of its addresses.",
)
REST_TOKEN_FILE: Final = ConfigOption[str | None](
    "rest.authentication.token-file",
    location,
    None,
    "A file with the token that every request needs, as `Authorization: Bearer ...`; browsers ask for it as a "
    "password. Nobody but its owner may read the file.",
)
REST_STORE_DURATION: Final = ConfigOption(
    "rest.async.store-duration",
    positive_duration,
    300_000,
    "For how long the outcome of a savepoint or the like can be asked for.",
)
REST_SSL: Final = ConfigOption(
    "security.ssl.rest.enabled",
    boolean,
    False,
    "Whether the REST API is served over TLS, with the certificate in security.ssl.rest.keystore.",
    ("security.ssl.enabled",),
)
REST_SSL_AUTHENTICATION: Final = ConfigOption(
    "security.ssl.rest.authentication-enabled",
    boolean,
    False,
    "Whether clients need a certificate that one in security.ssl.rest.truststore has signed.",
)
REST_KEYSTORE: Final = ConfigOption[str | None](
    "security.ssl.rest.keystore",
    location,
    None,
    "A file in PEM with the private key and the chain of certificates; keystores of Java are refused with the command "
    "that converts them.",
    ("security.ssl.keystore",),
)
REST_KEY_PASSWORD: Final = ConfigOption[str | None](
    "security.ssl.rest.key-password",
    str,
    None,
    "What the private key is encrypted with, if it is.",
    ("security.ssl.key-password",),
)
REST_TRUSTSTORE: Final = ConfigOption[str | None](
    "security.ssl.rest.truststore",
    location,
    None,
    "A file in PEM with the certificates of those who sign clients' certificates, and, for commands, servers'.",
    ("security.ssl.truststore",),
)
ARCHIVE_DIR: Final = ConfigOption[str | None](
    "jobmanager.archive.fs.dir",
    location,
    None,
    "Where the last status of a job is kept when it has ended, so that `headrace history-server` shows it; a path or a "
    "URI.",
)
HISTORY_DIRS: Final = ConfigOption[str | None](
    "historyserver.archive.fs.dir",
    str,
    None,
    "Where `headrace history-server` finds such archives; several places have commas between them. "
    "jobmanager.archive.fs.dir when not set.",
)
HISTORY_PORT: Final = ConfigOption(
    "historyserver.web.port",
    integer(0, 65535),
    8082,
    "The port of `headrace history-server`, 0 for any free one.",
)
HISTORY_ADDRESS: Final = ConfigOption[str | None](
    "historyserver.web.address",
    str,
    None,
    "The address of this machine at which `headrace history-server` listens; rest.bind-address when not set.",
)
HISTORY_REFRESH: Final = ConfigOption(
    "historyserver.archive.fs.refresh-interval",
    positive_duration,
    10_000,
    "How often `headrace history-server` looks for new archives.",
)
HISTORY_RETAINED: Final = ConfigOption(
    "historyserver.archive.retained-jobs",
    integer(-1, 2**31 - 1),
    -1,
    "The number of the latest archives that `headrace history-server` keeps in each place; older ones are removed. -1 "
    "keeps all.",
)
FIXED_JOB_ID: Final = ConfigOption[str | None](
    "$internal.pipeline.job-id",
    job_id,
    None,
    "The id of a job, 32 hexadecimal digits, where its checkpoint directory has none yet. A dispatcher sets it, for "
    "the one job that a program has there.",
)
CLUSTER_DIR: Final = ConfigOption[str | None](
    "high-availability.storageDir",
    location,
    None,
    "Where dispatchers (`headrace cluster`) keep programs, jobs, logs and archives; a path or a URI. All dispatchers "
    "of one cluster have the same.",
)
CLUSTER_LEASE: Final = ConfigOption(
    "headrace.cluster.lease-duration",
    positive_duration,
    10_000,
    "When a dispatcher has given no sign of life for this long, another one of its cluster takes over.",
)
CLUSTER_STOP_TIMEOUT: Final = ConfigOption(
    "headrace.cluster.stop-timeout",
    positive_duration,
    60_000,
    "How long the jobs of a dispatcher that is stopped have to complete their epochs, before they are killed.",
)
CLUSTER_CATALOG_STORE: Final = ConfigOption[str | None](
    "headrace.cluster.catalog-store",
    location,
    None,
    "A catalog store of sessions (`table.catalog-store.file.path`), in whose catalogs a dispatcher looks for "
    "materialized tables: full refreshes that no program makes, it makes when they are due.",
)
LOG_FILES: Final = ConfigOption(
    "env.log.max",
    integer(0, 1_000),
    10,
    "The number of old files that are kept of a log of a dispatcher, or of the process of one of its jobs.",
)
LOG_FILE_SIZE: Final = ConfigOption(
    "headrace.log.max-file-size",
    memory_size,
    100 << 20,
    "The size from which on a file of such a log is an old one, and the next is begun.",
)
JOBSTORE_CAPACITY: Final = ConfigOption(
    "jobstore.max-capacity",
    integer(1, 2**31 - 1),
    100,
    "The number of ended jobs of which a dispatcher keeps programs and logs, and which it shows. Older ones are left "
    "to `headrace history-server`.",
)
UPLOAD_LIMIT: Final = ConfigOption(
    "rest.server.max-content-length",
    integer(1, 2**40),
    104_857_600,
    "The largest program that can be uploaded to a dispatcher, in bytes.",
)
WEB_SUBMIT: Final = ConfigOption(
    "web.submit.enable",
    boolean,
    True,
    "Whether a dispatcher accepts programs by its REST API.",
)
REFRESH_INTERVAL: Final = ConfigOption(
    "web.refresh-interval",
    positive_duration,
    3_000,
    "How often pages that show a job ask for what is new.",
)

_ROCKSDB: Final = "state.backend.rocksdb."

ROCKSDB_LOCAL_DIR: Final = ConfigOption[str | None](
    f"{_ROCKSDB}localdir",
    str,
    None,
    "Where each machine keeps copies of the tables that its tasks read; a folder of the user's in the one for "
    "temporary files when not set.",
)
ROCKSDB_LOCAL_SIZE: Final = ConfigOption(
    "headrace.state.rocksdb.local-size",
    memory_size,
    20 << 30,
    "How much these copies may take on a machine. Those that were used longest ago go first, and are fetched again "
    "when they are needed.",
)
ROCKSDB_PREDEFINED: Final = ConfigOption(
    f"{_ROCKSDB}predefined-options",
    choice("DEFAULT", "SPINNING_DISK_OPTIMIZED", "SPINNING_DISK_OPTIMIZED_HIGH_MEM", "FLASH_SSD_OPTIMIZED"),
    "DEFAULT",
    "`SPINNING_DISK_OPTIMIZED_HIGH_MEM` stands for a cache of 256 mb and blocks of 128 kb, as in Flink, where these "
    "options are not set themselves; the others change nothing here.",
)
ROCKSDB_FIXED_MEMORY: Final = ConfigOption[int | None](
    f"{_ROCKSDB}memory.fixed-per-slot",
    memory_size,
    None,
    "How much of its tables a process of tasks keeps in memory, indexes and filters included. It goes before the size "
    "of the cache.",
)
ROCKSDB_CACHE_SIZE: Final = ConfigOption(
    f"{_ROCKSDB}block.cache-size",
    memory_size,
    64 << 20,
    "The same, where that is not set.",
)
ROCKSDB_BLOCK_SIZE: Final = ConfigOption(
    f"{_ROCKSDB}block.blocksize",
    memory_size,
    4 << 10,
    "How much of a table is compressed, checked and read together.",
)
ROCKSDB_USES_FILTERS: Final = ConfigOption(
    f"{_ROCKSDB}use-bloom-filter",
    boolean,
    True,
    "Whether tables have filters, so that most keys that are not there are known without reading a block.",
)
ROCKSDB_FILTER_BITS: Final = ConfigOption(
    f"{_ROCKSDB}bloom-filter.bits-per-key",
    number(above=0),
    10.0,
    "How large these are: with 10 bits a key, one key in a hundred is looked for in vain.",
)
ROCKSDB_PARTITIONED: Final = ConfigOption(
    f"{_ROCKSDB}memory.partitioned-index-filters",
    boolean,
    True,
    "Whether indexes and filters are read in parts. Else a table's whole filter, a megabyte for a million keys, has to "
    "fit one of the 64 parts of the cache, or is read anew for each key.",
)

ROCKSDB_OPTIONS: Final[tuple[ConfigOption, ...]] = (
    ROCKSDB_LOCAL_DIR,
    ROCKSDB_LOCAL_SIZE,
    ROCKSDB_PREDEFINED,
    ROCKSDB_FIXED_MEMORY,
    ROCKSDB_CACHE_SIZE,
    ROCKSDB_BLOCK_SIZE,
    ROCKSDB_USES_FILTERS,
    ROCKSDB_FILTER_BITS,
    ROCKSDB_PARTITIONED,
)
"""All of them; without effect on other backends."""

OPTIONS: Final[dict[str, ConfigOption]] = {
    option.key: option for option in tuple(globals().values()) if isinstance(option, ConfigOption)
}
"""All options by key."""

DEPRECATED: Final[dict[str, ConfigOption]] = {
    key: option for option in OPTIONS.values() for key in option.deprecated_keys
}
"""The options that have older keys, by these."""
