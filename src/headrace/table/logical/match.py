"""``MATCH_RECOGNIZE``: the relation, its pattern, and the scalars over the rows that variables stand for."""

from dataclasses import dataclass
from functools import cached_property

from headrace.table.logical.node import Part
from headrace.table.logical.relations import Relation
from headrace.table.logical.scalars import Scalar, SortKey
from headrace.table.logical.schema import Schema


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
    """A column of a row of a pattern variable: ``PREV(B.price, 1)`` counts rows, ``LAST(A.id, 1)`` matched rows.

    Attributes:
        variable: its name; ``*`` stands for all rows of the match.
        index: the column.
        function: ``LAST``, ``FIRST``, ``PREV`` or ``NEXT``.
        offset: how many rows back, or ahead.
    """

    variable: str
    index: int
    function: str = "LAST"
    offset: int = 0


@dataclass(frozen=True)
class PatternAggregate(Scalar):
    """An aggregate over the rows of a variable; its operands refer to columns by :class:`PatternRef`."""

    function: str
    variable: str
    operands: tuple[Scalar, ...]


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
class Match(Relation):
    """``MATCH_RECOGNIZE``: one row for each match: the columns of the partition, and the measures."""

    input: Relation
    partition_by: tuple[int, ...]
    order_by: tuple[SortKey, ...]
    pattern: PatternGroup | PatternQuantity | str
    definitions: tuple[PatternDefinition, ...]
    measures: tuple[PatternMeasure, ...]
    after: str = "TO NEXT ROW"
    after_variable: str | None = None
    within: Scalar | None = None
    subsets: tuple[tuple[str, tuple[str, ...]], ...] = ()
    is_anchored: tuple[bool, bool] = (False, False)

    @cached_property
    def schema(self) -> Schema:
        keys = tuple(self.input.schema[index] for index in self.partition_by)
        return Schema(keys + tuple(measure.expression.as_field(measure.name) for measure in self.measures))
