"""The errors of binding: a statement that parses, and cannot mean anything."""

import difflib
from collections.abc import Iterable

from headrace.table.parse.source import SqlError, SqlSource
from headrace.table.parse.tree.node import SqlNode


class SqlValidationError(SqlError):
    """A statement names what is not there, or asks of values what they cannot do."""


class SqlPlanError(SqlError):
    """A statement is valid, and nothing can execute it. Flink finds these when it plans, and not when it validates."""


def misspelt(name: str, names: Iterable[str]) -> str | None:
    """Advice about a name that is not there: the one of the names that is most like it."""
    known = dict.fromkeys(names)
    same = [each for each in known if each.lower() == name.lower()]
    close = same or difflib.get_close_matches(name, known, 1, 0.6)
    return f"Did you mean {close[0]}?" if close else None


def invalid(source: SqlSource, node: SqlNode, reason: str, advice: str | None = None) -> SqlValidationError:
    """The error at a node."""
    return SqlValidationError(reason, source, node.start, node.end, advice)
