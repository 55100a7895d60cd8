"""Interval joins of SQL, in event time and by the clock, beside a model that handles row by row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.common.typeinfo import RowTypeInfo
from headrace.graph.join_specs import TableIntervalJoinSpec
from headrace.operators.join.find_pairs import JoinInterval
from headrace.operators.join.results import JoinType
from tests.draws import draws
from tests.operators.changelog.driven import Driven, Event, run
from tests.table.connectors.session import session

TYPE = RowTypeInfo((Types.INT(), Types.LONG(), Types.INT()), ("k", "t", "v"))
NAMES = ("k", "t", "v", "k0", "t0", "v0")
NOTHING = (None, None, None)
Row = tuple[Any, ...]


def spec(kind: JoinType, interval: JoinInterval, times: tuple[int, int] | None) -> TableIntervalJoinSpec:
    return TableIntervalJoinSpec(
        join_type=kind, names=NAMES, strict_keys=((0,), (0,)), interval=interval, time_fields=times
    )


@dataclass
class Model:
    """Rows that are kept, each with its side, its time and whether it was matched.

    Attributes:
        kind: the kind of join.
        interval: which times match.
    """

    kind: JoinType
    interval: JoinInterval
    kept: list[dict[str, Any]] = field(default_factory=list)
    emitted: list[Row] = field(default_factory=list)

    def add(self, row: Row, side: int, time: int) -> None:
        """Joins a row with those of the other side, in order of time, and keeps it."""
        own = {"row": row, "side": side, "time": time, "matched": False}
        lower, upper = self.interval.seen_from(side)
        for other in self.kept:
            is_near = time + lower <= other["time"] <= time + upper
            if other["side"] != side and is_near and row[0] is not None and row[0] == other["row"][0]:
                own["matched"] = other["matched"] = True
                pair = (other["row"], row) if side else (row, other["row"])
                self.emitted.append((*pair[0], *pair[1]))
        self.kept.append(own)

    def expire(self, now: int) -> None:
        """Drops rows that nothing can match any more; those without a match are emitted in an outer join."""
        gone = [each for each in self.kept if each["time"] + self.interval.retention(each["side"]) <= now]
        self.kept = [each for each in self.kept if each not in gone]
        outer = self.kind.outer
        for each in gone:
            if not each["matched"] and (outer.right if each["side"] else outer.left):
                self.emitted.append((*NOTHING, *each["row"]) if each["side"] else (*each["row"], *NOTHING))


KINDS = st.sampled_from([JoinType.INNER, JoinType.LEFT, JoinType.RIGHT, JoinType.FULL])
KEYS = st.none() | st.integers(0, 1)
ROWS = st.tuples(KEYS, st.integers(0, 30), st.integers(0, 9))
RECORDS = st.tuples(st.just("+I"), ROWS, st.integers(0, 1))
EVENTS = st.lists(RECORDS | st.integers(0, 35), max_size=30)
INTERVALS = st.builds(JoinInterval, st.integers(-8, -1), st.integers(1, 8))


@settings(max_examples=draws(120))
@given(kind=KINDS, interval=INTERVALS, events=EVENTS, cuts=st.sets(st.integers(0, 30)))
def test_rows_whose_times_are_near(kind: JoinType, interval: JoinInterval, events: list[Any], cuts: set[int]) -> None:
    model, watermark = Model(kind, interval), -1
    for event in [*events, 1000]:
        if isinstance(event, int):
            watermark = max(watermark, event)
        else:
            model.add(event[1], event[2], event[1][1])
        model.expire(watermark)
    found = run(spec(kind, interval, (1, 1)), TYPE, ("k",), [*events, 1000], sorted(cuts), inputs=2)
    assert Counter(row for _, row in found) == Counter(model.emitted)


@settings(max_examples=draws(120))
@given(
    kind=KINDS,
    interval=INTERVALS | st.just(JoinInterval(0, 0)),
    epochs=st.lists(st.tuples(st.integers(1, 6), st.lists(RECORDS, max_size=5)), max_size=8),
)
def test_rows_that_arrive_near_each_other(
    kind: JoinType, interval: JoinInterval, epochs: list[tuple[int, list[Event]]]
) -> None:
    model = Model(kind, interval)
    driven = Driven(spec(kind, interval, None), TYPE, ("k",), inputs=2)
    for later, events in [*epochs, (1000, [])]:
        driven.now += later
        model.expire(driven.now - 1)
        for _, row, side in events:  # type: ignore[misc, str-unpack]
            model.add(row, side, driven.now)
        driven.epoch(events)
    assert Counter(row for _, row in driven.changes()) == Counter(model.emitted)


def test_the_largest_time_of_a_group_is_no_rowtime() -> None:
    columns = "k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts"
    tables = session(*(f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'datagen')" for name in "ab"))
    near = "a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '2' SECOND AND a.ts"
    groups = "(SELECT k, MAX(ts) AS ts FROM b GROUP BY k)"
    assert "IntervalJoin(" in tables.explain_sql(f"SELECT a.k FROM a JOIN b ON {near}")
    assert "\n+- Join(" in tables.explain_sql(f"SELECT a.k FROM a JOIN {groups} AS b ON {near}")
