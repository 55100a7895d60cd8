"""The aggregates that windows compute column by column, without a Python call for each record.

::

    from headrace.datastream.aggregates import count, sum

    stream.key_by("card").window(TumblingEventTimeWindows.of(Time.minutes(1))).aggregate(count(), sum("amount"))
"""

from headrace.common.public_module import public_module
from headrace.operators.aggregates.aggregate import Aggregate
from headrace.operators.aggregates.collected import collect_list, listagg, top_n
from headrace.operators.aggregates.distinct import (
    approx_count_distinct,
    approx_quantile,
    collect_multiset,
    collect_set,
    count_distinct,
    quantile,
)
from headrace.operators.aggregates.simple import bool_and, bool_or, count, first, last, max, min
from headrace.operators.aggregates.sums import avg, stddev_pop, stddev_samp, sum, var_pop, var_samp
from headrace.operators.aggregates.user_defined import ArrowAggregateFunction

__all__ = [
    "Aggregate",
    "ArrowAggregateFunction",
    "approx_count_distinct",
    "approx_quantile",
    "avg",
    "bool_and",
    "bool_or",
    "collect_list",
    "collect_multiset",
    "collect_set",
    "count",
    "count_distinct",
    "first",
    "last",
    "listagg",
    "max",
    "min",
    "quantile",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "top_n",
    "var_pop",
    "var_samp",
]

public_module(__name__)
