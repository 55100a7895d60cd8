"""Expressions over the fields of records: ``col("price") * col("quantity")``, computed for whole batches at a time.

They stand where the DataStream API takes a function: ``filter(col("amount") > 10)``. See ``docs/expressions.md``.
"""

from headrace.common.public_module import public_module
from headrace.expressions.binding import bind, bind_tuple
from headrace.expressions.evaluation import Bound, BoundColumn, evaluate
from headrace.expressions.stages import avg_of, count_of, first, last, max_of, min_of, sum_of
from headrace.expressions.tree import Column, Expression, coalesce, col, concat, left, lit, right, when

__all__ = [
    "Bound",
    "BoundColumn",
    "Column",
    "Expression",
    "avg_of",
    "bind",
    "bind_tuple",
    "coalesce",
    "col",
    "concat",
    "count_of",
    "evaluate",
    "first",
    "last",
    "left",
    "lit",
    "max_of",
    "min_of",
    "right",
    "sum_of",
    "when",
]

public_module(__name__)
