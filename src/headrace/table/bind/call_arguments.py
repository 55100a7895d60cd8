"""Arguments of table functions: by position or by name, and configurations, which are maps of texts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.table.bind.errors import misspelt
from headrace.table.parse.tree import expressions as sql

if TYPE_CHECKING:
    from headrace.table.bind.context import BindContext

Arguments = Mapping[str, sql.SqlExpression]
"""The arguments of a call, by the names of its parameters."""


def arguments_of(
    context: "BindContext", node: sql.SqlCall, parameters: tuple[str, ...], optional: int, usage: str
) -> Arguments:
    """The arguments of a call, in the order of the parameters or by their names.

    Args:
        context: the context of the statement.
        node: the call.
        parameters: the names of its parameters.
        optional: how many of the last ones may be left out.
        usage: the form of a call, for messages.

    Raises:
        SqlValidationError: when one is missing, or there is no such parameter.
    """
    found: dict[str, sql.SqlExpression] = {}
    names = (*parameters, *[""] * len(node.arguments))
    for argument, place in zip(node.arguments, names, strict=False):
        is_named = isinstance(argument, sql.NamedArgument)
        name = argument.name.text.upper() if isinstance(argument, sql.NamedArgument) else place
        if name not in parameters:
            advice = misspelt(name, parameters) if is_named else None
            raise context.error(argument, f"{node.name} has no such parameter", advice or f"Write {usage}.")
        value = argument.value if isinstance(argument, sql.NamedArgument) else argument
        if not isinstance(value, sql.DefaultArgument):
            found[name] = value
    if missing := [name for name in parameters[: len(parameters) - optional] if name not in found]:
        raise context.error(node, f"{node.name} needs {missing[0]}", f"Write {usage}.")
    return found


def config_of(context: "BindContext", node: sql.SqlCall, argument: sql.SqlExpression | None) -> dict[str, str]:
    """The configuration of a call: ``MAP['key', 'value', ...]``, of texts alone.

    Raises:
        SqlValidationError: when it is none.
    """
    if argument is None:
        return {}
    if not isinstance(argument, sql.CollectionConstructor) or argument.kind is not sql.ConstructorKind.MAP:
        raise context.error(argument, f"the configuration of {node.name} is a map", "Write MAP['key', 'value'].")
    texts = config_texts(context, node, argument)
    return dict(zip(texts[::2], texts[1::2], strict=True))


def config_texts(context: "BindContext", node: sql.SqlCall, argument: sql.CollectionConstructor) -> list[str]:
    """The keys and values of a configuration.

    Raises:
        SqlValidationError: when they are not all literal texts.
    """
    texts = []
    for item in argument.items:
        text = item
        while isinstance(text, sql.CastExpression):
            text = text.operand
        if not isinstance(text, sql.StringLiteral):
            reason = f"the configuration of {node.name} has keys and values that are literal texts"
            raise context.error(item, reason)
        texts.append(text.value)
    return texts
