"""The keys of Flink's table options, with and without an effect here, and their values."""

from __future__ import annotations

import difflib
from typing import Any, Final

from headrace.common.call_site import warn_caller
from headrace.common.config_options import ConfigOption, boolean, choice, duration, integer, location, positive_duration
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.common.options import RUNTIME_MODE
from headrace.table.connectors.table_source import StartPosition
from headrace.table.functions.kernels.zones import zone_of


def _time_zone(text: str) -> str:
    try:
        zone_of(text)
    except ValueError:
        raise ValueError("a time zone, such as UTC, Europe/Berlin or GMT+08:00") from None
    return text


LOCAL_TIME_ZONE: Final = ConfigOption(
    "table.local-time-zone", _time_zone, "UTC", "The zone in which instants are shown."
)
DML_SYNC: Final = ConfigOption("table.dml-sync", boolean, False, "Whether INSERT waits for the end of its job.")
STATE_TTL: Final = ConfigOption("table.exec.state.ttl", duration, 0, "How long operators remember what is not used.")
MINI_BATCH: Final = ConfigOption(
    "table.exec.mini-batch.enabled", boolean, False, "Whether the rows of a group make one change."
)
MINI_BATCH_SIZE: Final = ConfigOption(
    "table.exec.mini-batch.size", integer(-1, 2**63 - 1), -1, "How many rows that are, at most."
)
MINI_BATCH_LATENCY: Final = ConfigOption(
    "table.exec.mini-batch.allow-latency", duration, 0, "For how long rows are gathered."
)
AGG_PHASES: Final = ConfigOption(
    "table.optimizer.agg-phase-strategy",
    choice("AUTO", "ONE_PHASE", "TWO_PHASE"),
    "AUTO",
    "Whether rows of a mini-batch are put together before they are sent.",
)
CDC_EVENTS_DUPLICATE: Final = ConfigOption(
    "table.exec.source.cdc-events-duplicate",
    boolean,
    False,
    "Whether sources of changes may give a change twice, which then counts once.",
)
EARLY_FIRE: Final = ConfigOption(
    "table.exec.emit.early-fire.enabled", boolean, False, "Whether windows show results before they end."
)
EARLY_FIRE_DELAY: Final = ConfigOption(
    "table.exec.emit.early-fire.delay", duration, 0, "How often they do; 0 for each row."
)
SOURCE_IDLE_TIMEOUT: Final = ConfigOption(
    "table.exec.source.idle-timeout",
    duration,
    0,
    "The time after which a split of a source that is silent holds watermarks back no longer; 0 for never.",
)
LATE_FIRE: Final = ConfigOption(
    "table.exec.emit.late-fire.enabled", boolean, False, "Whether late rows change a result."
)
LATE_FIRE_DELAY: Final = ConfigOption(
    "table.exec.emit.late-fire.delay", duration, 0, "How often late rows change a result; 0 for each row."
)
ALLOW_LATENESS: Final = ConfigOption(
    "table.exec.emit.allow-lateness", duration, 0, "For how long after the end of their window they do."
)
NOT_NULL_ENFORCER: Final = ConfigOption(
    "table.exec.sink.not-null-enforcer", choice("ERROR", "DROP"), "ERROR", "What becomes of rows with NULLs."
)
TYPE_LENGTH_ENFORCER: Final = ConfigOption(
    "table.exec.sink.type-length-enforcer",
    choice("IGNORE", "TRIM_PAD", "ERROR"),
    "IGNORE",
    "What becomes of values that are too long or too short.",
)
NESTED_CONSTRAINT_ENFORCER: Final = ConfigOption(
    "table.exec.sink.nested-constraint-enforcer",
    choice("IGNORE", "ROWS", "ROWS_AND_COLLECTIONS"),
    "IGNORE",
    "In which values NOT NULL and lengths of their parts hold.",
)
UPSERT_MATERIALIZE: Final = ConfigOption(
    "table.exec.sink.upsert-materialize",
    choice("AUTO", "NONE", "FORCE"),
    "AUTO",
    "Whether rows are remembered whose key is not the table's.",
)
REQUIRE_ON_CONFLICT: Final = ConfigOption(
    "table.exec.sink.require-on-conflict", boolean, True, "Whether INSERT has to say what becomes of such rows."
)
ASYNC_CAPACITY: Final = ConfigOption(
    "table.exec.async-lookup.buffer-capacity", integer(1, 2**31 - 1), 100, "How many lookups are made at a time."
)
ASYNC_TIMEOUT: Final = ConfigOption(
    "table.exec.async-lookup.timeout", duration, 180_000, "How long a lookup may take, with all its attempts."
)
ASYNC_MODE: Final = ConfigOption(
    "table.exec.async-lookup.output-mode",
    choice("ORDERED", "ALLOW_UNORDERED"),
    "ORDERED",
    "In which order rows may leave; they leave in theirs.",
)
ASYNC_KEY_ORDERED: Final = ConfigOption(
    "table.exec.async-lookup.key-ordered-enabled", boolean, False, "Whether rows of a key have to leave in order."
)
PREDICT_CAPACITY: Final = ConfigOption(
    "table.exec.async-ml-predict.max-concurrent-operations",
    integer(1, 2**31 - 1),
    10,
    "How many requests of a model are made at a time.",
)
PREDICT_TIMEOUT: Final = ConfigOption(
    "table.exec.async-ml-predict.timeout", duration, 180_000, "How long a request of a model may take."
)
PREDICT_MODE: Final = ConfigOption(
    "table.exec.async-ml-predict.output-mode",
    choice("ORDERED", "ALLOW_UNORDERED"),
    "ORDERED",
    "In which order rows may leave; they leave in theirs.",
)

