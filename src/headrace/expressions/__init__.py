"""Expressions over the fields of records: ``col("price") * col("quantity")``, computed for whole batches at a time.

They stand where the DataStream API takes a function: ``filter(col("amount") > 10)``. See ``docs/expressions.md``.
"""

from headrace.common.public_module import public_module
from headrace.expressions.binding import bind, bind_tuple
from headrace.expressions.evaluation import Bound, BoundColumn, evaluate
from headrace.expressions.tree import Column, Expression, coalesce, col, concat, left, lit, right, when

__all__ = [
    "Bound",
    "BoundColumn",
    "Column",
    "Expression",
    "bind",
    "bind_tuple",
    "coalesce",
    "col",
    "concat",
    "evaluate",
    "left",
    "lit",
    "right",
    "when",
]

public_module(__name__)
