"""Temporal joins, beside a model that handles record by record."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.common.logical_types import AtomicType, TypeRoot
from headrace.common.typeinfo import RowTypeInfo
from headrace.common.typeinfo.types import type_of_logical
from headrace.graph.join_specs import TemporalJoinSpec
from headrace.operators.join.results import JoinType
from tests.draws import draws
from tests.operators.changelog.driven import Event, run

TIME = type_of_logical(AtomicType(TypeRoot.BIGINT))
TYPE = RowTypeInfo((Types.INT(), TIME, Types.INT()), ("k", "t", "v"))
SPEC = TemporalJoinSpec(
    join_type=JoinType.LEFT, names=("k", "t", "v", "k0", "t0", "v0"), strict_keys=((0,), (0,)), time_fields=(1, 1)
)
Row = tuple[Any, ...]


class Model:
    """Rows that wait, and versions by key and time."""

    def __init__(self) -> None:
        self.watermark = -1
        self.waiting: list[tuple[Row, int]] = []
        self.versions: dict[tuple[int, int], tuple[str, Row]] = {}
        self.emitted: list[Row] = []

    def process(self, event: Any) -> None:
        if isinstance(event, int):
            self.advance(event)
            return
        symbol, row, side = event
        if side:
            self.versions[row[0], row[1]] = symbol, row
        else:
            self.waiting.append((row, self.watermark))

    def advance(self, watermark: int) -> None:
        if watermark <= self.watermark:
            return
        self.watermark = watermark
        due = [row for row, _ in self.waiting if row[1] <= watermark]
        self.waiting = [pair for pair in self.waiting if pair[0][1] > watermark]
        self.emitted += [(*row, *self.version(row)) for row in due]
        for key, time in [*self.versions]:
            if any(key == other and time < later <= watermark for other, later in self.versions):
                del self.versions[key, time]

    def version(self, row: Row) -> Row:
        found = [time for key, time in self.versions if key == row[0] and time <= row[1]]
        symbol, version = self.versions[row[0], max(found)] if found else ("-D", ())
        return (None, None, None) if symbol == "-D" else version


ROWS = st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 3))
RECORDS = st.tuples(st.sampled_from(["+I", "+U", "-D"]), ROWS, st.just(1)) | st.tuples(st.just("+I"), ROWS, st.just(0))
EVENTS = st.lists(RECORDS | st.integers(0, 15), max_size=40)


@settings(max_examples=draws(120))
@given(events=EVENTS, cuts=st.sets(st.integers(0, 40)))
def test_each_row_has_the_version_of_its_time(events: list[Event], cuts: set[int]) -> None:
    model = Model()
    for event in [*events, 100]:
        model.process(event)
    found = run(SPEC, TYPE, ("k",), [*events, 100], sorted(cuts), inputs=2)
    assert {kind for kind, _ in found} <= {"+I"}
    assert sorted((row for _, row in found), key=str) == sorted(model.emitted, key=str)
