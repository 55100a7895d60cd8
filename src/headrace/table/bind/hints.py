"""Hints (``/*+ ... */``) of SELECT, of source tables, and of sink tables."""

import re
from collections.abc import Sequence
from typing import Final

from headrace.common.config_options import duration
from headrace.table.bind.context import BindContext
from headrace.table.bind.errors import misspelt
from headrace.table.bind.scopes import NamedRelation
from headrace.table.logical.relations import Hint
from headrace.table.parse.tree import queries as sql
from headrace.table.parse.tree.node import Path

JOIN_HINTS: Final = frozenset(
    {"BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "LOOKUP", "MULTI_JOIN", "STATE_TTL"}
)
_OF_RELATIONS: Final = frozenset({"BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "MULTI_JOIN"})
_HINTS: Final = JOIN_HINTS | {"OPTIONS", "ALIAS", "JSON_AGGREGATE_WRAPPED"}


def bound_hints(context: BindContext, nodes: Sequence[sql.SqlHint]) -> tuple[Hint, ...]:
    """The hints of one clause.

    Raises:
        SqlPlanError: when a hint is unknown, or its options are invalid.
    """
    hints = []
    for node in nodes:
        hint = Hint(node.name.text.upper(), tuple(dict(node.options).items()), node.items)
        if hint.name not in _HINTS:
            raise context.unplanned(node, f"there is no hint {hint.name}", misspelt(hint.name, _HINTS))
        if hint.name == "LOOKUP" and "table" not in dict(hint.options):
            raise context.unplanned(node, "the hint LOOKUP needs the option 'table'")
        if hint.name in _OF_RELATIONS and not hint.items:
            raise context.unplanned(node, f"the hint {hint.name} names no relation", f"Write {hint.name}(table).")
        if hint.name in ("STATE_TTL", "OPTIONS") and not hint.options:
            reason = f"the hint {hint.name} takes pairs of a key and a value"
            raise context.unplanned(node, reason, f"Write {hint.name}('key' = 'value').")
        if hint.name == "STATE_TTL":
            _check_ttl(context, node)
        hints.append(hint)
    return tuple(hints)


def _check_ttl(context: BindContext, node: sql.SqlHint) -> None:
    for key, value in node.options:
        try:
            time_to_live(value)
        except ValueError:
            reason = f"'{value}' is not a duration, for '{key}' of STATE_TTL"
            raise context.unplanned(node, reason, "Write '1d', or '12h'.") from None


def check_names(context: BindContext, nodes: Sequence[sql.SqlHint], sources: Sequence[NamedRelation]) -> None:
    """Refuse hints of joins and of state that name no relation of its FROM, when it is planned."""
    names = [source.alias for source in sources if source.alias is not None]
    for node in nodes:
        hint = node.name.text.upper()
        for key in _names_in(hint, node):
            if key.rpartition(".")[2] not in names:
                reason = f"the hint {hint} names '{key}', which FROM does not have"
                context.defer(node, reason, misspelt(key, names) or f"There is {', '.join(names)}.")


def _names_in(hint: str, node: sql.SqlHint) -> list[str]:
    if hint == "LOOKUP":
        return [dict(node.options)["table"]]
    if hint == "STATE_TTL":
        return [key for key, _ in node.options]
    return list(node.items) if hint in JOIN_HINTS else []


def lookup_hints(hints: Sequence[Hint], table: str | None) -> tuple[Hint, ...]:
    """The hints ``LOOKUP`` for a table."""
    return tuple(hint for hint in hints if hint.name == "LOOKUP" and dict(hint.options)["table"] == table)


_ISO: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.0*)?S)?)?", re.IGNORECASE)


def time_to_live(text: str) -> int:
    """The milliseconds of a duration in Flink's form (``12 h``) or that of ISO 8601 (``PT12H``).

    Raises:
        ValueError: when it is not a duration.
    """
    found = _ISO.fullmatch(text.strip())
    if found is None or not any(found.groups()):
        return duration(text)
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000


def refuse_options(context: BindContext, table: Path, nodes: Sequence[sql.SqlHint]) -> None:
    """Refuse the hint ``OPTIONS`` on an object without options.

    Raises:
        SqlValidationError: when the hint is present.
    """
    for node in nodes:
        if node.name.text.upper() == "OPTIONS":
            reason = f"'{table}' is not a table with a connector: it has no options"
            raise context.error(node, reason, "Put the hint on the tables that it reads.")


def with_options(options: Sequence[tuple[str, str]], hints: Sequence[Hint]) -> tuple[tuple[str, str], ...]:
    """The options of a table, overridden by the hint ``OPTIONS``."""
    found = dict(options)
    for hint in hints:
        if hint.name == "OPTIONS":
            found |= dict(hint.options)
    return tuple(found.items())
