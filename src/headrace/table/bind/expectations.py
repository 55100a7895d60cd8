"""The expectations of tables about their rows, in the options ``expect.<name>`` of ``WITH``."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from headrace.common.errors import ConfigurationError
from headrace.common.logical_types import AtomicType, TypeRoot
from headrace.operators.expectations import BY_NAME, OnViolation
from headrace.table.bind.errors import SqlValidationError
from headrace.table.catalog.objects import ObjectPath
from headrace.table.logical import watermarks
from headrace.table.logical.relations import Expectation
from headrace.table.logical.scalars import Scalar
from headrace.table.logical.schema import Schema
from headrace.table.parse.parser import parse_expression
from headrace.table.parse.source import SqlParseError
from headrace.table.parse.tree.node import QueryExpression, walk

if TYPE_CHECKING:
    from headrace.table.bind.queries import QueryBinder

_PREFIX: Final = "expect."
_VIOLATIONS: Final = ".violations"


def expectations_of(
    queries: "QueryBinder", path: ObjectPath, options: Mapping[str, str], stored: Schema
) -> tuple[Expectation, ...]:
    """The expectations in the options of a table.

    Args:
        queries: binds their conditions.
        path: the table.
        options: its options.
        stored: the columns of what is read or written.

    Raises:
        ConfigurationError: when an option does not say what is expected, or what becomes of violations.
    """
    return tuple(_expectations(queries, path, options, stored))


def options_of_connector(options: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The options of a table that are for its connector."""
    return tuple((key, value) for key, value in options if not key.startswith((_PREFIX, watermarks.PREFIX)))


def _expectations(
    queries: "QueryBinder", path: ObjectPath, options: Mapping[str, str], stored: Schema
) -> Iterator[Expectation]:
    given = {key: text for key, text in options.items() if key.startswith(_PREFIX)}
    treatments = {key: text for key, text in given.items() if key.endswith(_VIOLATIONS)}
    for key, text in given.items():
        if key in treatments:
            if key.removesuffix(_VIOLATIONS) not in given:
                raise ConfigurationError(
                    f"table {path}: there is no option '{key.removesuffix(_VIOLATIONS)}' for '{key}'"
                )
            continue
        name, condition = key.removeprefix(_PREFIX), _condition(queries, f"table {path}: '{key}'", text, stored)
        if not name:
            raise ConfigurationError(f"table {path}: '{key}' names no expectation: write 'expect.amounts_are_positive'")
        treatment = treatments.get(f"{key}{_VIOLATIONS}", OnViolation.COUNT.value)
        if treatment not in BY_NAME:
            known = ", ".join(map(repr, BY_NAME))
            raise ConfigurationError(f"table {path}: '{key}{_VIOLATIONS}' is one of {known}, not {treatment!r}")
        yield Expectation(name, condition, BY_NAME[treatment])


def _condition(queries: "QueryBinder", option: str, text: str, stored: Schema) -> Scalar:
    try:
        if any(isinstance(node, QueryExpression) for node in walk(parse_expression(text))):
            raise ConfigurationError(f"{option} takes a condition of a row alone, and '{text}' has a query in it")
        condition = queries.bound_text(text, stored)
    except (SqlParseError, SqlValidationError) as error:
        raise ConfigurationError(f"{option} is no condition over the columns that are stored: {error}") from error
    if condition.type.as_nullable() != AtomicType(TypeRoot.BOOLEAN):
        raise ConfigurationError(f"{option} takes a condition, and '{text}' is {condition.type}")
    return condition
