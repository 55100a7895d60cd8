"""``MATCH_RECOGNIZE``: patterns over ordered rows, and measures of each match."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.common.logical_types import IntervalType, TypeRoot
from headrace.table.bind.errors import misspelt
from headrace.table.bind.pattern_scalars import PatternScalars, navigated
from headrace.table.bind.scopes import Scope
from headrace.table.functions.types import TIMESTAMPS, is_in, root_of
from headrace.table.logical.match import (
    Match,
    MatchClauses,
    PatternDefinition,
    PatternGroup,
    PatternMeasure,
    PatternQuantity,
)
from headrace.table.logical.relations import Relation
from headrace.table.logical.scalars import Literal, SortKey
from headrace.table.parse.tree import expressions as sql
from headrace.table.parse.tree import queries
from headrace.table.parse.tree.node import Name

if TYPE_CHECKING:
    from headrace.table.bind.queries import QueryBinder

Pattern = str | PatternGroup | PatternQuantity


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

    def bind(self) -> Match:
        """The relation."""
        node = self.node
        self._check_names()
        partition_by = tuple(self._column(each) for each in node.partition_by)
        order_by = self._order()
        PatternCheck(self).check(node.pattern)
        if node.all_rows:
            self.context.defer(node, "ALL ROWS PER MATCH is not supported", "Write ONE ROW PER MATCH.")
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
        )
        return Match(self.source, clauses)

    def _check_names(self) -> None:
        node, known = self.node, [*self.variables, *self.subsets]
        self._check_distinct([subset.name for subset in node.subsets], self.variables)
        self._check_distinct([each.variable for each in node.definitions], self.subsets)
        after = node.after_variable
        if after is not None and after.text not in known:
            raise self.context.error(after, f"unknown pattern variable '{after}'", misspelt(after.text, known))
        if after is not None and after.text in self.subsets:
            self.context.defer(after, f"'{after}' is a subset", "Write SKIP TO with one variable of the pattern.")
        for subset in node.subsets:
            for name in subset.variables:
                if name.text not in self.variables:
                    advice = misspelt(name.text, self.variables)
                    raise self.context.error(name, f"unknown pattern variable '{name}'", advice)

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
            time = "a rowtime or PROCTIME() column" if self.context.is_streaming else "a timestamp"
            self.context.defer(
                items[0] if items else self.node,
                "MATCH_RECOGNIZE takes rows in the order of time, and ORDER BY begins with something else",
                f"Write ORDER BY with {time} first, ascending.",
            )
        return tuple(keys)

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
        if not node.measures:
            self.context.defer(node, "MATCH_RECOGNIZE without MEASURES has no columns", "Write MEASURES A.x AS x.")
        taken = {self.source.schema.names[index]: "PARTITION BY" for index in partition_by}
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
        in_measures = list(self.subsets) if clause == "MEASURES" else []
        known = dict.fromkeys([*self.variables, *self.defined, *in_measures])
        schema = self.source.schema
        required = tuple(_required(self.node.pattern)) if clause == "MEASURES" else ()
        return PatternScalars(self.queries, schema, tuple(known), required, clause, self.scope)


# --- patterns --------------------------------------------------------------------------------------------------------


def _variables(pattern: queries.RowPattern) -> Iterator[str]:
    """The variables of a pattern, in its order."""
    if isinstance(pattern, queries.PatternVariable):
        yield pattern.name.text
    elif isinstance(pattern, queries.PatternRepetition | queries.PatternExclusion):
        yield from _variables(pattern.part)
    elif isinstance(pattern, queries.PatternSequence | queries.PatternAlternatives | queries.PatternPermutation):
        for part in pattern.parts:
            yield from _variables(part)


def _required(pattern: queries.RowPattern) -> Iterator[str]:
    """The variables to which every match maps a row."""
    for part in _flat(pattern):
        inner = part.part if isinstance(part, queries.PatternRepetition) else part
        if isinstance(inner, queries.PatternVariable) and _least(part):
            yield inner.name.text


def _pattern(pattern: queries.RowPattern) -> Pattern:
    if isinstance(pattern, queries.PatternVariable):
        return pattern.name.text
    if isinstance(pattern, queries.PatternRepetition):
        return PatternQuantity(_pattern(pattern.part), pattern.least or 0, pattern.most, pattern.is_reluctant)
    if isinstance(pattern, queries.PatternExclusion):
        return _pattern(pattern.part)
    assert isinstance(pattern, queries.PatternSequence | queries.PatternAlternatives | queries.PatternPermutation)
    is_alternatives = isinstance(pattern, queries.PatternAlternatives)
    return PatternGroup(tuple(map(_pattern, pattern.parts)), is_alternatives)


class PatternCheck:
    """Finds parts of a pattern that cannot be executed; a sequence of quantified variables can."""

    def __init__(self, match: MatchBinder) -> None:
        self.context = match.context

    def check(self, pattern: queries.RowPattern) -> None:
        """See a whole pattern."""
        parts = list(_flat(pattern))
        repeated = [name for name, count in Counter(_variables(pattern)).items() if count > 1]
        if repeated:
            self.context.defer(pattern, f"the variable '{repeated[0]}' stands in the pattern twice")
        for part in parts:
            self._part(part)
        if all(_least(part) == 0 for part in parts):
            self.context.defer(pattern, "the pattern matches no rows at all", "One variable at least has to be there.")
        for part, following in itertools.pairwise(parts):
            if _is_greedy(part) and _least(following) == 0:
                self.context.defer(following, "an optional variable cannot follow a greedy one", "Write +? or *?.")
        last = parts[-1]
        is_optional = isinstance(last, queries.PatternRepetition) and (last.least, last.most) == (0, 1)
        if _is_greedy(last) and not is_optional:
            self.context.defer(
                last, "the last variable of a pattern cannot be greedy", "Write +? or *?, or a variable behind it."
            )

    def _part(self, part: queries.RowPattern) -> None:
        kinds = {
            queries.PatternAlternatives: "alternatives",
            queries.PatternExclusion: "{- -}",
            queries.PatternPermutation: "PERMUTE",
        }
        inner = part
        if isinstance(part, queries.PatternRepetition):
            inner = part.part
            self._limits(part)
        if type(inner) in kinds:
            self.context.defer(part, f"{kinds[type(inner)]} are not supported in patterns")
        elif isinstance(inner, queries.PatternSequence):
            self.context.defer(part, "groups are not supported in patterns", "Repeat variables one by one.")
        if isinstance(part, queries.PatternRepetition) and (part.least, part.most) == (0, 1) and part.is_reluctant:
            self.context.defer(part, "?? is not supported in patterns", "Write ?.")

    def _limits(self, part: queries.PatternRepetition) -> None:
        if part.least is None:
            advice = f"Write {{0, {part.most}}}."
            self.context.defer(part, "the smallest number of rows is missing", advice)
        elif part.most is not None and part.most < max(part.least, 1):
            self.context.defer(part, f"the largest number of rows is {max(part.least, 1)} at least")


def _flat(pattern: queries.RowPattern) -> Iterator[queries.RowPattern]:
    if isinstance(pattern, queries.PatternSequence):
        for part in pattern.parts:
            yield from _flat(part)
    else:
        yield pattern


def _least(part: queries.RowPattern) -> int:
    return part.least or 0 if isinstance(part, queries.PatternRepetition) else 1


def _is_greedy(part: queries.RowPattern) -> bool:
    """Return whether it is a greedy quantifier with a variable number of rows."""
    return isinstance(part, queries.PatternRepetition) and part.least != part.most and not part.is_reluctant
