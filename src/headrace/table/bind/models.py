"""Table functions of models: ``ML_PREDICT``, and those of Flink that are not there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.common.errors import ConfigurationError, HeadraceError, InvalidProgramError
from headrace.common.logical_types import LogicalType
from headrace.table.bind.call_arguments import Arguments, arguments_of, config_of, config_texts
from headrace.table.bind.errors import misspelt
from headrace.table.catalog.objects import CatalogModel, Column, ObjectPath
from headrace.table.functions.casts import is_implicitly_castable
from headrace.table.logical.models import MLPredict, ModelCall
from headrace.table.logical.relations import Relation
from headrace.table.logical.schema import Schema
from headrace.table.models.provider import CALL_OPTIONS, opened_model
from headrace.table.parse.tree import expressions as sql
from headrace.table.parse.tree.node import Path

if TYPE_CHECKING:
    from headrace.table.bind.context import BindContext
    from headrace.table.bind.table_functions import TableFunctionBinder

_PARAMETERS: Final = ("INPUT", "MODEL", "ARGS", "CONFIG")
_USAGE: Final = "ML_PREDICT(TABLE table_name, MODEL model_name, DESCRIPTOR(input_columns), [MAP[]])"

MODEL_FUNCTIONS: Final = frozenset({"ML_PREDICT", "ML_EVALUATE"})
"""The names of table functions of models."""


def bound_model_function(functions: TableFunctionBinder, node: sql.SqlCall) -> Relation:
    """Bind a call of a table function of models.

    Raises:
        SqlValidationError: when there is no such model, or it does not take the columns.
        SqlPlanError: when the function is not there.
    """
    context = functions.context
    if node.name == "ML_EVALUATE":
        reason = "ML_EVALUATE has no plan: Flink checks such calls, and plans none of them"
        advice = "Compare the columns of ML_PREDICT with labels: SELECT AVG(ABS(label - score)) FROM ML_PREDICT(...)."
        raise context.unplanned(node, reason, advice)
    arguments = arguments_of(context, node, _PARAMETERS, 1, _USAGE)
    source, partition_by = functions.rows(node, arguments["INPUT"])
    if partition_by:
        reason = "ML_PREDICT takes rows one by one, without PARTITION BY"
        raise context.error(arguments["INPUT"], reason)
    path, model = _model(context, arguments["MODEL"])
    inputs, outputs = _schema(model.inputs), _schema(model.outputs)
    features = _features(context, arguments["ARGS"], source.schema, inputs)
    config = config_of(context, node, arguments.get("CONFIG"))
    call = ModelCall(path, inputs, outputs, model.options, features, tuple(config.items()))
    try:
        opened_model(call)
    except (ConfigurationError, InvalidProgramError) as error:
        raise _refused(context, node, arguments, call, error) from error
    return MLPredict(source, call)


def _refused(
    context: BindContext, node: sql.SqlCall, arguments: Arguments, call: ModelCall, error: HeadraceError
) -> Exception:
    """The error of a model that cannot be called: at the model, or at the key of the call without which it can."""
    config = arguments.get("CONFIG")
    if not isinstance(config, sql.CollectionConstructor) or not _is_right(replace(call, config=())):
        return context.error(arguments["MODEL"], str(error))
    advice = f"A call may have {', '.join(CALL_OPTIONS)}, and the options of the model."
    for key, item in zip(config_texts(context, node, config)[::2], config.items[::2], strict=True):
        if _is_right(replace(call, config=tuple(each for each in call.config if each[0] != key))):
            known = key in CALL_OPTIONS
            return context.error(item, str(error), None if known else misspelt(key, CALL_OPTIONS) or advice)
    return context.error(config, str(error), advice)


def _is_right(call: ModelCall) -> bool:
    try:
        opened_model(call)
    except (ConfigurationError, InvalidProgramError):
        return False
    return True


def _model(context: BindContext, argument: sql.SqlExpression) -> tuple[ObjectPath, CatalogModel]:
    if not isinstance(argument, sql.ModelArgument):
        advice = f"Write MODEL {argument}." if isinstance(argument, sql.Identifier) else "Write MODEL name."
        raise context.error(argument, "argument MODEL of ML_PREDICT expects a model", advice)
    return model_of(context, argument.model)


def model_of(context: BindContext, node: Path) -> tuple[ObjectPath, CatalogModel]:
    """The model at a path, with its full path.

    Raises:
        SqlValidationError: when there is none.
    """
    catalogs = context.catalogs
    path = catalogs.qualify(node.texts)
    model = catalogs.temporary_models.get(path, catalogs.models.get(path))
    if model is None:
        known = [each.name for each in (*catalogs.models, *catalogs.temporary_models) if each[:2] == path[:2]]
        raise context.error(node, f"model '{path}' does not exist", misspelt(path.name, known))
    return path, model


def _schema(columns: tuple[Column, ...]) -> Schema:
    return Schema(tuple(column.as_field for column in columns))


def _features(context: BindContext, argument: sql.SqlExpression, given: Schema, inputs: Schema) -> tuple[int, ...]:
    """The columns of the rows that the model is called with."""
    if not isinstance(argument, sql.Descriptor):
        raise context.error(argument, "ML_PREDICT expects DESCRIPTOR(column, ...) here", f"Write {_USAGE}.")
    if len(argument.columns) != len(inputs):
        reason = f"the number of descriptor columns ({len(argument.columns)}) does not match model input size "
        raise context.error(argument, f"{reason}({len(inputs)})", f"The model takes {', '.join(inputs.names)}.")
    found = []
    for place, (column, wanted) in enumerate(zip(argument.columns, inputs, strict=True)):
        name = column.names[-1].text
        if len(column.names) > 1:
            raise context.error(column, "ML_PREDICT takes a descriptor with simple column names", f"Write {name}.")
        if name not in given.names:
            raise context.error(column, f"column '{name}' not found", misspelt(name, given.names))
        kind = given[given.names.index(name)].type
        if not is_implicitly_castable(kind, wanted.type):
            reason = f"descriptor column '{name}' type {kind} cannot be assigned to model input type {wanted.type}"
            advice = "Cast it in a query in parentheses, in place of TABLE."
            raise context.error(column, f"{reason} at position {place}", advice)
        if _may_be_null(kind, wanted.type):
            reason = f"descriptor column '{name}' may be NULL, and model input '{wanted.name}' is {wanted.type}"
            advice = f"Write COALESCE({name}, ...) in a query in parentheses, in place of TABLE."
            raise context.error(column, f"{reason}, at position {place}", advice)
        found.append(given.names.index(name))
    return tuple(found)


def _may_be_null(kind: LogicalType, wanted: LogicalType) -> bool:
    """Return whether a value, or a part of one, may be NULL where the model takes none."""
    return (kind.nullable and not wanted.nullable) or any(map(_may_be_null, kind.children, wanted.children))
