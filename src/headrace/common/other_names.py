"""Answers to names that an object or a module does not have, misspelled or brought from other libraries.

``OTHER_NAMES`` is the one table of the words of PySpark, pandas, Polars and Flink's Java API. PyFlink's own names are
in :mod:`headrace.common.pyflink_names`. :mod:`headrace.common.public_module` gives the answers to public classes.
"""

import difflib
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any, Final, TypeVar

from headrace.common.call_site import caller, warn_caller
from headrace.common.errors import InvalidTypeError, MissingNameError, UnknownNameError, hides_engine, refused
from headrace.common.pyflink_names import MEMBERS, PLAIN

C = TypeVar("C", bound=type)

_NOTHING: Final[Mapping[str, str]] = {}
_EXPLAINED: Final = "_headrace_names_explained"
_LIKENESS: Final = 0.7
_FUNCTIONS: Final = (FunctionType, MethodType, BuiltinMethodType)
_BEGIN_OF_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# --- settings of streams that have nothing to act on -----------------------------------------------------------------

_CHAINING: Final = "what runs chained follows from the shuffles"

_ON_SINKS: Final = {
    "disable_chaining": _CHAINING,
    "slot_sharing_group": "Spark places the tasks",
}
"""Settings of sinks that have nothing to act on."""

_ON_STREAMS: Final = {
    **_ON_SINKS,
    "start_new_chain": _CHAINING,
    "set_buffer_timeout": "records travel at the end of an epoch; see headrace.epoch.target-duration",
}
"""Settings of streams that have nothing to act on."""

_COLUMNS: Final = 'use select("a", (col("b") * 2).alias("double")) with all columns that are wanted'
_WINDOW_AGGREGATE: Final = (
    'use key_by(...).window(...).aggregate(count(), sum("x")); all records of a key need no window'
)
_KEYS_FIRST: Final = "call key_by(...) first"
_KEYS_FIRST_OR_ALL: Final = "call key_by(...) first, or {}(...) for windows of all records"
_ASSIGNER: Final = "use {}(TumblingEventTimeWindows.of(size)), or another WindowAssigner"
_WINDOWS_FIRST: Final = "use aggregate(count(), avg('x')), for a result at each record; or call window(...) first"
_TO_PROGRAM: Final = "use execute_and_collect(), or execute_and_collect(limit=10) for some records"
_ORDER: Final = "records have no order but that of event time; rank within windows, in a function"
_DISTINCT: Final = "keep what was seen in a state, in a KeyedProcessFunction with a time to live"
_WRITE: Final = "use sink_to(FileSink...), or another sink"
_JOIN: Final = "use join(other).where(...).equal_to(...).window(...), or interval_join(other) behind key_by(...)"
_OUTER: Final = 'use join(other, how="left"), or interval_join(other, how="left") behind key_by(...)'
_ITERATE: Final = (
    "Flink has given it up: repeat within a function, or send records around through a topic, with a sink and a source"
)
_ASYNC: Final = "use AsyncDataStream.unordered_wait(stream, function, timeout)"
_TYPE: Final = "use get_type()"
_OF_WINDOWS: Final = "windows have it: call it behind {}, before reduce, aggregate, apply or process"
_SETTINGS_OF_WINDOWS: Final = (
    *("trigger", "evictor", "allowed_lateness", "side_output_late_data", "accumulation_mode"),
    *("allowedLateness", "sideOutputLateData"),
)

