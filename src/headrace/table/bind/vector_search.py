"""``VECTOR_SEARCH``: the rows of a table whose vectors are the most similar to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.common.logical_types import ArrayType, LogicalType, TypeRoot
from headrace.table.bind.call_arguments import arguments_of, config_of, config_texts
from headrace.table.bind.errors import misspelt
from headrace.table.bind.expressions import ExpressionBinder
from headrace.table.functions.casts import is_implicitly_castable
from headrace.table.functions.types import root_of
from headrace.table.logical.relations import Relation
from headrace.table.logical.scalars import Literal, Scalar
from headrace.table.logical.schema import Schema
from headrace.table.logical.vector_search import ASYNC, METRIC, VectorSearch
from headrace.table.parse.tree import expressions as sql

if TYPE_CHECKING:
    from headrace.table.bind.context import BindContext
    from headrace.table.bind.table_functions import TableFunctionBinder

VECTOR_SEARCH: Final = "VECTOR_SEARCH"
"""The name of the function."""

_PARAMETERS: Final = ("SEARCH_TABLE", "COLUMN_TO_SEARCH", "COLUMN_TO_QUERY", "TOP_K", "CONFIG")
_USAGE: Final = "VECTOR_SEARCH(TABLE search_table, DESCRIPTOR(column_to_search), column_to_query, top_k, [MAP[]])"
_OF_REQUESTS: Final = ("max-concurrent-operations", "output-mode", "timeout")
"""Options of Flink for asynchronous searches."""


def bound_vector_search(functions: TableFunctionBinder, node: sql.SqlCall) -> Relation:
    """Bind a call.

    Raises:
        SqlValidationError: when an argument is wrong.
    """
    context = functions.context
    arguments = arguments_of(context, node, _PARAMETERS, 1, _USAGE)
    table, partition_by = functions.rows(node, arguments["SEARCH_TABLE"])
    if partition_by:
        raise context.error(arguments["SEARCH_TABLE"], "VECTOR_SEARCH takes no PARTITION BY")
    column = _column(context, arguments["COLUMN_TO_SEARCH"], table.schema)
    bound = ExpressionBinder(functions.queries, functions.scope, VECTOR_SEARCH)
    vector = bound.bind(arguments["COLUMN_TO_QUERY"])
    _check_vector(context, arguments["COLUMN_TO_QUERY"], vector.type, table.schema.types[column])
    count = _count(context, arguments["TOP_K"], bound.bind(arguments["TOP_K"]))
    return VectorSearch(table, column, vector, count, _config(context, node, arguments.get("CONFIG")))


def _column(context: BindContext, argument: sql.SqlExpression, table: Schema) -> int:
    """The column of vectors."""
    if not isinstance(argument, sql.Descriptor):
        raise context.error(argument, "VECTOR_SEARCH expects DESCRIPTOR(column) here", f"Write {_USAGE}.")
    if len(argument.columns) != 1:
        reason = f"COLUMN_TO_SEARCH of VECTOR_SEARCH is one column, and here are {len(argument.columns)}"
        raise context.error(argument, reason)
    (path,) = argument.columns
    name = path.names[-1].text
    if name not in table.names:
        raise context.error(path, f"column '{name}' not found", misspelt(name, table.names))
    index = table.names.index(name)
    kind = table[index].type
    if not isinstance(kind, ArrayType) or root_of(kind.element) not in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        reason = f"search column '{name}' has to be ARRAY<FLOAT> or ARRAY<DOUBLE>, and it is {kind}"
        raise context.error(path, reason)
    return index


def _check_vector(context: BindContext, argument: sql.SqlExpression, kind: LogicalType, wanted: LogicalType) -> None:
    if not is_implicitly_castable(kind, wanted):
        reason = f"the query column is {kind}, which is not cast to {wanted}, the type of the search column"
        raise context.error(argument, reason, "Both are arrays of numbers.")


def _count(context: BindContext, argument: sql.SqlExpression, bound: Scalar) -> int:
    """The number of rows that are found."""
    if not isinstance(bound, Literal) or root_of(bound.type) is not TypeRoot.INTEGER:
        reason = f"TOP_K of VECTOR_SEARCH has to be an INT NOT NULL literal, and it is {bound.type}"
        raise context.error(argument, reason, "Write a number, such as 10.")
    if bound.value <= 0:
        raise context.error(argument, f"TOP_K of VECTOR_SEARCH has to be greater than 0, and it is {bound.value}")
    return int(bound.value)


def _config(context: BindContext, node: sql.SqlCall, argument: sql.SqlExpression | None) -> tuple[tuple[str, str], ...]:
    """The configuration of the call."""
    config = config_of(context, node, argument)
    if isinstance(argument, sql.CollectionConstructor):
        keys = config_texts(context, node, argument)[::2]
        for key, at in zip(keys, argument.items[::2], strict=True):
            _check_option(context, at, key, config[key])
    return tuple(config.items())


def _check_option(context: BindContext, node: sql.SqlExpression, key: str, value: str) -> None:
    known = {option.key: option for option in (METRIC, ASYNC)}
    if key in _OF_REQUESTS:
        context.defer(node, f"'{key}' of VECTOR_SEARCH has no effect: tables are searched in memory", "Leave it out.")
    elif key not in known:
        advice = misspelt(key, known) or f"There are {', '.join(known)}."
        raise context.error(node, f"VECTOR_SEARCH has no option '{key}'", advice)
    else:
        try:
            is_async = known[key].parse(value) is True
        except ValueError as error:
            raise context.error(node, f"'{key}' of VECTOR_SEARCH is '{value}', and has to be {error}") from None
        if is_async:
            reason = "VECTOR_SEARCH requires asynchronous searches, and tables are searched in memory"
            context.defer(node, reason, "Leave 'async' out.")