DISTINCT_SPLIT: Final = ConfigOption(
    "table.optimizer.distinct-agg.split.enabled",
    boolean,
    False,
    "Whether distinct values are aggregated in two levels, the first of which is in buckets of values.",
)
INCREMENTAL_AGGREGATES: Final = ConfigOption(
    "table.optimizer.incremental-agg-enabled",
    boolean,
    True,
    "Whether the final aggregates of DISTINCT in two levels take the accumulators of the first level.",
)
DISTINCT_BUCKETS: Final = ConfigOption(
    "table.optimizer.distinct-agg.split.bucket-num", integer(1, 2**31 - 1), 1024, "How many buckets those are."
)
MULTI_JOIN: Final = ConfigOption(
    "table.optimizer.multi-join.enabled",
    boolean,
    False,
    "Whether joins on one key are one operator, which keeps no results of joins in between.",
)
PREDICATE_PUSHDOWN: Final = ConfigOption(
    "table.optimizer.source.predicate-pushdown-enabled",
    boolean,
    True,
    "Whether connectors get conditions, by which they may read fewer rows.",
)
NON_DETERMINISTIC_UPDATES: Final = ConfigOption(
    "table.optimizer.non-deterministic-update.strategy",
    choice("IGNORE", "TRY_RESOLVE"),
    "IGNORE",
    "Whether plans are refused whose retractions would be other rows than those that they take back.",
)

SORT_LIMIT: Final = ConfigOption(
    "table.exec.sort.default-limit",
    integer(-1, 2**31 - 1),
    -1,
    "The most rows of an ORDER BY of batch mode that has no LIMIT; -1 for all.",
)
ATOMICITY: Final = ConfigOption(
    "table.rtas-ctas.atomicity-enabled",
    boolean,
    False,
    "Whether CREATE TABLE ... AS and REPLACE TABLE ... AS change the catalog when their job has finished.",
)
STATISTICS: Final = ConfigOption(
    "table.optimizer.source.report-statistics-enabled",
    boolean,
    True,
    "Whether plans of batch mode depend on what is known of tables: their rows, and the values of their columns.",
)
JOIN_REORDER: Final = ConfigOption[bool | None](
    "table.optimizer.join-reorder-enabled",
    boolean,
    None,
    "Whether inner joins of batch mode are put in the order that costs least; where statistics are known, unless set.",
)
BROADCAST_THRESHOLD: Final = ConfigOption[int | None](
    "table.optimizer.join.broadcast-threshold",
    integer(-1, 2**63 - 1),
    None,
    "The most bytes of an input of a join that every task has whole, -1 for none; by their costs, unless set.",
)
RUNTIME_FILTER: Final = ConfigOption[bool | None](
    "table.optimizer.runtime-filter.enabled",
    boolean,
    None,
    "Whether an input of a join of batch mode is filtered by the keys of the other; by their costs, unless set.",
)
AGGREGATE_PUSHDOWN: Final = ConfigOption(
    "table.optimizer.source.aggregate-pushdown-enabled",
    boolean,
    True,
    "Whether batch mode takes counts, and lowest and highest values, of whole tables from statistics of files.",
)

FORCE_RECOMPILE: Final = ConfigOption(
    "table.plan.force-recompile",
    boolean,
    False,
    "Whether COMPILE PLAN replaces a plan, by one that goes on with its state.",
)