_OF_DATA_STREAMS: Final = {
    **dict.fromkeys(("withColumn", "withColumns", "with_column", "with_columns", "assign"), _COLUMNS),
    **dict.fromkeys(("withColumnRenamed", "rename", "drop", "selectExpr"), _COLUMNS),
    **dict.fromkeys(("where", "query"), "use filter(...)"),
    **dict.fromkeys(("groupBy", "groupby", "group_by"), "use key_by(...)"),
    **dict.fromkeys(("agg", "aggregate", "count", "mean", "avg"), _WINDOW_AGGREGATE),
    **dict.fromkeys(("sum", "min", "max", "min_by", "max_by", "reduce"), _KEYS_FIRST),
    "interval_join": _KEYS_FIRST,
    "window": _KEYS_FIRST_OR_ALL.format("window_all"),
    "count_window": _KEYS_FIRST_OR_ALL.format("count_window_all"),
    **dict.fromkeys(("time_window", "timeWindow"), _ASSIGNER.format("key_by(...).window")),
    "session_window": "use key_by(...).window(EventTimeSessionWindows.with_gap(gap))",
    **dict.fromkeys(("time_window_all", "timeWindowAll"), _ASSIGNER.format("window_all")),
    **dict.fromkeys(("collect", "take", "head", "first", "limit", "toLocalIterator"), _TO_PROGRAM),
    **dict.fromkeys(("toPandas", "to_pandas", "toDF", "to_df"), "use to_dataframe(), for a job that ends"),
    **dict.fromkeys(("show", "display"), "use print()"),
    **dict.fromkeys(("write", "writeStream", "to_csv", "to_parquet"), _WRITE),
    **dict.fromkeys(("foreach", "foreachBatch"), "use sink_to(...) with a sink of your own: docs/connectors.md"),
    **dict.fromkeys(("merge", "crossJoin"), _JOIN),
    **dict.fromkeys(("orderBy", "sort", "sort_values"), _ORDER),
    **dict.fromkeys(("distinct", "dropDuplicates", "drop_duplicates", "unique"), _DISTINCT),
    **dict.fromkeys(("unionAll", "unionByName", "concat"), "use union(...)"),
    **dict.fromkeys(("columns", "schema", "dtypes", "printSchema"), _TYPE),
    **dict.fromkeys(("repartition", "coalesce"), "use rebalance(), and set_parallelism(...) on the operator behind it"),
    **dict.fromkeys(_SETTINGS_OF_WINDOWS, _OF_WINDOWS.format("window(...) or window_all(...)")),
    **dict.fromkeys(("apply", "mapInArrow", "mapInPandas"), "use map(...), or map_batches(...) for Arrow batches"),
    **dict.fromkeys(("iterate", "close_with"), _ITERATE),
    **dict.fromkeys(("unordered_wait", "ordered_wait", "map_async", "async_map"), _ASYNC),
    **dict.fromkeys(("persist", "checkpoint", "localCheckpoint"), "use cache(), for a stream that ends"),
    **dict.fromkeys(("global", "globalPartition", "to_one"), "use global_()"),
    **dict.fromkeys(("left_join", "right_join", "outer_join", "full_join", "leftOuterJoin"), _OUTER),
    **dict.fromkeys(("as_queryable_state", "asQueryableState"), "headrace state reads it: docs/reading-state.md"),
    "enable_async_state": "leave it out: state is beside the function, and looked up for a whole batch at once",
    "enableAsyncState": "leave it out: state is beside the function, and looked up for a whole batch at once",
    "explode": "use flat_map(...)",
    "withWatermark": "use assign_timestamps_and_watermarks(WatermarkStrategy...)",
}
"""Methods of PySpark and pandas, and those that a stream has only behind ``key_by``."""

_OF_KEYED_STREAMS: Final = {
    **dict.fromkeys(("agg", "count", "mean", "avg"), _WINDOWS_FIRST),
    **dict.fromkeys(("time_window", "timeWindow"), _ASSIGNER.format("window")),
    "session_window": "use window(EventTimeSessionWindows.with_gap(gap))",
}
"""Other answers behind ``key_by``."""

_BUILT_IN: Final = 'use aggregate(count(), sum("x").alias("total")), with one built-in aggregate for each column'

_TO_A_STREAM: Final = "say first what becomes of each window: reduce(...), aggregate(...), apply(...) or process(...)"
_BY_FIELD: Final = 'use reduce(lambda a, b: ...) for whole records, or aggregate(top_n("value", 1, "by"))'
_OF_STREAMS: Final = (
    *("map", "flat_map", "filter", "map_batches", "select", "key_by", "union", "get_side_output"),
    *("print", "sink_to", "execute_and_collect", "to_dataframe", "name", "uid", "set_parallelism"),
)

