"""User-defined functions of SQL."""

from headrace.common.public_module import public_module
from headrace.operators.functions import FunctionContext
from headrace.table.functions.python.classes import (
    AggregateFunction,
    ImperativeAggregateFunction,
    ScalarFunction,
    TableFunction,
    UserDefinedFunction,
)
from headrace.table.functions.python.decorators import udaf, udf, udtaf, udtf

__all__ = [
    "AggregateFunction",
    "FunctionContext",
    "ImperativeAggregateFunction",
    "ScalarFunction",
    "TableFunction",
    "UserDefinedFunction",
    "udaf",
    "udf",
    "udtaf",
    "udtf",
]

public_module(__name__)