FRESHNESS_THRESHOLD: Final = ConfigOption(
    "materialized-table.refresh-mode.freshness-threshold",
    positive_duration,
    1_800_000,
    "From which freshness on a materialized table is refreshed as a whole, where it does not say how.",
)
CONTINUOUS_FRESHNESS: Final = ConfigOption(
    "materialized-table.default-freshness.continuous",
    positive_duration,
    180_000,
    "The freshness of materialized tables that say none, and are refreshed continuously.",
)
FULL_FRESHNESS: Final = ConfigOption(
    "materialized-table.default-freshness.full",
    positive_duration,
    3_600_000,
    "The freshness of materialized tables that say none, and are refreshed as a whole.",
)
START_MODE: Final = ConfigOption(
    "materialized-table.default-start-mode",
    choice("FROM_BEGINNING", "FROM_NOW", "RESUME_OR_FROM_BEGINNING", "RESUME_OR_FROM_NOW"),
    "FROM_BEGINNING",
    "From where materialized tables read their sources that have no START_MODE.",
)
START_POSITION: Final = ConfigOption[StartPosition | None](
    "materialized-table.start-position",
    StartPosition.parse,
    None,
    "From where the job of a materialized table reads, by START_MODE: a time in milliseconds.",
)
DISPATCHER: Final = ConfigOption[str | None](
    "materialized-table.dispatcher",
    str,
    None,
    "The dispatcher that runs the jobs of materialized tables, as HOST:PORT; this program, unless set.",
)
SCHEDULER: Final = ConfigOption(
    "materialized-table.scheduler",
    choice("program", "dispatcher"),
    "program",
    "Who has the schedules of full refreshes that a session creates or resumes.",
)

BUILT_IN_CATALOG: Final = ConfigOption(
    "table.builtin-catalog-name", str, "default_catalog", "The name of a session's first catalog."
)
BUILT_IN_DATABASE: Final = ConfigOption(
    "table.builtin-database-name", str, "default_database", "The name of a session's first database."
)
CATALOG_STORE: Final = ConfigOption(
    "table.catalog-store.kind",
    choice("generic_in_memory", "file"),
    "generic_in_memory",
    "Where a session keeps what catalogs it has; it is read when the session begins.",
)
CATALOG_STORE_PATH: Final = ConfigOption[str | None](
    "table.catalog-store.file.path", location, None, "The folder of the catalog store of kind 'file'."
)
RESULT_MODE: Final = ConfigOption(
    "sql-client.execution.result-mode",
    choice("tableau", "table", "changelog"),
    "tableau",
    "How the rows of queries are shown.",
)
MOST_ROWS: Final = ConfigOption(
    "sql-client.execution.max-table-result.rows",
    integer(1, 2**31 - 1),
    1_000_000,
    "How many rows of a result are shown that has ended, at most.",
)