_OF_SINKS: Final = dict.fromkeys(_OF_STREAMS, "a sink is an end: call it of the stream that was written")
"""Methods of streams, called on a sink."""

_OF_WINDOWED_STREAMS: Final = {
    **dict.fromkeys(("agg", "count", "sum", "min", "max", "mean", "avg"), _BUILT_IN),
    **dict.fromkeys(("min_by", "max_by", "minBy", "maxBy"), _BY_FIELD),
    **dict.fromkeys(_OF_STREAMS, _TO_A_STREAM),
    "fold": "use aggregate(...) with an AggregateFunction",
}
"""Methods of grouped data and of streams, called on windows."""

_TWO_STREAMS: Final = "say first what becomes of the records of both: map(...), flat_map(...) or process(...)"

_OF_CONNECTED_STREAMS: Final = {
    **dict.fromkeys(_OF_STREAMS, _TWO_STREAMS),
    **dict.fromkeys(("window", "join"), "windows of two streams: first.join(second) or first.co_group(second)"),
}
"""Methods of streams, called on two that are connected."""

_OF_BROADCAST_CONNECTED: Final = {
    **_OF_CONNECTED_STREAMS,
    **dict.fromkeys(_OF_STREAMS, "say first what becomes of the records of both: process(...)"),
}
"""Methods of streams, called on one that is connected with a broadcast stream."""

_OF_BROADCAST_STREAMS: Final = dict.fromkeys(
    (*_OF_CONNECTED_STREAMS, "connect", "process"),
    "the other stream takes it: records.connect(rules.broadcast(descriptor)).process(...)",
)
"""Methods of streams, called on a broadcast stream."""

_KEYS_OF_BOTH: Final = "call where(...).equal_to(...) first, for the keys of both"
_OF_JOINS: Final = ("window", "apply", "process", "select")

_OF_TWO_STREAMS: Final = dict.fromkeys((*_OF_STREAMS, *_OF_JOINS, "equal_to", "on"), _KEYS_OF_BOTH)
"""Methods that come later, or have other names elsewhere, called behind ``join`` and ``co_group``."""

_OF_WHERE: Final = dict.fromkeys(
    (*_OF_STREAMS, *_OF_JOINS), "call equal_to(...) first, for the key of the second stream"
)
"""Methods that come later, called behind ``where``."""

_OF_EQUAL_TO: Final = dict.fromkeys((*_OF_STREAMS, "apply", "process", "select"), "call window(...) first")
"""Methods that come later, called behind ``equal_to``."""

_OF_WINDOWS_OF_TWO: Final = dict.fromkeys(
    (*_OF_STREAMS, "process", "reduce", "aggregate"), "use apply(...) with a function of both"
)
"""Methods of windows of one stream, called on windows of two."""

_KEYS_ARE_KNOWN: Final = "the keys are those of key_by(...): leave it out"

_OF_INTERVALS: Final = {
    **dict.fromkeys(
        (*_OF_STREAMS, "process", "apply"), "call between(lower, upper) first, which says what times match"
    ),
    **dict.fromkeys(("where", "equal_to", "on"), _KEYS_ARE_KNOWN),
    "window": "between(lower, upper) says what times match; windows are those of first.join(second)",
}
"""Methods that come later, called behind ``interval_join``."""

_BEHIND_BETWEEN: Final = {
    **dict.fromkeys((*_OF_STREAMS, "apply"), "use process(...) with a ProcessJoinFunction, or select(...)"),
    **dict.fromkeys(("where", "equal_to", "on"), _KEYS_ARE_KNOWN),
    **dict.fromkeys(("in_event_time", "in_processing_time"), "event time it is; call it before between(...)"),
}
"""Methods of window joins and of streams, called on an interval join."""

_OF_PARTITIONS: Final = dict.fromkeys(
    _OF_STREAMS, "say first what becomes of each partition: map_partition, sort_partition, reduce or aggregate"
)
"""Methods of streams, called behind ``full_window_partition``."""

