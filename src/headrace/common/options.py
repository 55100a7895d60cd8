"""The options of jobs: their keys, how they are read, their defaults and what they are for; and all options by key."""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from headrace.common import scheduler_options, server_options
from headrace.common.config_options import (
    ConfigOption,
    boolean,
    choice,
    choices,
    duration,
    integer,
    location,
    member,
    memory_size,
    number,
    positive_duration,
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
"""The namespaces in which an unknown key is a mistake. Other keys belong to others: ``spark.`` ones go to Spark."""

SPARK_NAMESPACE: Final = "spark."

STORAGE_NAMESPACE: Final = "headrace.storage."
"""The options of an object store's client: endpoint, region, credentials. There are secrets among them."""

REPORTER_NAMESPACE: Final = "metrics.reporter."
"""The options of reporters of metrics: behind it are the name of a reporter and one of its options, which it checks."""

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
    option.key: option
    for names in (globals(), vars(scheduler_options), vars(server_options))
    for option in tuple(names.values())
    if isinstance(option, ConfigOption)
}
"""All options by key."""

DEPRECATED: Final[dict[str, ConfigOption]] = {
    key: option for option in OPTIONS.values() for key in option.deprecated_keys
}
"""The options that have older keys, by these."""
