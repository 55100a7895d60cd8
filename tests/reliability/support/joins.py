"""What the program with joins of every kind, and functions of two streams, and its test both know.

Records, joins, faults, and what is right.

All records are those of one split, of which one half is the left stream and the other one the right. None is late, so
what comes out follows from the records alone.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final

from headrace.common import Types
from headrace.datastream import (
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    MapFunction,
    ProcessJoinFunction,
    RuntimeContext,
)
from headrace.datastream.state import MapStateDescriptor, ValueStateDescriptor
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.expressions import left as left_field
from headrace.expressions import right as right_field
from tests.reliability.support.faults import FaultPlan, die

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

COUNT: Final = 1_200
EPOCHS: Final = 20
KEYS: Final = 40
DISORDER: Final = 9
LOWER, UPPER, SIZE = -20, 35, 60
"""Of the intervals and the windows, in milliseconds; a record of each stream comes every two."""

RECORD = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
"""Key, number and time."""

BEFORE_JOINS: Final = "a task is killed before the joins"
BEHIND_JOIN: Final = "a task is killed that shows pairs"

DYING_NUMBERS: Final = frozenset({COUNT // 3, 2 * COUNT // 3})

Record = tuple[int, int, int]


def record_of(number: int) -> Record:
    """A record, out of order by as much as is waited for."""
    return number * number // 7 % KEYS, number, max(0, number - number % (DISORDER + 1))


def is_left(number: int) -> bool:
    """Whether it is of the left stream."""
    return number % 2 == 0


class Recorded(MapFunction):
    """Makes the records; dies at some of them."""

    def __init__(self, plan: FaultPlan) -> None:
        self._plan = plan

    def map(self, value: int) -> Record:
        if value in DYING_NUMBERS and self._plan.strikes(BEFORE_JOINS):
            die()
        return record_of(value)


class Line(MapFunction):
    """A line for each result; dies at one of them.

    Args:
        way: the join.
        plan: the faults.
    """

    def __init__(self, way: str, plan: FaultPlan) -> None:
        self._way = way
        self._plan = plan
        self._deadly = COUNT * (list(WAYS).index(way) + 1) // (len(WAYS) + 1)

    def map(self, value: Any) -> str:
        numbers = [number for number in value if number is not None]
        if self._deadly < max(numbers) and self._plan.strikes(point_of(self._way)):
            die()
        return line_of(value)


def point_of(way: str) -> str:
    """The name of the fault behind a join."""
    return f"{BEHIND_JOIN}: {way}"


def line_of(result: Iterable[Any]) -> str:
    """The numbers of a result."""
    return " ".join(map(str, result))


# --- the joins --------------------------------------------------------------------------------------------------------

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


def numbers_of(left: Record | None, right: Record | None) -> tuple[int | None, int | None]:
    """The numbers of both."""
    return left and left[1], right and right[1]


class Numbers(ProcessJoinFunction):
    """The numbers of both."""

    def process_element(
        self, left: Any, right: Any, ctx: ProcessJoinFunction.Context
    ) -> Iterator[tuple[int | None, int | None]]:
        yield numbers_of(left, right)


def grouped(lefts: list[Record], rights: list[Record]) -> Iterator[tuple[int, int]]:
    """The sums of the numbers of both."""
    yield sum(record[1] for record in lefts), sum(record[1] for record in rights)


class Latest(KeyedCoProcessFunction):
    """Each left record with the right one of its key that came last before it in event time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.latest = runtime_context.get_state(ValueStateDescriptor("latest", Types.LONG()))

    def process_element1(self, value: Record, ctx: KeyedCoProcessFunction.Context) -> None:
        self.latest.update(value[1])

    def process_element2(self, value: Record, ctx: KeyedCoProcessFunction.Context) -> Iterator[tuple[int, int | None]]:
        yield value[1], self.latest.value()


SEEN: Final = MapStateDescriptor("seen", Types.LONG(), Types.LONG())


