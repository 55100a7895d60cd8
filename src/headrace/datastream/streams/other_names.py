"""What streams, windows and environments are asked for in other libraries' words, and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
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
_WINDOWS_FIRST: Final = "call window(...) first, then aggregate(...); or reduce(...), for a result at each record"
_TO_PROGRAM: Final = "use execute_and_collect(), or execute_and_collect(limit=10) for some records"
_ORDER: Final = "records have no order but that of event time; rank within windows, in a function"
_DISTINCT: Final = "keep what was seen in a state, in a KeyedProcessFunction with a time to live"
_WRITE: Final = "use sink_to(FileSink...), or another sink"
_JOIN: Final = "bring both streams to one type with map(...), union() them, and process() the result by key"
_TYPE: Final = "use get_type()"

OTHER_NAMES: Final = {
    **dict.fromkeys(("withColumn", "withColumns", "with_column", "with_columns", "assign"), _COLUMNS),
    **dict.fromkeys(("withColumnRenamed", "rename", "drop", "selectExpr"), _COLUMNS),
    **dict.fromkeys(("where", "query"), "use filter(...)"),
    **dict.fromkeys(("groupBy", "groupby", "group_by"), "use key_by(...)"),
    **dict.fromkeys(("agg", "aggregate", "count", "mean", "avg"), _WINDOW_AGGREGATE),
    **dict.fromkeys(("sum", "min", "max", "min_by", "max_by", "reduce", "window"), _KEYS_FIRST),
    **dict.fromkeys(("collect", "take", "head", "first", "limit", "toLocalIterator"), _TO_PROGRAM),
    **dict.fromkeys(("toPandas", "to_pandas", "toDF", "to_df"), "use to_dataframe(), for a job that ends"),
    **dict.fromkeys(("show", "display"), "use print()"),
    **dict.fromkeys(("write", "writeStream", "to_csv", "to_parquet"), _WRITE),
    **dict.fromkeys(("foreach", "foreachBatch"), "use sink_to(...) with a sink of your own: docs/connectors.md"),
    **dict.fromkeys(("join", "merge", "crossJoin"), _JOIN),
    **dict.fromkeys(("orderBy", "sort", "sort_values"), _ORDER),
    **dict.fromkeys(("distinct", "dropDuplicates", "drop_duplicates", "unique"), _DISTINCT),
    **dict.fromkeys(("unionAll", "unionByName", "concat"), "use union(...)"),
    **dict.fromkeys(("columns", "schema", "dtypes", "printSchema"), _TYPE),
    **dict.fromkeys(("repartition", "coalesce"), "use set_parallelism(...) on the operator behind it"),
    **dict.fromkeys(("apply", "mapInArrow", "mapInPandas"), "use map(...), or map_batches(...) for Arrow batches"),
    "explode": "use flat_map(...)",
    "withWatermark": "use assign_timestamps_and_watermarks(WatermarkStrategy...)",
}
"""What streams of PySpark and pandas have, and what a stream has only behind ``key_by``."""

OTHER_NAMES_OF_KEYED_STREAMS: Final = {
    **OTHER_NAMES,
    **dict.fromkeys(("agg", "aggregate", "count", "mean", "avg"), _WINDOWS_FIRST),
}
"""The same behind ``key_by``."""

_BUILT_IN: Final = 'use aggregate(count(), sum("x").alias("total")), with one built-in aggregate for each column'

OTHER_NAMES_OF_WINDOWED_STREAMS: Final = dict.fromkeys(("agg", "count", "sum", "min", "max", "mean", "avg"), _BUILT_IN)
"""Those of grouped data, behind ``window``."""

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
    """What to write instead of ``"sum"``, ``{"amount": "sum"}``, or Python's own ``sum``; begins in lower case.

    Args:
        asked: what an aggregate was asked for with.

    Returns:
        None for what is nothing of the kind.
    """
    if any(asked is function for function in (sum, min, max, len)):
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
