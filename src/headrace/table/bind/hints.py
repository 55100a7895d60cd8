"""Hints, between ``/*+`` and ``*/``: of SELECT, of a table that is read, of one that is written."""

from collections.abc import Sequence
from typing import Final

from headrace.common.config_options import duration
from headrace.table.bind.context import BindContext
from headrace.table.bind.errors import misspelt
from headrace.table.logical.relations import Hint
from headrace.table.parse.tree import queries as sql
from headrace.table.parse.tree.node import Path

JOIN_HINTS: Final = frozenset(
    {"BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "LOOKUP", "MULTI_JOIN", "STATE_TTL"}
)
_HINTS: Final = JOIN_HINTS | {"OPTIONS", "ALIAS", "JSON_AGGREGATE_WRAPPED"}


def bound_hints(context: BindContext, nodes: Sequence[sql.Hint]) -> tuple[Hint, ...]:
    """The hints at one place.

    Raises:
        SqlPlanError: when there is no such hint, or its options are wrong.
    """
    hints = []
    for node in nodes:
        hint = Hint(node.name.text.upper(), node.options, node.items)
        if hint.name not in _HINTS:
            raise context.unplanned(node, f"there is no hint {hint.name}", misspelt(hint.name, _HINTS))
        if hint.name == "LOOKUP" and "table" not in dict(hint.options):
            raise context.unplanned(node, "the hint LOOKUP needs the option 'table'")
        if hint.name == "STATE_TTL":
            _check_ttl(context, node)
        hints.append(hint)
    return tuple(hints)


def _check_ttl(context: BindContext, node: sql.Hint) -> None:
    for key, value in node.options:
        if not _is_duration(value):
            reason = f"'{value}' is no duration, for '{key}' of STATE_TTL"
            raise context.unplanned(node, reason, "Write '1d', or '12h'.")
    if context.is_streaming:
        advice = "Leave it out, and SET 'table.exec.state.ttl' for all of the query."
        context.defer(node, "the hint STATE_TTL has no effect yet", advice)


def _is_duration(text: str) -> bool:
    """Return whether it is a duration as Flink takes them, of which ISO 8601's begin with P."""
    try:
        return text.strip().upper().startswith("P") or duration(text) >= 0
    except ValueError:
        return False


def refuse_options(context: BindContext, table: Path, nodes: Sequence[sql.Hint]) -> None:
    """Refuse the hint ``OPTIONS`` of what has no options.

    Raises:
        SqlValidationError: when it is there.
    """
    for node in nodes:
        if node.name.text.upper() == "OPTIONS":
            reason = f"'{table}' is no table of a connector: it has no options"
            raise context.error(node, reason, "Give the options to the tables that it reads.")


def with_options(options: Sequence[tuple[str, str]], hints: Sequence[Hint]) -> tuple[tuple[str, str], ...]:
    """The options of a table, with those that ``OPTIONS`` adds and replaces."""
    found = dict(options)
    for hint in hints:
        if hint.name == "OPTIONS":
            found |= dict(hint.options)
    return tuple(found.items())
