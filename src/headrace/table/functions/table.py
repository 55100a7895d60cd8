"""The table of all functions."""

from typing import Final

from headrace.table.functions.aggregates import AGGREGATES
from headrace.table.functions.definitions import FunctionTable
from headrace.table.functions.operators import OPERATORS
from headrace.table.functions.times import TIMES

FUNCTIONS: Final = FunctionTable(OPERATORS, AGGREGATES, TIMES)
"""Adding a function is one entry in one of these groups."""
