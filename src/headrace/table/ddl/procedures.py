"""``CALL`` and ``SHOW PROCEDURES``."""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from headrace.common.errors import HeadraceError
from headrace.table.bind.context import BindContext
from headrace.table.bind.errors import misspelt
from headrace.table.bind.expressions import ExpressionBinder
from headrace.table.bind.queries import QueryBinder
from headrace.table.bind.scopes import Scope
from headrace.table.catalog.objects import ObjectPath
from headrace.table.catalog.procedures import SYSTEM_DATABASE, Parameter, Procedure
from headrace.table.ddl.objects import existing_database
from headrace.table.ddl.result import OK, StatementResult
from headrace.table.evaluation import ExpressionCompiler
from headrace.table.functions.casts import is_implicitly_castable
from headrace.table.logical.schema import Schema
from headrace.table.parse.tree import expressions as sql
from headrace.table.parse.tree.node import Path
from headrace.table.parse.tree.statements import CallProcedure, Show

_ONE_ROW: Final = pa.record_batch([pa.nulls(1, pa.int8())], names=["row"])


def call(context: BindContext, node: CallProcedure) -> StatementResult:
    """``CALL``: the rows that the procedure gives.

    Raises:
        SqlValidationError: when there is no such procedure, or its arguments do not fit.
    """
    procedure, arguments = bound_call(context, node)
    rows = tuple(procedure.run(arguments))
    return OK if procedure.columns is None else StatementResult(procedure.columns, rows)


def bound_call(context: BindContext, node: CallProcedure) -> tuple[Procedure, list[Any]]:
    """The procedure of ``CALL``, and the values of its parameters.

    Raises:
        SqlValidationError: when there is no such procedure, or its arguments do not fit.
    """
    procedure = _procedure(context, node.call.function)
    return procedure, _Arguments(context, node.call, procedure).values()


def _procedure(context: BindContext, node: Path) -> Procedure:
    if len(node.names) > 3:
        raise context.error(node, f"'{node}' has more than a catalog, a database and a name")
    path = context.catalogs.qualify(node.texts)
    if path.catalog not in context.catalogs.catalogs:
        raise context.missing_catalog(node, path.catalog)
    try:
        found = context.catalogs.procedure(path)
    except HeadraceError as error:
        raise context.error(node, str(error)) from error
    if found is None:
        known = context.catalogs.procedure_names(path.catalog, path.database)
        elsewhere = context.catalogs.system_procedures.names()
        advice = misspelt(path.name, known)
        if path.name.lower() in elsewhere:
            advice = f"Write CALL {path.catalog}.{SYSTEM_DATABASE}.{path.name}(...)."
        raise context.error(node, f"procedure '{path}' does not exist", advice)
    return found


class _Arguments:
    """Binds the arguments of a call to parameters."""

    def __init__(self, context: BindContext, node: sql.SqlCall, procedure: Procedure) -> None:
        self._context, self._node, self._procedure = context, node, procedure
        scope = Scope((), Schema(()), context.correlation())
        self._binder = ExpressionBinder(QueryBinder(context), scope, "CALL")
        self._compiler = ExpressionCompiler(
            lambda _: "an argument", context.options.get("table.local-time-zone", "UTC")
        )

    def values(self) -> list[Any]:
        """The values of all parameters, in their order."""
        given = self._given()
        return [self._value(parameter, given) for parameter in self._procedure.parameters]

    def _given(self) -> dict[str, sql.SqlExpression]:
        arguments, parameters = self._node.arguments, self._procedure.parameters
        named = [isinstance(argument, sql.NamedArgument) for argument in arguments]
        if any(named) and not all(named):
            raise self._error("arguments are given all by name, or all by position")
        if any(named):
            return self._by_name()
        if len(arguments) > len(parameters):
            raise self._error(f"{len(arguments)} arguments are given, and {len(parameters)} are taken")
        return {parameter.name: argument for parameter, argument in zip(parameters, arguments, strict=False)}

    def _by_name(self) -> dict[str, sql.SqlExpression]:
        names = {parameter.name.lower(): parameter.name for parameter in self._procedure.parameters}
        found: dict[str, sql.SqlExpression] = {}
        for argument in self._node.arguments:
            assert isinstance(argument, sql.NamedArgument)
            name = names.get(argument.name.text.lower())
            if name is None:
                reason = f"procedure '{self._procedure.name}' has no parameter '{argument.name}'"
                raise self._context.error(argument.name, reason, misspelt(argument.name.text, names.values()))
            if name in found:
                raise self._context.error(argument.name, f"argument '{argument.name}' is given twice")
            found[name] = argument.value
        return found

    def _value(self, parameter: Parameter, given: Mapping[str, sql.SqlExpression]) -> Any:
        node = given.get(parameter.name)
        if node is None or isinstance(node, sql.DefaultArgument):
            if not parameter.is_optional:
                raise self._error(f"argument '{parameter.name}' is missing")
            return parameter.default
        bound = self._binder.bind(node)
        if not is_implicitly_castable(bound.type, parameter.type):
            taken = parameter.type.as_nullable()
            reason = f"argument '{parameter.name}' is {bound.type.as_nullable()}, and takes {taken}"
            raise self._context.error(node, reason, f"Write CAST(... AS {taken}).")
        scalar = self._binder.implicit(bound, parameter.type.as_nullable())
        try:
            value = self._compiler.compile(scalar).column(_ONE_ROW)[0].as_py()
        except (HeadraceError, pa.ArrowException, KeyError) as error:
            reason = f"argument '{parameter.name}' is no constant of type {parameter.type.as_nullable()}: {error}"
            raise self._context.error(node, reason) from error
        if value is None and not parameter.type.nullable:
            raise self._context.error(node, f"argument '{parameter.name}' must not be NULL")
        return value

    def _error(self, reason: str) -> Exception:
        message = f"procedure '{self._procedure.name}': {reason}"
        return self._context.error(self._node, message, f"It is called as {self._procedure.usage}.")


def procedure_names(context: BindContext, node: Show) -> list[str]:
    """The names of the procedures of a database, which is the current one if none is given.

    Raises:
        SqlValidationError: when there is no such database.
    """
    if node.path is None:
        if context.catalogs.database is None:
            raise context.error(node, "there is no current database", "USE one first.")
        return context.catalogs.procedure_names(context.catalogs.catalog, context.catalogs.database)
    path = ObjectPath(*context.catalogs.qualify((*node.path.texts, "")))
    if path.database.lower() != SYSTEM_DATABASE or path.catalog not in context.catalogs.catalogs:
        existing_database(context, node.path)
    return context.catalogs.procedure_names(path.catalog, path.database)