_OF_AGGREGATES: Final = {
    **dict.fromkeys(("mean", "average"), "use avg(column)"),
    **dict.fromkeys(("std", "stddev"), "use stddev_samp(column), or stddev_pop(column)"),
    **dict.fromkeys(("var", "variance"), "use var_samp(column), or var_pop(column)"),
    "median": "use quantile(column, 0.5), or approx_quantile(column, 0.5)",
    **dict.fromkeys(("percentile", "percentile_cont", "percentile_disc"), "use quantile(column, part)"),
    **dict.fromkeys(("percentile_approx", "approx_percentile"), "use approx_quantile(column, part)"),
    **dict.fromkeys(("max_by", "arg_max"), "use top_n(column, 1, by)"),
    **dict.fromkeys(("string_agg", "group_concat"), "use listagg(column, separator)"),
    **dict.fromkeys(("array_agg", "collect"), "use collect_list(column)"),
    **dict.fromkeys(("any", "some"), "use bool_or(column)"),
    **dict.fromkeys(("all", "every"), "use bool_and(column)"),
    **dict.fromkeys(("first_value", "any_value"), "use first(column)"),
    **dict.fromkeys(("last_value", "latest"), "use last(column)"),
    "nunique": "use count_distinct(column)",
}
"""Functions of SQL, PySpark and pandas, called on ``headrace.datastream.aggregates``."""

_OF_WINDOW_MODULE: Final = {
    **dict.fromkeys(("window", "Tumble", "TumblingTimeWindows"), "use TumblingEventTimeWindows.of(size)"),
    **dict.fromkeys(("Slide", "Hop", "SlidingTimeWindows"), "use SlidingEventTimeWindows.of(size, slide)"),
    **dict.fromkeys(("session_window", "Session"), "use EventTimeSessionWindows.with_gap(gap)"),
    "Cumulate": "use CumulatingEventTimeWindows.of(max_size, step)",
}
"""Windows of PySpark, Flink's tables and Flink 1, called on ``headrace.datastream.window``."""

_OF_ENVIRONMENTS: Final = {
    **dict.fromkeys(("read", "readStream", "read_csv", "read_text_file"), "use from_source(FileSource..., ...)"),
    **dict.fromkeys(("createDataFrame", "from_elements", "parallelize"), "use from_collection([...], type_info)"),
    **dict.fromkeys(("sql", "sql_query", "table"), "use execute_sql() of a TableEnvironment, from headrace.table"),
    "range": "use from_sequence(start, end), both included",
}
"""Methods of a Spark session, called on an environment."""

_OF_TABLE_ENVIRONMENTS: Final = {
    **dict.fromkeys(("sql", "execute", "query"), "use execute_sql(statement)"),
    "table": "use sql_query('SELECT * FROM t')",
}
"""Methods of a Spark session and of DuckDB, called on an environment of tables."""

_OF_TABLES: Final = {
    **dict.fromkeys(("show", "print"), "use execute().print()"),
    "collect": "use execute().collect()",
    **dict.fromkeys(("toPandas", "df"), "use to_pandas()"),
    "toArrow": "use to_arrow()",
    **dict.fromkeys(("schema", "columns", "dtypes"), "use get_resolved_schema()"),
}
"""Methods of DataFrames, called on a table."""

_OF_TABLE_RESULTS: Final = {
    **dict.fromkeys(("show", "pretty"), "use print()"),
    **dict.fromkeys(("fetchall", "fetchone", "fetchmany"), "use collect(), which gives the rows one by one"),
    **dict.fromkeys(("toPandas", "df"), "use to_pandas()"),
    "await_": "use wait()",
}
"""Methods of DataFrames and of DB-API's cursors, called on the result of a statement."""

_LOOK_FOR_IT: Final = "CEP.pattern(stream, pattern) looks for it, and has {}(...)"
_WHAT_BECOMES: Final = "say first what becomes of a match: select(...), flat_select(...) or process(...)"
_OF_PATTERN: Final = "it belongs to the pattern that CEP.pattern(stream, pattern) is given"

