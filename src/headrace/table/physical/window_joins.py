"""Window joins and interval joins, and the conversion of joins: to one of these, or to a regular join."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from headrace.graph.join_specs import TableIntervalJoinSpec, TableWindowJoinSpec
from headrace.operators.join.find_pairs import TableJoinInterval
from headrace.operators.join.results import JoinType
from headrace.table.logical.join_keys import condition_of
from headrace.table.logical.relations import LogicalJoin
from headrace.table.logical.scalars import BOOLEAN, Call, InputRef, Literal, Scalar, conjuncts
from headrace.table.logical.schema import TimeAttribute
from headrace.table.physical.basic import Exchange
from headrace.table.physical.broadcast_joins import executed_join
from headrace.table.physical.changelog_rules import ChangelogRule, Modify, never
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted
from headrace.table.physical.joins import AnyJoin, JoinKeys, regular_join
from headrace.table.physical.multi_joins import multi_join
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms
from headrace.table.physical.times import shifted_column
from headrace.table.physical.translation import GraphBuilder, compiled
from headrace.table.physical.windows import WindowColumns, window_columns


@dataclass(frozen=True)
class TimeBounds:
    """The bounds of the left row's time relative to the right row's, in milliseconds.

    Attributes:
        lower: the lower bound, inclusive.
        upper: the upper bound, inclusive.
        left: the column of times of the left input.
        right: that of the right input.
        is_rowtime: whether these are rowtimes, and not processing times.
    """

    lower: int
    upper: int
    left: int
    right: int
    is_rowtime: bool = True

    @property
    def text(self) -> str:
        """The bounds in the form of plans."""
        return (
            f"isRowTime={str(self.is_rowtime).lower()}, leftLowerBound={self.lower}, leftUpperBound={self.upper}, "
            f"leftTimeIndex={self.left}, rightTimeIndex={self.right}"
        )


@dataclass(frozen=True)
class IntervalJoin(AnyJoin):
    """A join of rows whose times lie within an interval of each other.

    Attributes:
        bounds: the interval.
        shown: the whole condition for plans, including the one on times.
    """

    name: ClassVar[str] = "IntervalJoin"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(never, takes=Modify.INSERT)
    bounds: TimeBounds
    shown: Scalar

    @property
    def requires_watermark(self) -> bool:
        return True

    def terms(self, text: ScalarText) -> Terms:
        for name, value in super().terms(text):
            if name == "where":
                yield "windowBounds", self.bounds.text
                yield name, text(self.shown, self.pairs.names)
            else:
                yield name, value

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        bounds, about = self.bounds, self.about(builder)
        is_possible = bounds.lower <= bounds.upper
        if not is_possible:
            about["condition"] = compiled(Literal(False, type=BOOLEAN), self.pairs, builder)
        spec = TableIntervalJoinSpec(
            **about,
            interval=TableJoinInterval(-bounds.upper, -bounds.lower) if is_possible else TableJoinInterval(0, 0),
            time_fields=(bounds.left, bounds.right) if bounds.is_rowtime else None,
        )
        return builder.add(spec, self.name, *self.keyed(inputs))


def interval_join(join: LogicalJoin, left: PhysicalNode, right: PhysicalNode) -> PhysicalNode | None:
    """The interval join; None if the condition does not bound times on both sides."""
    if join.kind in (JoinType.SEMI, JoinType.ANTI):
        return None
    width, parts = len(left.schema), conjuncts(join.condition)
    found = [(each, _bound_of(each, width)) for each in parts]
    bounds = _bounds([bound for _, bound in found if bound is not None])
    if bounds is None or left.schema[bounds.left].time is None or right.schema[bounds.right].time is None:
        return None  # the largest time of a group, say, is a plain column
    bounds = replace(bounds, is_rowtime=left.schema[bounds.left].time is TimeAttribute.ROWTIME)
    rest = condition_of([each for each, bound in found if bound is None])
    keys = JoinKeys.of(rest, width)
    exchanges = Exchange(left, keys.left), Exchange(right, keys.right)
    return IntervalJoin(*exchanges, join.kind, rest, keys, bounds, join.condition)


@dataclass(frozen=True)
class _Bound:
    """A bound on the left row's time minus the right row's.

    Attributes:
        left: the column of times of the left input.
        right: that of the right input.
        operator: the comparison of the difference with the value.
        value: the bound in milliseconds.
    """

    left: int
    right: int
    operator: str
    value: int


_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def _bound_of(condition: Scalar, width: int) -> _Bound | None:
    """The bound in a comparison of two time attributes; None for other conditions."""
    if not isinstance(condition, Call) or condition.function not in _MIRRORED:
        return None
    one, other = (_time_of(each) for each in condition.operands)
    if one is None or other is None or (one[0].index < width) == (other[0].index < width):
        return None
    operator = condition.function
    if one[0].index >= width:
        one, other, operator = other, one, _MIRRORED[operator]
    if one[0].time is not other[0].time:
        return None
    return _Bound(one[0].index, other[0].index - width, operator, other[1] - one[1])


def _time_of(scalar: Scalar) -> tuple[InputRef, int] | None:
    """A time attribute and the milliseconds added to it; None for other scalars."""
    found = shifted_column(scalar)
    return None if found is None or found[0].time is None else found


def _bounds(found: Sequence[_Bound]) -> TimeBounds | None:
    """The interval from bounds on both sides of one pair of columns."""
    lowers = [each.value + (each.operator == ">") for each in found if each.operator in (">", ">=", "=")]
    uppers = [each.value - (each.operator == "<") for each in found if each.operator in ("<", "<=", "=")]
    if not lowers or not uppers or len({(each.left, each.right) for each in found}) != 1:
        return None
    return TimeBounds(max(lowers), min(uppers), found[0].left, found[0].right)


@dataclass(frozen=True)
class WindowJoin(AnyJoin):
    """A join of the rows of each window, once it has ended.

    Attributes:
        windows: the columns of both inputs that hold the window.
    """

    name: ClassVar[str] = "WindowJoin"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(never, takes=Modify.INSERT)
    windows: tuple[WindowColumns, WindowColumns]

    @property
    def windowing(self) -> WindowColumns:
        """The window columns of results."""
        left, right = self.windows
        if not self.kind.left_is_optional:
            return left
        width = len(self.left.schema)
        return right.through({index: index + width for index in range(len(self.right.schema))})

    @property
    def requires_watermark(self) -> bool:
        return True

    def terms(self, text: ScalarText) -> Terms:
        for name, node, columns in zip(
            ("leftWindow", "rightWindow"), (self.left, self.right), self.windows, strict=True
        ):
            yield name, columns.text(node.schema.names)
        yield from super().terms(text)

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        left, right = self.windows
        assert left.end is not None
        assert right.end is not None
        spec = TableWindowJoinSpec(
            **self.about(builder), end_fields=(left.end, right.end), zone=left.window.zone(builder)
        )
        return builder.add(spec, self.name, *self.keyed(inputs))


def window_join(join: LogicalJoin, left: PhysicalNode, right: PhysicalNode) -> PhysicalNode | None:
    """The window join; None if the condition does not compare the windows for equality."""
    columns = window_columns(left), window_columns(right)
    if columns[0] is None or columns[1] is None or columns[0].window != columns[1].window:
        return None
    width = len(left.schema)
    wanted = [(columns[0].start, columns[1].start), (columns[0].end, columns[1].end)]
    if any(None in pair for pair in wanted):
        return None
    pairs = {(one, other + width) for one, other in wanted if one is not None and other is not None}
    parts = conjuncts(join.condition)
    found = {_compared(each) for each in parts}
    if not pairs <= found:
        return None
    condition = condition_of([each for each in parts if _compared(each) not in pairs])
    keys = JoinKeys.of(condition, width)
    exchanges = Exchange(left, keys.left), Exchange(right, keys.right)
    return WindowJoin(*exchanges, join.kind, condition, keys, (columns[0], columns[1]))


def _compared(condition: Scalar) -> tuple[int, int] | None:
    """The columns that a condition compares for equality, in order."""
    if not isinstance(condition, Call) or condition.function != "=":
        return None
    columns = sorted(each.index for each in condition.operands if isinstance(each, InputRef))
    return (columns[0], columns[1]) if len(columns) == len(condition.operands) else None


@conversion_rule(LogicalJoin)
def _join(join: LogicalJoin, context: ConversionContext) -> PhysicalNode:
    left, right = converted(join.left, context), converted(join.right, context)
    if context.is_batch:
        return executed_join(join, left, right, context)
    found = window_join(join, left, right) or interval_join(join, left, right)
    return found or multi_join(join, left, right, context) or regular_join(join, left, right)
