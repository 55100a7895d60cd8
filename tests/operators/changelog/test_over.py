"""Functions over the rows around each row, against what one row at a time gives."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot, bigint
from headrace.common.typeinfo.types import type_of_logical
from headrace.graph.changelog_specs import OverAggregateSpec, TemporalSortSpec
from headrace.operators.aggregates.calls import AggregateOperation
from headrace.operators.changelog.order import SortField
from headrace.operators.changelog.over import changing
from headrace.operators.changelog.over.functions import OverFrame
from tests.draws import draws
from tests.operators.changelog.driven import Driven, run

INT, DOUBLE = AtomicType(TypeRoot.INTEGER), AtomicType(TypeRoot.DOUBLE)
BIDS = Types.ROW_NAMED(["id", "item", "price", "ts"], [Types.INT(), Types.STRING(), Types.INT(), Types.LONG()])
ROWS = [
    (1, "a", 10, 1), (2, "b", 4, 2), (3, "a", 20, 4), (4, "a", 15, 3), (5, None, 1, 5), (6, "b", 4, 5),
    (7, "a", None, 6), (8, "a", 30, 1), (9, "b", 9, 9), (10, "a", 20, 8), (11, "a", 12, 8), (12, "b", 1, 2),
]  # fmt: skip


def call(function: str, *arguments: int, type_: LogicalType = INT, **more: Any) -> AggregateOperation:
    return AggregateOperation(function, arguments, type_, more.pop("name", "result"), **more)


def with_watermarks(rows: list[Any], delay: int = 2) -> list[Any]:
    events: list[Any] = []
    for row in rows:
        events += [("+I", row), row[3] - delay]
    return [*events, 100]


def results(frame: OverFrame, made: AggregateOperation, key: tuple[str, ...] = ("item",)) -> list[Any]:
    spec = OverAggregateSpec(calls=(made,), frame=frame, time_field=3)
    found = run(spec, BIDS, key, with_watermarks(ROWS), cuts=[3, 4, 11, 17])
    return [(values[0], values[-1]) for _, values in found]


UNBOUNDED = OverFrame(is_rows=False)


@pytest.mark.parametrize(
    ("frame", "made", "expected"),
    [
        (OverFrame(True, -1), call("SUM", 2), [10, 4, 25, 35, 1, 8, 20, 20, 32, 13]),
        (OverFrame(False, -3), call("SUM", 2), [10, 4, 25, 45, 1, 8, 35, 32, 32, 9]),
        (UNBOUNDED, call("SUM", 2), [10, 4, 25, 45, 1, 8, 45, 77, 77, 17]),
        (OverFrame(True), call("COUNT", 2, type_=bigint(), is_distinct=True), [1, 1, 2, 3, 1, 1, 3, 3, 4, 2]),
        (OverFrame(True), call("ROW_NUMBER", type_=bigint()), [1, 1, 2, 3, 1, 2, 4, 5, 6, 3]),
        (UNBOUNDED, call("LAG", 2), [None, None, 10, 15, None, 4, 20, 20, 20, 4]),
        (OverFrame(True, -2), call("FIRST_VALUE", 0), [1, 2, 1, 1, 5, 2, 4, 3, 7, 2]),
        (OverFrame(True), call("RANK", type_=bigint()), [1, 1, 2, 3, 1, 2, 4, 5, 5, 3]),
        (OverFrame(True, -2), call("AVG", 2), [10, 4, 12, 15, 1, 4, 17, 20, 16, 5]),
    ],
)  # fmt: skip
def test_rows_come_out_when_the_watermark_passes_them(frame: Any, made: Any, expected: list[Any]) -> None:
    ids = [1, 2, 4, 3, 5, 6, 7, 10, 11, 9]
    assert results(frame, made) == list(zip(ids, expected, strict=True))


@pytest.mark.parametrize(
    ("function", "expected"),
    [("RANK", [1, 2, 3, 4, 5, 5, 7, 8, 8, 10]), ("DENSE_RANK", [1, 2, 3, 4, 5, 5, 6, 7, 7, 8])],
)
def test_ranks_go_on_from_those_of_rows_that_have_been_emitted(function: str, expected: list[int]) -> None:
    for calls in ((call(function, type_=bigint()),), (call("LAG", 2, name="before"), call(function, type_=bigint()))):
        spec = OverAggregateSpec(calls=calls, frame=UNBOUNDED, time_field=3)
        found = run(spec, BIDS, (), with_watermarks(ROWS), cuts=[3, 4, 11, 17])
        assert [values[-1] for _, values in found] == expected


def test_a_default_takes_the_place_of_rows_that_are_not_there_and_of_nulls_among_peers() -> None:
    wide = Types.ROW_NAMED([*BIDS.field_names, "other"], [*BIDS.field_types, Types.INT()])
    lag = call("LAG", 2, 0, 4, type_=INT.not_null(), constants=((1, 2),))
    spec = OverAggregateSpec(calls=(lag,), frame=UNBOUNDED, time_field=3)
    found = run(spec, wide, ("item",), with_watermarks([(*row, -1) for row in ROWS]), cuts=[9])
    assert [values[-1] for _, values in found] == [-1, -1, -1, 10, -1, -1, 15, -1, -1, 4]


def test_processing_time_is_the_order_of_arrival() -> None:
    spec = OverAggregateSpec(calls=(call("SUM", 2),), frame=OverFrame(True, -1))
    found = run(spec, BIDS, ("item",), [("+I", row) for row in ROWS], cuts=[2, 5])
    assert [values[-1] for _, values in found] == [10, 4, 30, 35, 1, 8, 15, 30, 13, 50, 32, 10]


@pytest.mark.parametrize(
    ("frame", "made", "order", "expected"),
    [
        (OverFrame(True, -1, 1), call("SUM", 2), [0], [30, 8, 45, 35, 1, 17, 45, 50, 14, 62, 32, 10]),
        (OverFrame(False, -5, 5), call("SUM", 2), [2], [37, 18, 55, 77, 1, 18, None, 30, 17, 55, 37, 9]),
        (OverFrame(False, None, None), call("COUNT", type_=bigint()), [], [7, 4, 7, 7, 1, 4, 7, 7, 4, 7, 7, 4]),
        (OverFrame(False), call("RANK", type_=bigint()), [2], [2, 2, 5, 4, 1, 2, 1, 7, 4, 5, 3, 1]),
        (OverFrame(False), call("DENSE_RANK", type_=bigint()), [2], [2, 2, 5, 4, 1, 2, 1, 6, 3, 5, 3, 1]),
        (OverFrame(False), call("CUME_DIST", type_=DOUBLE), [2, 0], [2, 2, 5, 4, 7, 3, 1, 7, 4, 6, 3, 1]),
        (OverFrame(True), call("LEAD", 2), [2, 0], [12, 4, 20, 20, None, 9, 10, None, None, 30, 15, 4]),
        (OverFrame(True), call("NTILE", type_=INT, constants=((0, 2),)), [0], [1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2]),
    ],
)  # fmt: skip
def test_bounded_rows_are_all_there(frame: Any, made: Any, order: list[int], expected: list[Any]) -> None:
    fields = tuple(SortField(field) for field in order)
    driven = Driven(OverAggregateSpec(calls=(made,), frame=frame, order=fields), BIDS, ("item",), is_batch=True)
    driven.epoch([("+I", row) for row in ROWS[:5]])
    driven.epoch([*(("+I", row) for row in ROWS[5:]), 2**63 - 1])
    found = {values[0]: values[-1] for _, values in driven.changes()}
    if made.function == "CUME_DIST":
        found = {id_: round(part * {5: 7}.get(id_, 4 if id_ in {2, 6, 9, 12} else 7)) for id_, part in found.items()}
    assert [found[id_] for id_ in range(1, 13)] == expected


@settings(max_examples=draws(10), deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.just(0), st.sampled_from(["a", "b"]), st.none() | st.integers(0, 9), st.integers(0, 9)),
        max_size=25,
    ),
    low=st.none() | st.integers(-3, 0),
    is_rows=st.booleans(),
    function=st.sampled_from(["SUM", "MIN", "MAX", "LAST_VALUE"]),
    type_=st.sampled_from([INT, DOUBLE]),
    cuts=st.lists(st.integers(0, 50), max_size=3),
)
def test_aggregates_of_frames(
    rows: Any, low: Any, is_rows: Any, function: str, type_: LogicalType, cuts: list[int]
) -> None:
    if type_ == DOUBLE:
        rows = [(*row[:2], None if row[2] is None else 10.0 ** (9 * row[2]) / 3, row[3]) for row in rows]
    rows = [(place, *row[1:]) for place, row in enumerate(rows)]
    watermark, on_time, waiting, last = -1, [], [], dict[str, int]()
    for row in rows:
        if row[3] > (watermark if low is None else min(watermark, last.get(row[1], -1))):
            on_time.append(row)
            waiting.append(row)
        if row[3] - 2 > watermark:
            watermark = row[3] - 2
            for due in [each for each in waiting if each[3] <= watermark]:
                waiting.remove(due)
                last[due[1]] = max(last.get(due[1], -1), due[3])
    expected = {}
    for item in ("a", "b"):
        own = sorted((row for row in on_time if row[1] == item), key=lambda row: row[3])
        for place, row in enumerate(own):
            if is_rows:
                around = own[0 if low is None else max(place + low, 0) : place + 1]
            else:
                around = [each for each in own if (low is None or each[3] >= row[3] + low) and each[3] <= row[3]]
            values = [each[2] for each in around if each[2] is not None]
            by_name: dict[str, Any] = {"SUM": math.fsum, "MIN": min, "MAX": max, "LAST_VALUE": lambda found: found[-1]}
            expected[row[0]] = by_name[function](values) if values else None
    spec = OverAggregateSpec(calls=(call(function, 2, type_=type_),), frame=OverFrame(is_rows, low), time_field=3)
    bids = Types.ROW_NAMED([*BIDS.field_names], [*BIDS.field_types[:2], type_of_logical(type_), Types.LONG()])
    found = run(spec, bids, ("item",), with_watermarks(rows), cuts)
    assert {values[0]: values[-1] for _, values in found} == expected


def test_rows_in_the_order_of_time() -> None:
    spec = TemporalSortSpec(time_field=3, order=(SortField(2, is_descending=True),))
    found = run(spec, BIDS, (), with_watermarks(ROWS), cuts=[5, 6])
    assert [values[0] for _, values in found] == [1, 2, 4, 3, 6, 5, 7, 10, 11, 9]


@settings(max_examples=draws(15), deadline=None)
@given(
    drawn=st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 4), st.integers(0, 3)), max_size=20),
    is_rows=st.booleans(),
    function=st.sampled_from(["SUM", "ROW_NUMBER", "LAG"]),
    cuts=st.lists(st.integers(0, 20), max_size=2),
    most=st.sampled_from([1, 7, 1 << 20]),
)
def test_results_change_as_rows_come_and_go(
    drawn: Any, is_rows: bool, function: str, cuts: list[int], most: int
) -> None:
    held: dict[str, list[Any]] = {"a": [], "b": []}
    events, expected = [], []

    def results(rows: list[Any]) -> list[int | None]:
        if function == "ROW_NUMBER":
            return list(range(1, len(rows) + 1))
        last = [max(at for at, row in enumerate(rows) if row[2] == own[2]) for own in rows]
        last = list(range(len(rows))) if is_rows else last
        if function == "LAG":
            return [rows[at - 1][0] if at else None for at in last]
        return [sum(row[0] for row in rows[: at + 1]) for at in last]

    for place, (item, price, action) in enumerate(drawn):
        before = held[item]
        row = (place % 3, item, price, 0)
        retracted = row if action == 1 else before[place % len(before)] if action == 0 and before else None
        events.append(("+I" if retracted is None else "-D", retracted or row))
        rows = list(before)
        if retracted is None:
            at = sum(each[2] <= price for each in before)
            rows.insert(at, row)
        elif retracted in before:
            at = before.index(retracted)
            del rows[at]
        else:
            continue
        old, new, held[item] = results(before), results(rows), rows
        came, went = retracted is None, retracted is not None
        for index, each in enumerate(rows if came else before):
            if index == at:
                expected.append(("+I", (*each, new[at])) if came else ("-D", (*each, old[at])))
                continue
            a, b = old[index - (came and index > at)], new[index - (went and index > at)]
            expected += [("-U", (*each, a)), ("+U", (*each, b))] if a != b else []
    made = call(function, *([] if function == "ROW_NUMBER" else [0]), type_=bigint())
    spec = OverAggregateSpec(calls=(made,), frame=OverFrame(is_rows), order=(SortField(2),), changes=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changing, "_MOST_PAIRS", most)
        assert run(spec, BIDS, ("item",), events, cuts, 7) == expected