_OF_PATTERNS: Final = {
    **{name: _LOOK_FOR_IT.format(name) for name in ("select", "flat_select", "process")},
    **dict.fromkeys(("or", "orElse", "or_else", "otherwise"), "use or_(...)"),
    **dict.fromkeys(("and", "and_", "filter"), "use where(...): several on one stage have to hold all"),
    **dict.fromkeys(("then", "followed"), "use followed_by(...), or next(...) where nothing may lie between"),
    **dict.fromkeys(("not", "not_", "without"), "use not_next(...) or not_followed_by(...)"),
    **dict.fromkeys(
        ("repeat", "at_least", "zero_or_more"), "use times(n), times_or_more(n) or one_or_more().optional()"
    ),
    **dict.fromkeys(("skip", "with_skip_strategy", "after_match_skip"), "give it to Pattern.begin(name, strategy)"),
    **dict.fromkeys(("window", "timeout"), "use within(time)"),
}
"""Methods of streams and words for what is said otherwise, called on a pattern; Flink's Java names are alike ours."""

_OF_PATTERN_STREAMS: Final = {
    **dict.fromkeys(
        ("map", "flat_map", "filter", "union", "get_side_output", "print", "sink_to", "execute_and_collect", "uid"),
        _WHAT_BECOMES,
    ),
    **dict.fromkeys(("key_by", "keyBy"), "key the stream: CEP.pattern(stream.key_by(...), pattern)"),
    **dict.fromkeys(("where", "within", "until", "next", "followed_by", "times"), _OF_PATTERN),
}
"""Methods of streams and of patterns, called on a stream in which a pattern is looked for."""

_OF_CEP: Final = {
    "RichIterativeCondition": "use IterativeCondition, which may have open() and close()",
    **dict.fromkeys(
        ("RichPatternSelectFunction", "RichPatternFlatSelectFunction"),
        "leave Rich out: functions may have open() and close()",
    ),
    **dict.fromkeys(
        (
            "BooleanConditions",
            "RichAndCondition",
            "RichOrCondition",
            "RichNotCondition",
            "RichCompositeIterativeCondition",
        ),
        "use where(...), or_(...), and & | ~ of expressions",
    ),
    "SubtypeCondition": "use subtype(cls) of the pattern",
    "Quantifier": "use times(...), one_or_more(), optional() and greedy() of the pattern",
    **dict.fromkeys(("NoSkipStrategy", "SkipPastLastStrategy"), "use AfterMatchSkipStrategy.no_skip() and its like"),
    **dict.fromkeys(
        ("PatternProcessor", "PatternProcessorDiscoverer"), "use PatternRule and CEP.dynamic_patterns(...)"
    ),
}
"""Classes of Flink's CEP library and of vendors' versions, called on ``headrace.cep``."""

# --- columns of PySpark, pandas and Polars ----------------------------------------------------------------------------

_AGGREGATE: Final = "aggregates belong to windows: key_by(...).window(...).aggregate(...)"
_NULL: Final = "write is_null()"
_NOT_NULL: Final = "write is_not_null()"
_FILLED: Final = "write coalesce(x, value)"
_CASE: Final = "write when(condition).then(value).otherwise(other)"
_DIRECTLY: Final = "its methods are those of the expression itself: upper(), contains(...), year()"

_EXPRESSION: Final = {
    "isNull": _NULL,
    "isnull": _NULL,
    "isna": _NULL,
    "isNotNull": _NOT_NULL,
    "notnull": _NOT_NULL,
    "notna": _NOT_NULL,
    "isNaN": "write is_nan()",
    "isnan": "write is_nan()",
    "isin": "write is_in([...])",
    "eqNullSafe": "write (x == y) | (x.is_null() & y.is_null())",
    "fillna": _FILLED,
    "fill_null": _FILLED,
    "is_between": "write between(low, high)",
    "when": _CASE,
    "then": _CASE,
    "otherwise": _CASE,
    "astype": "write cast(Types.LONG()), say",
    "getField": "write field(name)",
    "getItem": "write field(name), for a row or a tuple",
    "startswith": "write starts_with(text)",
    "endswith": "write ends_with(text)",
    "substr": "write substring(start, length), which counts from 0",
    "slice": "write substring(start, length), which counts from 0",
    "len": "write length()",
    "trim": "write strip()",
    "rlike": "write like(pattern) with % and _, or filter with a function",
    "str": _DIRECTLY,
    "dt": _DIRECTLY,
    "pow": "write power(exponent)",
    "dayofweek": "write day_of_week(), where Monday is 1",
    "weekday": "write day_of_week(), where Monday is 1",
    "timestamp": "write epoch_millis()",
    "map": "give a function to map(...) of the stream",
    "apply": "give a function to map(...) of the stream",
    "sum": _AGGREGATE,
    "mean": _AGGREGATE,
    "avg": _AGGREGATE,
    "min": _AGGREGATE,
    "max": _AGGREGATE,
    "count": _AGGREGATE,
    "over": _AGGREGATE,
    "asc": _ORDER,
    "desc": _ORDER,
}
"""Methods of columns, called on an expression."""

