"""``MATCH_RECOGNIZE``: the relation, its pattern, and the scalars over the rows that variables stand for."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from headrace.table.logical.node import Part
from headrace.table.logical.relations import Relation
from headrace.table.logical.scalars import Options, Scalar, SortKey
from headrace.table.logical.schema import Schema, TimeAttribute
from headrace.table.parse.tree.queries import AfterMatch

ALL_ROWS: Final = "*"
"""The variable that stands for all rows of a match."""


@dataclass(frozen=True)
class PatternQuantity(Part):
    """A variable or group with a quantifier; ``most`` is None when there is no limit."""

    part: "str | PatternGroup | PatternQuantity"
    least: int = 1
    most: int | None = 1
    is_reluctant: bool = False


@dataclass(frozen=True)
class PatternGroup(Part):
    """A concatenation of parts, or an alternation."""

    parts: tuple["str | PatternGroup | PatternQuantity", ...]
    is_alternatives: bool = False


@dataclass(frozen=True)
class PatternRef(Scalar):
    """A column of a row of a pattern variable: ``LAST(A.id, 1)``.

    Attributes:
        variable: its name; :data:`ALL_ROWS` stands for all rows of the match.
        index: the column.
        name: the name of the column, for plans.
        function: ``LAST``, ``FIRST``, ``PREV`` or ``NEXT``; empty for ``A.id``, which is the last row, or, as the
            operand of an aggregate, each row.
        offset: the number of rows back, or ahead.
        attribute: the kind of time attribute that the column is, where its values are read as plain times.
    """

    variable: str
    index: int
    name: str
    function: str = ""
    offset: int = 0
    attribute: TimeAttribute | None = None


@dataclass(frozen=True)
class PatternAggregate(Scalar):
    """An aggregate over the rows of a variable; its operands refer to columns by :class:`PatternRef`."""

    function: str
    variable: str
    operands: tuple[Scalar, ...]
    options: Options = ()


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
    """

    partition_by: tuple[int, ...]
    order_by: tuple[SortKey, ...]
    pattern: "PatternGroup | PatternQuantity | str"
    definitions: tuple[PatternDefinition, ...]
    measures: tuple[PatternMeasure, ...]
    after: AfterMatch = AfterMatch.NEXT_ROW
    after_variable: str | None = None
    within: Scalar | None = None
    subsets: tuple[tuple[str, tuple[str, ...]], ...] = ()
    is_anchored: tuple[bool, bool] = (False, False)

    def schema(self, given: Schema) -> Schema:
        """The columns of the result, given those of the rows: those of the partition, and the measures."""
        keys = tuple(given[index] for index in self.partition_by)
        return Schema(keys + tuple(measure.expression.as_field(measure.name) for measure in self.measures))


@dataclass(frozen=True)
class Match(Relation):
    """``MATCH_RECOGNIZE``: one row for each match."""

    input: Relation
    clauses: MatchClauses

    @cached_property
    def schema(self) -> Schema:
        return self.clauses.schema(self.input.schema)