_OPTIONS: Final[dict[str, ConfigOption[Any]]] = {
    option.key: option
    for option in (
        LOCAL_TIME_ZONE,
        DML_SYNC,
        STATE_TTL,
        CDC_EVENTS_DUPLICATE,
        MINI_BATCH,
        MINI_BATCH_SIZE,
        MINI_BATCH_LATENCY,
        AGG_PHASES,
        EARLY_FIRE,
        EARLY_FIRE_DELAY,
        SOURCE_IDLE_TIMEOUT,
        LATE_FIRE,
        LATE_FIRE_DELAY,
        ALLOW_LATENESS,
        NOT_NULL_ENFORCER,
        TYPE_LENGTH_ENFORCER,
        NESTED_CONSTRAINT_ENFORCER,
        UPSERT_MATERIALIZE,
        REQUIRE_ON_CONFLICT,
        ASYNC_CAPACITY,
        ASYNC_TIMEOUT,
        ASYNC_MODE,
        ASYNC_KEY_ORDERED,
        PREDICT_CAPACITY,
        PREDICT_TIMEOUT,
        PREDICT_MODE,
        ConfigOption("table.sql-dialect", choice("default"), "default", "The dialect of SQL."),
        DISTINCT_SPLIT,
        DISTINCT_BUCKETS,
        INCREMENTAL_AGGREGATES,
        MULTI_JOIN,
        PREDICATE_PUSHDOWN,
        NON_DETERMINISTIC_UPDATES,
        SORT_LIMIT,
        ATOMICITY,
        STATISTICS,
        JOIN_REORDER,
        BROADCAST_THRESHOLD,
        RUNTIME_FILTER,
        AGGREGATE_PUSHDOWN,
        FORCE_RECOMPILE,
        FRESHNESS_THRESHOLD,
        CONTINUOUS_FRESHNESS,
        FULL_FRESHNESS,
        START_MODE,
        START_POSITION,
        DISPATCHER,
        SCHEDULER,
        BUILT_IN_CATALOG,
        BUILT_IN_DATABASE,
        CATALOG_STORE,
        CATALOG_STORE_PATH,
        RESULT_MODE,
        MOST_ROWS,
    )
}
IN_EFFECT: Final = frozenset(_OPTIONS)
"""Keys that have an effect."""
_OPTIMIZER: Final = (
    "dynamic-filtering.enabled "
    "join.null-filter-threshold "
    "multiple-input-enabled "
    "reuse-optimize-block-with-digest-enabled "
    "reuse-sink-enabled reuse-source-enabled reuse-sub-plan-enabled "
    "union-all-as-breakpoint-enabled delta-join.strategy"
)
_EXECUTION: Final = (
    "async-state.enabled deduplicate.insert-update-after-sensitive-enabled "
    "deduplicate.mini-batch.compact-changes-enabled disabled-operators interval-join.min-cleanup-interval "
    "legacy-cast-behaviour local-hash-agg.adaptive.enabled operator-fusion-codegen.enabled rank.topn-cache-size "
    "resource.default-parallelism resource.external-buffer-memory resource.hash-agg.memory resource.hash-join.memory "
    "resource.sort.memory shuffle-mode simplify-operator-name-enabled sink.keyed-shuffle "
    "sink.rowtime-inserter sort.max-num-file-handles sort.non-temporal.enabled "
    "spill-compression.block-size spill-compression.enabled "
    "uid.format uid.generation unbounded-over.version window-agg.buffer-size-limit"
)
_OTHERS: Final = (
    "column-expansion-strategy "
    "dynamic-table-options.enabled generated-code.max-length legacy-nested-row-nullability module.default "
    "plan.compile.catalog-objects plan.restore.catalog-objects resources.download-dir"
)

WITHOUT_EFFECT: Final = frozenset(
    {
        *(f"table.optimizer.{name}" for name in _OPTIMIZER.split()),
        *(f"table.exec.{name}" for name in _EXECUTION.split()),
        *(f"table.{name}" for name in _OTHERS.split()),
        "table.display.max-column-width",
        "sql-client.display.color-schema",
        "sql-client.display.max-column-width",
        "sql-client.display.print-time-cost",
        "sql-client.display.show-line-numbers",
        "sql-client.prompt",
        "sql-client.verbose",
    }
)
"""Keys of Flink that are accepted without an effect: most of them tune its planner, or its memory."""

_CHANGE_RESULTS: Final = frozenset(
    {
        "table.column-expansion-strategy",
        "table.exec.disabled-operators",
        "table.exec.legacy-cast-behaviour",
        "table.exec.resource.default-parallelism",
        "table.exec.sink.rowtime-inserter",
        "table.exec.sort.non-temporal.enabled",
        "table.dynamic-table-options.enabled",
    }
)
"""Keys without an effect here that in Flink change results, or when they are emitted."""


def is_of_tables(key: str) -> bool:
    """Return whether a key has a prefix of table options."""
    return key.startswith(("table.", "sql-client.", "materialized-table."))


def check_key(key: str) -> None:
    """Refuse an unknown key with a prefix of table options.

    Raises:
        ConfigurationError: with similar keys.
    """
    if key in _CHANGE_RESULTS:
        warn_caller(f"{key} has no effect")
    if not is_of_tables(key) or key in IN_EFFECT or key in WITHOUT_EFFECT:
        return
    known = sorted(IN_EFFECT | WITHOUT_EFFECT)
    close = difflib.get_close_matches(key, known, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(close)}?" if close else "docs/sql.md lists those that have an effect"
    raise ConfigurationError(f"{key} is not a table option: {hint}")


def check_value(key: str, value: str) -> None:
    """Refuse an invalid value of a setting.

    Raises:
        ConfigurationError: with the valid values; or with similar keys, when it is an unknown setting of jobs.
    """
    if not is_of_tables(key) and key != RUNTIME_MODE.key:
        Configuration.from_dict({key: value}).validate()
        return
    option = RUNTIME_MODE if key == RUNTIME_MODE.key else _OPTIONS.get(key)
    if option is None:
        return
    try:
        option.parse(value)
    except ValueError as error:
        raise ConfigurationError(f"{key} = {value!r}: expected {error}") from None