_WHEN: Final = {
    "otherwise": "it wants .then(value) first: when(condition).then(value).otherwise(other)",
    "when": "it wants .then(value) first: when(condition).then(value).when(...)",
    "alias": "it wants .then(value) first: when(condition).then(value).alias(...)",
    "cast": "it wants .then(value) first: when(condition).then(value).cast(...)",
}
"""Methods that come later, called behind ``when(condition)``."""

# --- the table -------------------------------------------------------------------------------------------------------

_RESULT: Final = "use get_job_execution_result().result(), which waits for the job's end"

OTHER_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "StreamExecutionEnvironment": _OF_ENVIRONMENTS,
    "CheckpointConfig": _NOTHING,
    "ExecutionConfig": _NOTHING,
    "WatermarkStrategy": _NOTHING,
    "DataStream": _OF_DATA_STREAMS,
    "KeyedStream": _OF_KEYED_STREAMS,
    "DataStreamSink": _OF_SINKS,
    "WindowedStream": _OF_WINDOWED_STREAMS,
    "AllWindowedStream": _OF_WINDOWED_STREAMS,
    "PartitionWindowedStream": _OF_PARTITIONS,
    "ConnectedStreams": _OF_CONNECTED_STREAMS,
    "BroadcastConnectedStream": _OF_BROADCAST_CONNECTED,
    "BroadcastStream": _OF_BROADCAST_STREAMS,
    "JoinedStreams": _OF_TWO_STREAMS,
    "CoGroupedStreams": _OF_TWO_STREAMS,
    "Where": _OF_WHERE,
    "EqualTo": _OF_EQUAL_TO,
    "JoinedWindows": _OF_WINDOWS_OF_TWO,
    "CoGroupedWindows": _OF_WINDOWS_OF_TWO,
    "IntervalJoin": _OF_INTERVALS,
    "IntervalJoined": _BEHIND_BETWEEN,
    "Expression": _EXPRESSION,
    "When": _WHEN,
    "JobClient": {
        **dict.fromkeys(("result", "wait", "join", "await_termination", "awaitTermination"), _RESULT),
        **dict.fromkeys(("status", "isActive", "is_active", "lastProgress"), "use get_job_status().result()"),
        **dict.fromkeys(("exception", "error"), "get_job_execution_result().exception() is what the job failed with"),
    },
    "RuntimeContext": {
        "get_broadcast_state": (
            "ctx.get_broadcast_state(descriptor) gives it where records are handled, and not in open()"
        ),
    },
    "MetricGroup": {"histogram": "use distribution(name)", "addGroup": "use add_group(name)"},
    "Counter": {"increment": "use inc(n)", "getCount": "use get_count()"},
    "Meter": {"markEvent": "use mark_event(n)", "getRate": "it is among the job's metrics: JobClient.get_metrics()"},
    "Distribution": _NOTHING,
    "CsvSchemaBuilder": _NOTHING,
    "FileSourceBuilder": _NOTHING,
    "HybridSourceBuilder": _NOTHING,
    "KafkaSinkBuilder": _NOTHING,
    "KafkaSourceBuilder": _NOTHING,
    "LogSinkBuilder": _NOTHING,
    "LogSourceBuilder": _NOTHING,
    "DynamicKafkaSourceBuilder": {
        "set_bootstrap_servers": "the metadata service says where clusters are, see set_kafka_metadata_service()",
        "set_topics": "streams are read, whose topics the metadata service knows: set_stream_ids({...})",
        "set_topic_pattern": "streams are read, whose topics the metadata service knows: set_stream_pattern(...)",
        "set_partitions": "streams are read, with all partitions of their topics: set_stream_ids({...})",
        "set_unbounded": "it does not end, unless set_bounded() is called",
    },
    "TableEnvironment": _OF_TABLE_ENVIRONMENTS,
    "Pattern": _OF_PATTERNS,
    "PatternStream": _OF_PATTERN_STREAMS,
    "Table": _OF_TABLES,
    "TableConfig": _NOTHING,
    "StatementSet": _NOTHING,
    "TableResult": _OF_TABLE_RESULTS,
    "headrace.cep": _OF_CEP,
    "headrace.datastream.aggregates": _OF_AGGREGATES,
    "headrace.datastream.window": _OF_WINDOW_MODULE,
}
"""By the name of a class, or of a module: the names of other libraries, and what to write instead, in lower case.

A class that is listed without any names still says which of its own names is like the one that was read.
"""

