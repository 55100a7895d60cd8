"""What streams, windows and environments are asked for in other libraries' words, and what to write instead.

Modules of functions and classes that programs import are asked likewise.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any, Final

_CHAINING: Final = "what runs chained follows from the shuffles"

WITHOUT_EFFECT_ON_SINKS: Final = {
    "disable_chaining": _CHAINING,
    "slot_sharing_group": "Spark places the tasks",
}
"""Settings of sinks that have nothing to act on."""

WITHOUT_EFFECT: Final = {
    **WITHOUT_EFFECT_ON_SINKS,
    "start_new_chain": _CHAINING,
    "set_buffer_timeout": "records travel at the end of an epoch; see headrace.epoch.target-duration",
}
"""Those of other streams."""

_COLUMNS: Final = 'use select("a", (col("b") * 2).alias("double")) with all columns that are wanted'
_WINDOW_AGGREGATE: Final = 'use key_by(...).window(...).aggregate(count(), sum("x"))'
_KEYS_FIRST: Final = "call key_by(...) first"
_KEYS_FIRST_OR_ALL: Final = "call key_by(...) first, or {}(...) for windows of all records"
_ASSIGNER: Final = "use {}(TumblingEventTimeWindows.of(size)), or another WindowAssigner"
_WINDOWS_FIRST: Final = "call window(...) first, then aggregate(...); or reduce(...), for a result at each record"
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

OTHER_NAMES: Final = {
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
"""What streams of PySpark and pandas have, and what a stream has only behind ``key_by``."""

OTHER_NAMES_OF_KEYED_STREAMS: Final = {
    **OTHER_NAMES,
    **dict.fromkeys(("agg", "aggregate", "count", "mean", "avg"), _WINDOWS_FIRST),
    **dict.fromkeys(("time_window", "timeWindow"), _ASSIGNER.format("window")),
    "session_window": "use window(EventTimeSessionWindows.with_gap(gap))",
}
"""The same behind ``key_by``."""

_BUILT_IN: Final = 'use aggregate(count(), sum("x").alias("total")), with one built-in aggregate for each column'

_TO_A_STREAM: Final = "say first what becomes of each window: reduce(...), aggregate(...), apply(...) or process(...)"
_BY_FIELD: Final = 'use reduce(lambda a, b: ...) for whole records, or aggregate(top_n("value", 1, "by"))'
_OF_STREAMS: Final = (
    *("map", "flat_map", "filter", "map_batches", "select", "key_by", "union", "get_side_output"),
    *("print", "sink_to", "execute_and_collect", "to_dataframe", "name", "uid", "set_parallelism"),
)

OTHER_NAMES_OF_SINKS: Final = dict.fromkeys(_OF_STREAMS, "a sink is an end: call it of the stream that was written")
"""Those of streams, behind ``print`` and ``sink_to``."""

OTHER_NAMES_OF_WINDOWED_STREAMS: Final = {
    **dict.fromkeys(("agg", "count", "sum", "min", "max", "mean", "avg"), _BUILT_IN),
    **dict.fromkeys(("min_by", "max_by", "minBy", "maxBy"), _BY_FIELD),
    **dict.fromkeys(_OF_STREAMS, _TO_A_STREAM),
    "fold": "use aggregate(...) with an AggregateFunction",
}
"""Those of grouped data and of streams, behind ``window``."""

_TWO_STREAMS: Final = "say first what becomes of the records of both: map(...), flat_map(...) or process(...)"

OTHER_NAMES_OF_CONNECTED_STREAMS: Final = {
    **dict.fromkeys(_OF_STREAMS, _TWO_STREAMS),
    **dict.fromkeys(("window", "join"), "windows of two streams: first.join(second) or first.co_group(second)"),
}
"""Those of streams, behind ``connect``."""

OTHER_NAMES_OF_BROADCAST_CONNECTED: Final = {
    **OTHER_NAMES_OF_CONNECTED_STREAMS,
    **dict.fromkeys(_OF_STREAMS, "say first what becomes of the records of both: process(...)"),
}
"""Those of streams, behind ``connect`` with a stream that is broadcast."""

OTHER_NAMES_OF_BROADCAST_STREAMS: Final = dict.fromkeys(
    (*OTHER_NAMES_OF_CONNECTED_STREAMS, "connect", "process"),
    "the other stream takes it: records.connect(rules.broadcast(descriptor)).process(...)",
)
"""Those of streams, behind ``broadcast(descriptor)``."""

_KEYS_OF_BOTH: Final = "call where(...).equal_to(...) first, for the keys of both"
_OF_JOINS: Final = ("window", "apply", "process", "select")

OTHER_NAMES_OF_TWO_STREAMS: Final = dict.fromkeys((*_OF_STREAMS, *_OF_JOINS, "equal_to", "on"), _KEYS_OF_BOTH)
"""What comes later, or is called otherwise elsewhere, behind ``join`` and ``co_group``."""

OTHER_NAMES_OF_WHERE: Final = dict.fromkeys(
    (*_OF_STREAMS, *_OF_JOINS), "call equal_to(...) first, for the key of the second stream"
)
"""What comes later, behind ``where``."""

OTHER_NAMES_OF_EQUAL_TO: Final = dict.fromkeys((*_OF_STREAMS, *_OF_JOINS), "call window(...) first")
"""What comes later, behind ``equal_to``."""

OTHER_NAMES_OF_WINDOWS_OF_TWO: Final = dict.fromkeys(
    (*_OF_STREAMS, "process", "reduce", "aggregate"), "use apply(...) with a function of both"
)
"""What windows of one stream have, and those of two have not."""

_KEYS_ARE_KNOWN: Final = "the keys are those of key_by(...): leave it out"

OTHER_NAMES_OF_INTERVALS: Final = {
    **dict.fromkeys(
        (*_OF_STREAMS, "process", "apply"), "call between(lower, upper) first, which says what times match"
    ),
    **dict.fromkeys(("where", "equal_to", "on"), _KEYS_ARE_KNOWN),
    "window": "between(lower, upper) says what times match; windows are those of first.join(second)",
}
"""What comes later, behind ``interval_join``."""

OTHER_NAMES_BEHIND_BETWEEN: Final = {
    **dict.fromkeys((*_OF_STREAMS, "apply"), "use process(...) with a ProcessJoinFunction, or select(...)"),
    **dict.fromkeys(("where", "equal_to", "on"), _KEYS_ARE_KNOWN),
    **dict.fromkeys(("in_event_time", "in_processing_time"), "event time it is; call it before between(...)"),
}
"""What window joins and streams have, and interval joins have not."""

OTHER_NAMES_OF_PARTITIONS: Final = dict.fromkeys(
    _OF_STREAMS, "say first what becomes of each partition: map_partition, sort_partition, reduce or aggregate"
)
"""Those of streams, behind ``full_window_partition``."""

OTHER_NAMES_OF_AGGREGATES: Final = {
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
"""Those of SQL, PySpark and pandas, in ``headrace.datastream.aggregates``."""

OTHER_NAMES_OF_WINDOWS: Final = {
    **dict.fromkeys(("window", "Tumble", "TumblingTimeWindows"), "use TumblingEventTimeWindows.of(size)"),
    **dict.fromkeys(("Slide", "Hop", "SlidingTimeWindows"), "use SlidingEventTimeWindows.of(size, slide)"),
    **dict.fromkeys(("session_window", "Session"), "use EventTimeSessionWindows.with_gap(gap)"),
    "Cumulate": "use CumulatingEventTimeWindows.of(max_size, step)",
}
"""Those of PySpark, Flink's tables and Flink 1, in ``headrace.datastream.window``."""

