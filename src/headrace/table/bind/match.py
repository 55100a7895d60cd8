"""``MATCH_RECOGNIZE``: patterns over ordered rows, and measures of each match."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.common.logical_types import ArrayType, IntervalType, LogicalType, MapType, MultisetType, TypeRoot
from headrace.common.logs import get_logger
from headrace.table.bind.errors import misspelt
from headrace.table.bind.pattern_scalars import PatternScalars, navigated
from headrace.table.bind.scopes import Scope
from headrace.table.functions.types import TIMESTAMPS, is_in, root_of
from headrace.table.logical.match import (
    ALL_ROWS,
    LogicalMatch,
    MatchClauses,
    PatternDefinition,
    PatternExclusion,
    PatternGroup,
    PatternMeasure,
    PatternQuantity,
    PatternRef,
)
from headrace.table.logical.relations import Relation
from headrace.table.logical.scalars import Literal, SortKey
from headrace.table.parse.tree import expressions as sql
from headrace.table.parse.tree import queries
from headrace.table.parse.tree.node import Name

if TYPE_CHECKING:
    from headrace.table.bind.context import BindContext
    from headrace.table.bind.queries import QueryBinder

logger = get_logger(__name__)

Pattern = str | PatternGroup | PatternQuantity | PatternExclusion


class MatchBinder:
    """Binds a ``MATCH_RECOGNIZE``. Errors that Flink reports at planning are deferred until then.

    Args:
        binder: the binder of queries.
        node: the clause.
        source: the relation whose rows are matched.
        alias: the name of that relation; None without one.
        scope: the columns of relations around.
    """

    def __init__(
        self, binder: "QueryBinder", node: queries.MatchRecognize, source: Relation, alias: str | None, scope: Scope
    ) -> None:
        self.queries = binder
        self.context = binder.context
        self.node = node
        self.source = source
        self.alias = alias
        self.scope = scope
        self.variables = list(dict.fromkeys(_variables(node.pattern)))
        self.defined = [each.variable.text for each in node.definitions]
        self.subsets = {subset.name.text: tuple(name.text for name in subset.variables) for subset in node.subsets}

    def bind(self) -> LogicalMatch:
        """The relation."""
        node = self.node
        self._check_names()
        partition_by = tuple(self._key(each) for each in node.partition_by)
        order_by = self._order()
        goes_beyond = PatternCheck(self.context).goes_beyond_flink(node.pattern)
        if node.at_begin or node.at_end:
            reason = "^ and $, the first and the last row of a partition, are ignored in a pattern, as in Flink"
            logger.warning("%s", self.context.error(node, reason, "Leave them out."))
        if node.all_rows_option is queries.RowsPerMatch.WITH_UNMATCHED:
            advice = "Write ALL ROWS PER MATCH, and find the other rows with NOT EXISTS."
            self.context.defer(node, "WITH UNMATCHED ROWS is not supported", advice)
        clauses = MatchClauses(
            partition_by,
            order_by,
            _pattern(node.pattern),
            tuple(self._definition(each) for each in node.definitions),
            self._measures(partition_by),
            node.after_match or queries.AfterMatch.NEXT_ROW,
            node.after_variable.text if node.after_variable is not None else None,
            self._within(),
            tuple(self.subsets.items()),
            (node.at_begin, node.at_end),
            all_rows=bool(node.all_rows),
            with_empty=node.all_rows_option is not queries.RowsPerMatch.OMIT_EMPTY,
        )
        return LogicalMatch(self.source, replace(clauses, finds_preferred=goes_beyond or _goes_by_rows(clauses)))

    def _check_names(self) -> None:
        node, known = self.node, [*self.variables, *self.subsets]
        self._check_distinct([subset.name for subset in node.subsets], self.variables)
        self._check_distinct([each.variable for each in node.definitions], self.subsets)
        after = node.after_variable
        if after is not None and after.text not in known:
            raise self.context.error(after, f"unknown pattern variable '{after}'", misspelt(after.text, known))
        for subset in node.subsets:
            for name in subset.variables:
                if name.text not in self.variables:
                    advice = misspelt(name.text, self.variables)
                    raise self.context.error(name, f"unknown pattern variable '{name}'", advice)
        self._warn_of_definitions()

    def _warn_of_definitions(self) -> None:
        """Warn of conditions of variables that no row is mapped to, which Flink takes."""
        for name in (each.variable for each in self.node.definitions):
            if name.text not in self.variables:
                reason = f"without effect: DEFINE has a condition of '{name}', which is no variable of PATTERN,"
                unused = [each for each in self.variables if each not in self.defined]
                logger.warning("%s", self.context.unplanned(name, reason, misspelt(name.text, unused)))

    def _check_distinct(self, names: Sequence[Name], others: Iterable[str]) -> None:
        taken = set(others)
        for name in names:
            if name.text in taken:
                raise self.context.error(name, f"the pattern variable '{name}' is defined already")
            taken.add(name.text)

    def _column(self, node: sql.SqlExpression) -> int:
        names = self.source.schema.names
        if not isinstance(node, sql.Identifier):
            raise self.context.unplanned(node, "PARTITION BY and ORDER BY of MATCH_RECOGNIZE take columns")
        parts = node.names
        if len(parts) == 2 and parts[0].text == self.alias:
            parts = parts[1:]
        name = parts[0].text
        if len(parts) > 1 or name not in names:
            raise self.context.error(node, f"column '{node}' not found", misspelt(name, names))
        return names.index(name)

    def _key(self, node: sql.SqlExpression) -> int:
        """A column of PARTITION BY, whose values have to be keys."""
        index = self._column(node)
        kind = self.source.schema[index].type
        if any(isinstance(each, ArrayType | MapType | MultisetType) for each in _with_parts(kind)):
            reason = f"PARTITION BY takes no column of {kind}, whose values cannot be keys"
            self.context.defer(node, reason, f"Partition by a text of it: CAST({node} AS STRING) in a subquery.")
        return index

    def _order(self) -> tuple[SortKey, ...]:
        items = self.node.order_by
        keys = [
            SortKey(
                self._column(item.expression),
                item.descending,
                not item.descending if item.nulls_first is None else item.nulls_first,
            )
            for item in items
        ]
        if not keys or keys[0].descending or not self._is_time(keys[0].index):
            self.context.defer(
                items[0] if items else self.node,
                "MATCH_RECOGNIZE takes rows in the order of time, and ORDER BY begins with something else",
                self._advice_about_time(keys),
            )
        return tuple(keys)

    def _advice_about_time(self, keys: Sequence[SortKey]) -> str:
        column = self.source.schema[keys[0].index] if keys else None
        if column is not None and self.context.is_streaming and is_in(column.type, TIMESTAMPS) and column.time is None:
            return (
                f"'{column.name}' is no time attribute: declare WATERMARK FOR `{column.name}` AS `{column.name}` - "
                "INTERVAL '5' SECOND in the table, and read that without an operation by which the attribute is lost."
            )
        time = "a rowtime or PROCTIME() column" if self.context.is_streaming else "a timestamp"
        return f"Write ORDER BY with {time} first, ascending."

    def _is_time(self, index: int) -> bool:
        column = self.source.schema[index]
        return column.time is not None if self.context.is_streaming else is_in(column.type, TIMESTAMPS)

    def _within(self) -> Literal | None:
        node = self.node.within
        if node is None:
            return None
        found = self._scalars("WITHIN").bind(node)
        assert isinstance(found, Literal), "the parser takes intervals only"
        assert isinstance(found.type, IntervalType), "the parser takes intervals only"
        if found.value < 0:
            raise self.context.error(node, "WITHIN takes an interval that is not negative")
        if found.type.unit.is_of_months:
            self.context.defer(node, "WITHIN takes an interval of days to seconds")
        return found

    def _measures(self, partition_by: tuple[int, ...]) -> tuple[PatternMeasure, ...]:
        node = self.node
        if not node.measures and not node.all_rows:
            self.context.defer(node, "MATCH_RECOGNIZE without MEASURES has no columns", "Write MEASURES A.x AS x.")
        names = self.source.schema.names
        taken = dict.fromkeys(names, "the rows") if node.all_rows else {}
        taken |= {names[index]: "PARTITION BY" for index in partition_by}
        for each in node.measures:
            if each.alias.text in taken:
                where = taken[each.alias.text]
                reason = f"'{each.alias}' is the name of another column already, of {where}"
                raise self.context.unplanned(each.alias, reason, "Give the measure another name.")
            taken[each.alias.text] = "MEASURES"
        scalars = self._scalars("MEASURES")
        return tuple(
            PatternMeasure(each.alias.text, scalars.without_queries(each.expression)) for each in node.measures
        )

    def _definition(self, node: queries.MatchDefinition) -> PatternDefinition:
        name = node.variable.text
        scalars = self._scalars("DEFINE")
        if root_of(scalars.without_queries(node.condition).type) is TypeRoot.NULL:
            raise self.context.error(node.condition, "DEFINE takes a condition, and not NULL")
        condition = scalars.condition(node.condition)
        return PatternDefinition(name, navigated(condition, name))

    def _scalars(self, clause: str) -> PatternScalars:
        known = dict.fromkeys([*self.variables, *self.defined, *self.subsets])
        pattern, all_rows = self.node.pattern, bool(self.node.all_rows)
        required = _required(pattern) if clause == "MEASURES" and not all_rows else set()
        if clause != "MEASURES" or not _can_be_empty(pattern):
            required.add(ALL_ROWS)
        schema = self.source.schema
        return PatternScalars(
            self.queries, schema, tuple(known), frozenset(required), clause, self.scope, all_rows=all_rows
        )


def _with_parts(kind: LogicalType) -> Iterator[LogicalType]:
    yield kind
    for part in kind.children:
        yield from _with_parts(part)


# --- patterns --------------------------------------------------------------------------------------------------------


def _goes_by_rows(clauses: MatchClauses) -> bool:
    """Return whether a scalar has ``PREV`` or ``NEXT``, which see rows whatever variables these are mapped to."""
    scalars = [*(each.condition for each in clauses.definitions), *(each.expression for each in clauses.measures)]
    return any(isinstance(node, PatternRef) and node.physical for scalar in scalars for node in scalar.walk())


def _walk(pattern: queries.RowPattern) -> Iterator[queries.RowPattern]:
    yield pattern
    if isinstance(pattern, queries.PatternRepetition | queries.RowPatternExclusion):
        yield from _walk(pattern.part)
    elif isinstance(pattern, queries.PatternSequence | queries.PatternAlternatives | queries.PatternPermutation):
        for part in pattern.parts:
            yield from _walk(part)


def _variables(pattern: queries.RowPattern) -> Iterator[str]:
    return (part.name.text for part in _walk(pattern) if isinstance(part, queries.PatternVariable))


def _required(pattern: queries.RowPattern) -> set[str]:
    """The variables to which every match maps a row."""
    match pattern:
        case queries.PatternVariable(name=name):
            return {name.text}
        case queries.PatternRepetition(part=part):
            return _required(part) if pattern.least else set()
        case queries.RowPatternExclusion(part=part):
            return _required(part)
        case queries.PatternAlternatives(parts=parts):
            return set.intersection(*map(_required, parts))
        case queries.PatternSequence(parts=parts) | queries.PatternPermutation(parts=parts):
            return set[str]().union(*map(_required, parts))
    raise AssertionError(pattern)


def _can_be_empty(pattern: queries.RowPattern) -> bool:
    """Return whether a match may have no rows."""
    match pattern:
        case queries.PatternRepetition(part=part):
            return not pattern.least or _can_be_empty(part)
        case queries.RowPatternExclusion(part=part):
            return _can_be_empty(part)
        case queries.PatternAlternatives(parts=parts):
            return any(map(_can_be_empty, parts))
        case queries.PatternSequence(parts=parts) | queries.PatternPermutation(parts=parts):
            return all(map(_can_be_empty, parts))
    return False


def _pattern(pattern: queries.RowPattern) -> Pattern:
    match pattern:
        case queries.PatternVariable(name=name):
            return name.text
        case queries.PatternRepetition(part=part):
            return PatternQuantity(_pattern(part), pattern.least or 0, pattern.most, pattern.is_reluctant)
        case queries.RowPatternExclusion(part=part):
            return PatternExclusion(_pattern(part))
        case queries.PatternPermutation(parts=parts):
            orders = itertools.permutations(map(_pattern, parts[:_MOST_PERMUTED]))
            return PatternGroup(tuple(PatternGroup(order) for order in orders), is_alternatives=True)
        case queries.PatternAlternatives(parts=parts):
            return PatternGroup(tuple(map(_pattern, parts)), is_alternatives=True)
        case queries.PatternSequence(parts=parts):
            return PatternGroup(tuple(map(_pattern, parts)))
    raise AssertionError(pattern)


class PatternCheck:
    """Says which patterns are a sequence of quantified variables that Flink takes, and which are not possible.

    Args:
        context: takes the errors.
    """

    def __init__(self, context: "BindContext") -> None:
        self._context = context

    def goes_beyond_flink(self, pattern: queries.RowPattern) -> bool:
        """Return whether Flink does not take a pattern; refuse what is not possible at all."""
        for part in _walk(pattern):
            if isinstance(part, queries.PatternRepetition):
                self._check_limits(part)
            elif isinstance(part, queries.PatternPermutation) and len(part.parts) > _MOST_PERMUTED:
                reason = f"PERMUTE takes {_MOST_PERMUTED} parts at most, since it stands for all their orders"
                self._context.defer(part, reason, "Write the orders that are possible with |.")
        parts = list(_flat(pattern))
        repeats = max(Counter(_variables(pattern)).values()) > 1
        return (
            repeats
            or any(map(_is_not_of_flink, parts))
            or _can_be_empty(pattern)
            or any(_is_greedy(part) and not _least(following) for part, following in itertools.pairwise(parts))
            or (_is_greedy(parts[-1]) and not _is_optional(parts[-1]))
        )

    def _check_limits(self, part: queries.PatternRepetition) -> None:
        if part.most is not None and part.most < max(part.least or 0, 1):
            advice = None if part.least else "Leave out what takes no rows."
            self._context.defer(part, f"the largest number of rows is {max(part.least or 0, 1)} at least", advice)


_MOST_PERMUTED: Final = 6


def _flat(pattern: queries.RowPattern) -> Iterator[queries.RowPattern]:
    if isinstance(pattern, queries.PatternSequence):
        for part in pattern.parts:
            yield from _flat(part)
    else:
        yield pattern


def _is_not_of_flink(part: queries.RowPattern) -> bool:
    """Return whether it is neither a variable nor one with a quantifier that Flink takes."""
    if isinstance(part, queries.PatternRepetition):
        is_reluctant_option = _is_optional(part) and part.is_reluctant
        return part.least is None or is_reluctant_option or not isinstance(part.part, queries.PatternVariable)
    return not isinstance(part, queries.PatternVariable)


def _least(part: queries.RowPattern) -> int:
    return part.least or 0 if isinstance(part, queries.PatternRepetition) else 1


def _is_optional(part: queries.RowPattern) -> bool:
    return isinstance(part, queries.PatternRepetition) and (part.least, part.most) == (0, 1)


def _is_greedy(part: queries.RowPattern) -> bool:
    """Return whether it is a greedy quantifier with a variable number of rows."""
    return isinstance(part, queries.PatternRepetition) and part.least != part.most and not part.is_reluctant
