"""The parts of ``MATCH_RECOGNIZE`` as text, in the form of Flink's plans."""

from __future__ import annotations

from functools import reduce
from typing import Final

from headrace.table.logical.match import MatchClauses, PatternExclusion, PatternGroup, PatternQuantity
from headrace.table.parse.tree.queries import AfterMatch
from headrace.table.physical.scalar_text import CalciteText

_text: Final = CalciteText(lambda index: f"${index}")

_TO_VARIABLE: Final = (AfterMatch.FIRST, AfterMatch.LAST)


def pattern_text(pattern: str | PatternGroup | PatternQuantity | PatternExclusion) -> str:
    """``((_UTF-16LE'A', PATTERN_QUANTIFIER(_UTF-16LE'B', 1, -1, false)), _UTF-16LE'C')``."""
    if isinstance(pattern, str):
        return variable_text(pattern)
    if isinstance(pattern, PatternQuantity):
        most = -1 if pattern.most is None else pattern.most
        flag = str(pattern.is_reluctant).lower()
        return f"PATTERN_QUANTIFIER({pattern_text(pattern.part)}, {pattern.least}, {most}, {flag})"
    if isinstance(pattern, PatternExclusion):
        return f"PATTERN_EXCLUDE({pattern_text(pattern.part)})"
    name = "|" if pattern.is_alternatives else ""
    return reduce(lambda left, right: f"{name}({left}, {right})", map(pattern_text, pattern.parts))


def variable_text(name: str) -> str:
    """A variable as plans show it: as a text."""
    return f"_UTF-16LE'{name}'"


def rows_text(clauses: MatchClauses) -> str:
    """Return which rows there are for a match."""
    if not clauses.all_rows:
        return "ONE ROW PER MATCH"
    return "ALL ROWS PER MATCH" if clauses.with_empty else "ALL ROWS PER MATCH OMIT EMPTY MATCHES"


def after_text(clauses: MatchClauses, *, is_logical: bool) -> str:
    """Return where the search goes on after a match."""
    after, variable = clauses.after, clauses.after_variable
    if after in _TO_VARIABLE and variable is not None:
        shown = variable_text(variable)
        return f"SKIP {after.value}({shown})" if is_logical else f"SKIP {after.value} {shown}"
    return f"FLAG(SKIP {after.value})" if is_logical else f"SKIP {after.value}"


def definition_texts(clauses: MatchClauses) -> dict[str, str]:
    """The conditions of variables, whose columns are numbered in all plans."""
    return {each.variable: _text(each.condition) for each in clauses.definitions}