_CALLS: Final = {
    **{name: f'{name}("{{field}}")' for name in ("sum", "min", "max", "avg", "first", "last")},
    **dict.fromkeys(("count", "size", "len"), "count()"),
    "mean": 'avg("{field}")',
    "std": 'stddev_samp("{field}")',
    "var": 'var_samp("{field}")',
    "nunique": 'count_distinct("{field}")',
}
"""The words of ``agg`` in pandas and PySpark for built-in aggregates."""


def built_in_call(asked: Any) -> str | None:
    """What to write instead of ``"sum"``, ``{"amount": "sum"}``, Python's own ``sum``, or ``count`` that is not called.

    It begins in lower case.

    Args:
        asked: what an aggregate was asked for with.

    Returns:
        None for what is nothing of the kind.
    """
    is_uncalled = isinstance(asked, FunctionType) and asked.__module__.startswith("headrace.operators.aggregates.")
    if is_uncalled or any(asked is function for function in (sum, min, max, len)):
        asked = asked.__name__
    if not isinstance(asked, str | Mapping | list | tuple):
        return None
    fields = asked if isinstance(asked, Mapping) else {"field": asked}
    pairs = [
        (field, name)
        for field, names in fields.items()
        for name in (names if isinstance(names, list | tuple) else [names])
    ]
    if not pairs or not all(isinstance(name, str) and name in _CALLS for _, name in pairs):
        return _BUILT_IN
    return f"use aggregate({', '.join(_CALLS[name].format(field=field) for field, name in pairs)})"


OTHER_NAMES_OF_ENVIRONMENTS: Final = {
    **dict.fromkeys(("read", "readStream", "read_csv", "read_text_file"), "use from_source(FileSource..., ...)"),
    **dict.fromkeys(("createDataFrame", "from_elements", "parallelize"), "use from_collection([...], type_info)"),
    **dict.fromkeys(("sql", "sql_query", "table"), "there is no SQL yet: use expressions, docs/expressions.md"),
    "range": "use from_sequence(start, end), both included",
}
"""Those of a Spark session."""
