"""Joins of changelogs, beside a model that handles record by record as Flink's operators do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.common.logical_types import AtomicType, TypeRoot
from headrace.common.typeinfo import RowTypeInfo
from headrace.graph.join_specs import RegularJoinSpec
from headrace.operators.binary_rows import buckets, hashes_of
from headrace.operators.join.regular.definition import SideState, Uniqueness
from headrace.operators.join.results import JoinType
from headrace.table.evaluation import ExpressionCompiler
from headrace.table.logical.scalars import BOOLEAN, Call, InputRef
from tests.draws import draws
from tests.operators.changelog.driven import Driven, Event, run

INT = AtomicType(TypeRoot.INTEGER)
TYPE = RowTypeInfo((Types.INT(), Types.INT(), Types.INT()), ("k", "u", "v"))
NAMES = ("k", "u", "v", "k0", "u0", "v0")
LESS = ExpressionCompiler(str).compile(Call("<", (InputRef(2, type=INT), InputRef(5, type=INT)), type=BOOLEAN))
UNIQUE = SideState(Uniqueness.UNIQUE_KEY, (1,))
ONE = SideState(Uniqueness.ONE_ROW)
Row = tuple[Any, ...]
NOTHING: Row = (None, None, None)


@dataclass
class Side:
    """The rows of one input: by what tells them apart the row, how many there are, and how many matches each has."""

    state: SideState
    rows: dict[tuple[Any, Row], list[Any]] = field(default_factory=dict)

    def identity(self, row: Row) -> tuple[Any, Row]:
        unique = {Uniqueness.ONE_ROW: (), Uniqueness.UNIQUE_KEY: row[1:2], Uniqueness.NONE: row}
        return row[0], unique[self.state.uniqueness]

    def add(self, row: Row, matches: int) -> None:
        found = self.rows.setdefault(self.identity(row), [row, 0, 0])
        found[0], found[2] = row, matches
        found[1] = found[1] + 1 if self.state.uniqueness is Uniqueness.NONE else 1

    def retract(self, row: Row) -> None:
        identity = self.identity(row)
        if identity in self.rows:
            self.rows[identity][1] -= 1
            if not self.rows[identity][1]:
                del self.rows[identity]

    def of(self, key: Any) -> Iterator[list[Any]]:
        own = [entry for entry in self.rows if entry[0] == key and key is not None]
        columns = [pa.array(list(column), pa.int32()) for column in zip(*(entry[1] for entry in own), strict=True)]
        places = buckets(hashes_of(columns, len(own)), np.array([len(own)] * len(own)))
        for _, entry in sorted(zip(places.tolist(), own, strict=True), key=lambda pair: pair[0]):
            found = self.rows[entry]
            for _ in range(found[1]):
                yield found


@dataclass
class Model:
    kind: JoinType
    sides: tuple[Side, Side]
    has_condition: bool
    emitted: list[tuple[str, Row]] = field(default_factory=list)

    def process(self, symbol: str, row: Row, number: int) -> None:
        side, other = self.sides[number], self.sides[1 - number]
        found = [(each, each[2]) for each in other.of(row[0]) if self.holds(row, each[0], number)]
        adds = symbol in ("+I", "+U")
        if self.kind.gives_left_rows:
            self.filtered(symbol, row, number, found)
        else:
            self.joined(symbol, row, number, found)
        for each, matches in found:
            each[2] = matches + (1 if adds else -1)
        side.add(row, len(found)) if adds else side.retract(row)

    def holds(self, row: Row, other: Row, number: int) -> bool:
        left, right = (other, row) if number else (row, other)
        return not self.has_condition or (left[2] is not None and right[2] is not None and left[2] < right[2])

    def joined(self, symbol: str, row: Row, number: int, found: list[Any]) -> None:
        outer = (self.kind.outer.left, self.kind.outer.right)
        own, other, adds = outer[number], outer[1 - number], symbol in ("+I", "+U")
        if not found and own:
            self.emit("+I" if adds else "-D", row, NOTHING, number)
        for each, matches in found:
            if adds and other and not matches:
                self.emit("-D", NOTHING, each[0], number)
            given = ("+I" if own or other else symbol) if adds else ("-D" if own else symbol)
            self.emit(given, row, each[0], number)
            if not adds and other and matches == 1:
                self.emit("+I", NOTHING, each[0], number)

    def filtered(self, symbol: str, row: Row, number: int, found: list[Any]) -> None:
        is_anti, adds = self.kind is JoinType.ANTI, symbol in ("+I", "+U")
        if not number:
            if (not found) == is_anti:
                self.emitted.append((symbol, row))
            return
        for each, matches in found:
            if matches == (0 if adds else 1):
                self.emitted.append((("-D" if adds else "+I") if is_anti else symbol, each[0]))

    def emit(self, symbol: str, row: Row, other: Row, number: int) -> None:
        self.emitted.append((symbol, (*other, *row) if number else (*row, *other)))


def spec_of(kind: JoinType, states: tuple[SideState, SideState], *, has_condition: bool) -> RegularJoinSpec:
    condition = LESS if has_condition else None
    return RegularJoinSpec(join_type=kind, names=NAMES, condition=condition, strict_keys=((0,), (0,)), states=states)


VALUES = st.one_of(st.none(), st.integers(0, 3))
ROWS = st.tuples(VALUES, st.integers(0, 20), VALUES)
EVENTS = st.lists(st.tuples(st.sampled_from(["+I", "+I", "+U", "-U", "-D"]), ROWS, st.integers(0, 1)), max_size=60)
STATES = st.sampled_from([SideState(), SideState(), UNIQUE, ONE])


@pytest.mark.parametrize("kind", JoinType)
@settings(max_examples=draws(60))
@given(events=EVENTS, states=st.tuples(STATES, STATES), has_condition=st.booleans(), cuts=st.sets(st.integers(0, 60)))
def test_the_changelog_is_that_of_one_record_after_the_other(
    kind: JoinType, events: list[Event], states: tuple[SideState, SideState], has_condition: bool, cuts: set[int]
) -> None:
    model = Model(kind, (Side(states[0]), Side(states[1])), has_condition)
    for symbol, row, number in events:  # type: ignore[misc]
        model.process(symbol, row, number)
    spec = spec_of(kind, states, has_condition=has_condition)
    assert run(spec, TYPE, ("k",), events, sorted(cuts), inputs=2) == model.emitted


def test_rows_expire_by_the_time_to_live_of_their_input() -> None:
    states = SideState(ttl=10), SideState(ttl=100)
    driven = Driven(spec_of(JoinType.LEFT, states, has_condition=False), TYPE, ("k",), inputs=2)
    driven.epoch([("+I", (1, 0, 0), 0), ("+I", (1, 1, 0), 1)])
    driven.now = 11
    driven.epoch([("+I", (1, 2, 0), 1), ("+I", (1, 3, 0), 0)])
    pair = (1, 3, 0, 1, 1, 0), (1, 3, 0, 1, 2, 0)
    assert driven.changes()[:3] == [
        ("+I", (1, 0, 0, None, None, None)),
        ("-D", (1, 0, 0, None, None, None)),
        ("+I", (1, 0, 0, 1, 1, 0)),
    ]
    assert sorted(row for _, row in driven.changes()[3:]) == sorted(pair)
