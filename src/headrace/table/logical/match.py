"""``MATCH_RECOGNIZE``: the relation, its pattern, and the scalars over the rows that variables stand for."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from headrace.table.logical.node import Part
from headrace.table.logical.relations import Relation
from headrace.table.logical.scalars import Options, Scalar, SortKey
from headrace.table.logical.schema import Schema, TimeAttribute
from headrace.table.parse.tree.queries import AfterMatch

ALL_ROWS: Final = "*"
"""The variable that stands for all rows of a match."""

SHOWN_ROW: Final = ""
"""The variable that stands for the row of a result: the row itself, or the last one of the match."""

CLASSIFIER: Final = -1
"""Stands for the variable that a row is mapped to, where otherwise a column stands."""


@dataclass(frozen=True)
class PatternQuantity(Part):
    """A variable or group with a quantifier; ``most`` is None when there is no limit."""

    part: "str | PatternGroup | PatternQuantity | PatternExclusion"
    least: int = 1
    most: int | None = 1
    is_reluctant: bool = False


@dataclass(frozen=True)
class PatternGroup(Part):
    """A concatenation of parts, or an alternation."""

    parts: tuple["str | PatternGroup | PatternQuantity | PatternExclusion", ...]
    is_alternatives: bool = False


@dataclass(frozen=True)
class PatternExclusion(Part):
    """``{- part -}``: rows of matches that ``ALL ROWS PER MATCH`` leaves out."""

    part: "str | PatternGroup | PatternQuantity | PatternExclusion"


@dataclass(frozen=True)
class PatternRef(Scalar):
    """A column of a row of a pattern variable: ``LAST(A.id, 1)``.

    Attributes:
        variable: its name; :data:`ALL_ROWS` stands for all rows of the match.
        index: the column, or :data:`CLASSIFIER`.
        name: the name of the column, for plans.
        function: ``LAST``, ``FIRST``, ``PREV`` or ``NEXT``; empty for ``A.id``, which is the last row, or, as the
            operand of an aggregate, each row.
        offset: the number of rows back, or ahead.
        attribute: the kind of time attribute that the column is, where its values are read as plain times.
        physical: how many rows further on in the order of all rows, or back, the row is then: ``PREV`` and ``NEXT``.
        is_final: whether it is ``FINAL`` where not all rows of the match count otherwise.
    """

    variable: str
    index: int
    name: str
    function: str = ""
    offset: int = 0
    attribute: TimeAttribute | None = None
    physical: int = 0
    is_final: bool = False


@dataclass(frozen=True)
class PatternAggregate(Scalar):
    """An aggregate over the rows of a variable; its operands refer to columns by :class:`PatternRef`."""

    function: str
    variable: str
    operands: tuple[Scalar, ...]
    options: Options = ()
    is_final: bool = False


@dataclass(frozen=True)
class PatternDefinition(Part):
    """``variable AS condition``."""

    variable: str
    condition: Scalar


@dataclass(frozen=True)
class PatternMeasure(Part):
    """``expression AS name``."""

    name: str
    expression: Scalar


@dataclass(frozen=True)
class MatchClauses(Part):
    """The clauses of ``MATCH_RECOGNIZE``.

    Attributes:
        partition_by: the columns of the partitions.
        order_by: the order of rows in a partition.
        pattern: the pattern.
        definitions: the conditions of variables; a row may be mapped to a variable without one whatever it is.
        measures: the columns that are computed of each match.
        after: the row from which the search goes on after a match.
        after_variable: the variable of ``SKIP TO FIRST`` and ``SKIP TO LAST``.
        within: the longest time of a match, which it does not reach; None for any.
        subsets: names for several variables.
        is_anchored: whether the pattern began with ``^``, and whether it ended with ``$``.
        finds_preferred: whether the match is the preferred one of SQL:2016, since Flink does not take the pattern.
        all_rows: whether the result has a row for each row of a match, or one for the match.
        with_empty: whether it has one for a match without rows.
    """

    partition_by: tuple[int, ...]
    order_by: tuple[SortKey, ...]
    pattern: "PatternGroup | PatternQuantity | PatternExclusion | str"
    definitions: tuple[PatternDefinition, ...]
    measures: tuple[PatternMeasure, ...]
    after: AfterMatch = AfterMatch.NEXT_ROW
    after_variable: str | None = None
    within: Scalar | None = None
    subsets: tuple[tuple[str, tuple[str, ...]], ...] = ()
    is_anchored: tuple[bool, bool] = (False, False)
    finds_preferred: bool = False
    all_rows: bool = False
    with_empty: bool = True

    @property
    def rows_before(self) -> int:
        """Return how many rows before a match ``PREV`` may go."""
        scalars = [*(each.condition for each in self.definitions), *(each.expression for each in self.measures)]
        refs = [node for scalar in scalars for node in scalar.walk() if isinstance(node, PatternRef)]
        return max((-ref.physical for ref in refs), default=0)

    def columns(self, given: Schema) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The columns of the rows that are columns of the result: those before the measures, and those behind."""
        if not self.all_rows:
            return self.partition_by, ()
        first = tuple(dict.fromkeys([*self.partition_by, *(key.index for key in self.order_by)]))
        return first, tuple(index for index in range(len(given)) if index not in first)

    def schema(self, given: Schema) -> Schema:
        """The columns of the result, given those of the rows: those of the partition, and the measures."""
        before, behind = (tuple(given[index] for index in columns) for columns in self.columns(given))
        measures = tuple(measure.expression.as_field(measure.name) for measure in self.measures)
        if not self.all_rows:
            return Schema(before + measures)
        plain = [tuple(replace(each, time=None) for each in columns) for columns in (before, behind)]
        return Schema((*plain[0], *measures, *plain[1]))


@dataclass(frozen=True)
class LogicalMatch(Relation):
    """``MATCH_RECOGNIZE``: one row for each match, or for each of its rows."""

    input: Relation
    clauses: MatchClauses

    @cached_property
    def schema(self) -> Schema:
        return self.clauses.schema(self.input.schema)
