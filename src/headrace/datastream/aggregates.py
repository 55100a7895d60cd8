"""The aggregates that windows compute column by column, without a Python call for each record.

::

    from headrace.datastream.aggregates import count, sum

    stream.key_by("card").window(TumblingEventTimeWindows.of(Time.minutes(1))).aggregate(count(), sum("amount"))
"""

from __future__ import annotations

from headrace.common.public_module import public_module
from headrace.operators.aggregates.aggregate import Aggregate
from headrace.operators.aggregates.built_in import avg, count, first, last, max, min, sum

__all__ = ["Aggregate", "avg", "count", "first", "last", "max", "min", "sum"]

public_module(__name__)