class Counted(KeyedBroadcastProcessFunction):
    """Each left record with the number of right ones, of all keys, that came before it in event time."""

    def process_broadcast_element(self, value: Record, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        seen = ctx.get_broadcast_state(SEEN)
        seen.put(0, (seen.get(0) or 0) + 1)

    def process_element(
        self, value: Record, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[tuple[int, int]]:
        yield value[1], ctx.get_broadcast_state(SEEN).get(0) or 0


_COLUMNS = (left_field("f1").alias("l"), right_field("f1").alias("r"))
_WINDOWS = TumblingEventTimeWindows.of(SIZE)


def _near(left: DataStream[Any], right: DataStream[Any]) -> Any:
    return left.key_by(0).interval_join(right.key_by(0), "outer").between(LOWER, UPPER)


def _same_window(left: DataStream[Any], right: DataStream[Any]) -> Any:
    return left.join(right, "outer").where(0).equal_to(0).window(_WINDOWS)


def _co_grouped(left: DataStream[Any], right: DataStream[Any]) -> Any:
    return left.co_group(right).where(0).equal_to(0).window(_WINDOWS)


def _connected(left: DataStream[Any], right: DataStream[Any]) -> Any:
    return right.key_by(0).connect(left.key_by(0)).in_event_time_order()


def _broadcast(left: DataStream[Any], right: DataStream[Any]) -> Any:
    return left.key_by(0).connect(right.broadcast(SEEN)).in_event_time_order()


WAYS: Final[dict[str, Callable[[DataStream[Any], DataStream[Any]], DataStream[Any]]]] = {
    "interval join": lambda left, right: _near(left, right).process(Numbers(), PAIR),
    "interval join in columns": lambda left, right: _near(left, right).select(*_COLUMNS),
    "window join": lambda left, right: _same_window(left, right).apply(numbers_of, PAIR),
    "window join in columns": lambda left, right: _same_window(left, right).select(*_COLUMNS),
    "co-group": lambda left, right: _co_grouped(left, right).apply(grouped, PAIR),
    "connected": lambda left, right: _connected(left, right).process(Latest(), PAIR),
    "broadcast": lambda left, right: _broadcast(left, right).process(Counted(), PAIR),
}


# --- what is right ----------------------------------------------------------------------------------------------------


def expected(way: str) -> list[str]:
    """The lines of a way, sorted."""
    records = [record_of(number) for number in range(COUNT)]
    lefts = [record for record in records if is_left(record[1])]
    rights = [record for record in records if not is_left(record[1])]
    if way == "co-group":
        groups = {(key, time // SIZE) for key, _, time in records}
        return sorted(line_of(result) for group in groups for result in grouped(*_of(group, lefts, rights)))
    if way == "connected":
        return sorted(line_of((left[1], _latest(left, rights))) for left in lefts)
    if way == "broadcast":
        return sorted(line_of((left[1], sum(right[2] <= left[2] for right in rights))) for left in lefts)
    match = _are_near if way.startswith("interval") else _share_window
    pairs = [(left, right) for left, right in product(lefts, rights) if match(left, right)]
    found = {record for pair in pairs for record in pair}
    lonely = [numbers_of(left, None) for left in lefts if left not in found]
    lonely += [numbers_of(None, right) for right in rights if right not in found]
    return sorted(map(line_of, [*(numbers_of(*pair) for pair in pairs), *lonely]))


def _are_near(left: Record, right: Record) -> bool:
    return left[0] == right[0] and LOWER <= right[2] - left[2] <= UPPER


def _share_window(left: Record, right: Record) -> bool:
    return (left[0], left[2] // SIZE) == (right[0], right[2] // SIZE)


def _latest(left: Record, rights: list[Record]) -> int | None:
    before = [(right[2], right[1]) for right in rights if right[0] == left[0] and right[2] <= left[2]]
    return max(before)[1] if before else None


def _of(group: tuple[int, int], *streams: list[Record]) -> list[list[Record]]:
    return [[record for record in stream if (record[0], record[2] // SIZE) == group] for stream in streams]
