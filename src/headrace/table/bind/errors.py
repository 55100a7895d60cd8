"""Errors of binding."""

import difflib
from collections.abc import Iterable

from headrace.table.parse.source import SqlError, SqlSource
from headrace.table.parse.tree.node import SqlNode


class SqlValidationError(SqlError):
    """A statement refers to an unknown object, or its types do not fit (Flink's ``ValidationException``)."""


class SqlPlanError(SqlError):
    """A valid statement cannot be executed. Flink reports these at planning, and not at validation."""


def misspelt(name: str, names: Iterable[str]) -> str | None:
    """Advice for an unknown name: the most similar known one, in whatever case."""
    known: dict[str, str] = {}
    for each in names:
        known.setdefault(each.lower(), each)
    close = difflib.get_close_matches(name.lower(), known, 1, 0.6)
    return f"Did you mean {known[close[0]]}?" if close else None


def invalid(source: SqlSource, node: SqlNode, reason: str, advice: str | None = None) -> SqlValidationError:
    """The error at a node."""
    return SqlValidationError(reason, source, node.start, node.end, advice)