WITHOUT_EFFECT: Final[Mapping[str, Mapping[str, str]]] = {"DataStream": _ON_STREAMS, "DataStreamSink": _ON_SINKS}
"""By the name of a class: setters that only warn, and why."""

MADE_BY: Final[Mapping[str, str]] = {
    "GroupPattern": "give a pattern to begin(), next(), followed_by() or followed_by_any() in the place of a name",
    "Pattern": "write Pattern.begin(name)",
    "PatternStream": "write CEP.pattern(stream, pattern)",
    "TableEnvironment": "write TableEnvironment.create(settings)",
}
"""By the name of a class that programs do not call: what makes one."""

_CALLS: Final = {
    **{name: f'{name}("{{field}}")' for name in ("sum", "min", "max", "avg", "first", "last")},
    **dict.fromkeys(("count", "size", "len"), "count()"),
    "mean": 'avg("{field}")',
    "std": 'stddev_samp("{field}")',
    "var": 'var_samp("{field}")',
    "nunique": 'count_distinct("{field}")',
}
"""The words of ``agg`` in pandas and PySpark for built-in aggregates."""

# --- the answers -----------------------------------------------------------------------------------------------------


def answers_other_names(cls: type) -> None:
    """Gives a class the setters without effect and the answers that the tables have for it, and for calls of it.

    ``hasattr`` and completion do not see the answers. What PyFlink has is a :class:`MissingNameError`, anything else an
    :class:`UnknownNameError`, with the names that are alike where there are any.
    """
    for name, reason in WITHOUT_EFFECT.get(cls.__name__, _NOTHING).items():
        setattr(cls, name, _warning(cls, name, reason))
    if cls.__name__ in MADE_BY:
        cls.__init__ = _constructor(cls)  # type: ignore[misc]
    if cls.__name__ in OTHER_NAMES:
        cls.__getattr__ = _answer  # type: ignore[attr-defined]


def _constructor(cls: type) -> Callable[..., None]:
    """The constructor of a class, which says what makes one when it is called with other arguments than its own."""
    make: Callable[..., None] = vars(cls)["__init__"]

    @hides_engine
    @functools.wraps(make)
    def construct(self: object, *args: Any, **kwargs: Any) -> None:
        try:
            make(self, *args, **kwargs)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:  # it is not about the call
                raise
            raise refused(f"{cls.__name__} is not called: {MADE_BY[cls.__name__]}", InvalidTypeError) from None

    return construct


