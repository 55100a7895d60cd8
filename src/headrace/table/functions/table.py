"""The table of all functions."""

from typing import Final

from headrace.table.functions.aggregates import AGGREGATES
from headrace.table.functions.collections import COLLECTION_FUNCTIONS, JSON_FUNCTIONS
from headrace.table.functions.definitions import USER_FUNCTION, Determinism, FunctionDefinition, FunctionTable, Kernel
from headrace.table.functions.kernels.table import CONSTRUCTORS
from headrace.table.functions.numbers import NUMBER_FUNCTIONS
from headrace.table.functions.operators import OPERATORS
from headrace.table.functions.texts import TEXT_FUNCTIONS
from headrace.table.functions.times import TIMES
from headrace.table.logical.scalars import Call, Scalar

FUNCTIONS: Final = FunctionTable(
    OPERATORS, NUMBER_FUNCTIONS, TEXT_FUNCTIONS, TIMES, COLLECTION_FUNCTIONS, JSON_FUNCTIONS, AGGREGATES
)
"""Adding a function is one entry in one of these groups."""


def kernel_of(name: str) -> Kernel | None:
    """The kernel of a scalar function, an operator or a constructor; None of what has none."""
    function = FUNCTIONS.get(name)
    return CONSTRUCTORS.get(name) if function is None else function.kernel


def definition_of_call(call: Call) -> FunctionDefinition | None:
    """The function that a scalar calls; None of a constructor."""
    found: FunctionDefinition | None = call.option(USER_FUNCTION)
    return FUNCTIONS.get(call.function) if found is None else found


def is_deterministic(scalar: Scalar) -> bool:
    """Return whether a scalar is deterministic, so that it may be evaluated twice or not at all."""
    definitions = (definition_of_call(node) for node in scalar.walk() if isinstance(node, Call))
    return all(each is None or each.determinism is not Determinism.NEVER for each in definitions)