@hides_engine
def _answer(self: object, name: str) -> Any:
    owner_name = type(self).__name__
    if name.startswith("_"):  # Python's own protocols ask for these
        raise AttributeError(f"{owner_name!r} object has no attribute {name!r}", name=name, obj=self)
    if hasattr(type(self), name):  # a property or the like, which has raised an AttributeError of its own
        return object.__getattribute__(self, name)
    owners = [owner.__name__ for owner in type(self).__mro__]
    for owner in owners:
        missing = MEMBERS.get(owner, {}).get(name)
        if missing is not None:
            raise MissingNameError(f"{owner}.{name}() is not supported{missing}\n  at {caller()}")
    advice = next((OTHER_NAMES[owner][name] for owner in owners if name in OTHER_NAMES.get(owner, _NOTHING)), None)
    hint = f": {advice}" if advice else alike(name, dir(type(self)))
    raise UnknownNameError(f"{owner_name} has no {name!r}{hint}\n  at {caller()}")


def names_explained(shown: str, names: Mapping[str, str] = _NOTHING) -> Callable[[C], C]:
    """Lets :func:`explained` say what to write instead of names that a class does not have.

    For objects that functions use at each record: a ``__getattr__``, as :func:`answers_other_names` adds one, makes
    every use of every attribute several times as slow.

    Args:
        shown: what programs know the class as.
        names: those of other libraries and what to write instead, which begins in lower case.
    """

    def add(cls: C) -> C:
        setattr(cls, _EXPLAINED, (shown, names))
        return cls

    return add


def explained(error: BaseException) -> str:
    """Advice for an attribute that does not exist; empty where there is none."""
    if not isinstance(error, AttributeError) or error.name is None:
        return ""
    if isinstance(error.obj, _FUNCTIONS):  # ctx.window.end
        name = error.obj.__name__
        return f"{name} is a method, which has to be called: {name}().{error.name}"
    shown, names = getattr(type(error.obj), _EXPLAINED, (None, _NOTHING))
    if shown is None:
        return ""
    missing = PLAIN.get(f"{shown}.{error.name}")
    if missing is not None:
        return f"{shown}.{error.name}() is not supported{missing}"
    hint = f": {names[error.name]}" if error.name in names else alike(error.name, dir(type(error.obj)))
    return f"{shown} has no {error.name!r}{hint}"


def alike(name: str, known: Iterable[str]) -> str:
    """The end of a message: the names that may have been meant; empty when none is alike.

    Args:
        name: the name that is not there.
        known: the names that are; those with an underscore do not count.
    """
    public = [each for each in known if not each.startswith("_")]
    words = _BEGIN_OF_WORD.sub("_", name).lower()  # Java's keyBy is key_by
    by_words = {_BEGIN_OF_WORD.sub("_", each).lower(): each for each in public}
    close = [words] if words in by_words else difflib.get_close_matches(words, by_words, n=3, cutoff=_LIKENESS)
    return f": did you mean {' or '.join(by_words[each] for each in close)}?" if close else ""


def built_in_call(call: Any) -> str | None:
    """Advice for ``"sum"``, ``{"amount": "sum"}``, Python's own ``sum``, or ``count`` that is not called.

    It begins in lower case.

    Args:
        call: what names the aggregate.

    Returns:
        None for what is nothing of the kind.
    """
    is_uncalled = isinstance(call, FunctionType) and call.__module__.startswith("headrace.operators.aggregates.")
    if is_uncalled or any(call is function for function in (sum, min, max, len)):
        call = call.__name__
    if not isinstance(call, str | Mapping | list | tuple):
        return None
    fields = call if isinstance(call, Mapping) else {"field": call}
    pairs = [
        (field, name)
        for field, names in fields.items()
        for name in (names if isinstance(names, list | tuple) else [names])
    ]
    if not pairs or not all(isinstance(name, str) and name in _CALLS for _, name in pairs):
        return _BUILT_IN
    return f"use aggregate({', '.join(_CALLS[name].format(field=field) for field, name in pairs)})"


def _warning(cls: type, name: str, reason: str) -> Callable[..., Any]:
    def warn(self: object, *_: object, **__: object) -> Any:
        warn_caller(f"{cls.__name__}.{name}() has no effect: {reason}")
        return self

    warn.__doc__ = f"Accepted without effect: {reason}."
    warn.__name__, warn.__qualname__ = name, f"{cls.__qualname__}.{name}"
    return warn
