"""Several joins as one operator, beside a model that handles record by record as Flink's operator does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.graph.join_specs import MultiJoinSpec
from headrace.operators.join.regular.definition import SideState
from headrace.table.evaluation import ExpressionCompiler
from headrace.table.logical.scalars import BOOLEAN, Call, InputRef, all_of
from tests.draws import draws
from tests.operators.changelog.driven import Driven, Event, run
from tests.operators.join.test_regular_join import EVENTS, INT, NOTHING, STATES, TYPE, Row, Side

NAMES = tuple(f"{name}{number}" for number in range(3) for name in "kuv")


@dataclass(frozen=True)
class Case:
    """A join of three inputs.

    Attributes:
        states: how rows are kept.
        optional: which inputs are joined by ``LEFT JOIN``.
        keys: the input with whose key that of each input is compared.
        is_less: which inputs are joined with a further condition as well.
    """

    states: tuple[SideState, ...]
    optional: tuple[bool, ...]
    keys: tuple[int, ...]
    is_less: tuple[bool, ...]

    def holds(self, joined: tuple[Row, ...], row: Row) -> bool:
        side = len(joined)
        if not side:
            return True
        key, before = joined[self.keys[side]][0], joined[0][2]
        if key is None or key != row[0]:
            return False
        return not self.is_less[side] or (before is not None and row[2] is not None and before < row[2])

    @property
    def spec(self) -> MultiJoinSpec:
        return MultiJoinSpec(
            names=NAMES,
            states=self.states,
            optional=self.optional,
            conditions=(None, *(ExpressionCompiler(str).compile(all_of(self._conditions(side))) for side in (1, 2))),
        )

    def _conditions(self, side: int) -> Iterator[Call]:
        yield _compared("=", 3 * self.keys[side], 3 * side)
        if self.is_less[side]:
            yield _compared("<", 2, 3 * side + 2)


def _compared(function: str, left: int, right: int) -> Call:
    return Call(function, (InputRef(left, type=INT), InputRef(right, type=INT)), type=BOOLEAN)


@dataclass
class Model:
    case: Case
    sides: tuple[Side, ...]
    emitted: list[tuple[str, Row]] = field(default_factory=list)

    def process(self, symbol: str, row: Row, number: int) -> None:
        adds, side = symbol in ("+I", "+U"), self.sides[number]
        if not adds:
            side.retract(row)
        self._rest((), symbol, row, number)
        if adds:
            side.add(row, 0)

    def _rest(self, joined: tuple[Row, ...], symbol: str, row: Row, number: int) -> None:
        side = len(joined)
        if side == len(self.sides):
            self.emitted.append((symbol, sum(joined, ())))
            return
        others = list(self._matches(joined, row[0]))
        if side != number:
            for other in others:
                self._rest((*joined, other), symbol, row, number)
            if not others and self.case.optional[side]:
                self._rest((*joined, NOTHING), symbol, row, number)
        elif self.case.holds(joined, row):
            turns, adds = self.case.optional[side] and not others, symbol in ("+I", "+U")
            if turns and adds:
                self._rest((*joined, NOTHING), "-D", row, number)
            self._rest((*joined, row), symbol, row, number)
            if turns and not adds:
                self._rest((*joined, NOTHING), "+I", row, number)

    def _matches(self, joined: tuple[Row, ...], key: Any) -> Iterator[Row]:
        """The rows of the next input, which has the one that an insertion replaces."""
        return (found[0] for found in self.sides[len(joined)].of(key) if self.case.holds(joined, found[0]))


FLAGS = st.tuples(st.just(False), st.booleans(), st.booleans())
CASES = st.builds(
    Case,
    st.tuples(STATES, STATES, STATES),
    FLAGS,
    st.tuples(st.just(0), st.just(0), st.integers(0, 1)),
    FLAGS,
)


@settings(max_examples=draws(180))
@given(
    case=CASES,
    events=EVENTS.flatmap(
        lambda events: st.lists(st.integers(0, 2), min_size=len(events), max_size=len(events)).map(
            lambda sides: [(*event[:2], side) for event, side in zip(events, sides, strict=True)]
        )
    ),
    cuts=st.sets(st.integers(0, 60)),
)
def test_the_changelog_is_that_of_one_record_after_the_other(case: Case, events: list[Any], cuts: set[int]) -> None:
    model = Model(case, tuple(map(Side, case.states)))
    for symbol, row, number in events:
        model.process(symbol, row, number)
    assert run(case.spec, TYPE, ("k",), events, sorted(cuts), inputs=3) == model.emitted


def test_rows_of_joins_in_between_are_not_kept() -> None:
    case = Case((SideState(),) * 3, (False, False, False), (0, 0, 0), (False, False, False))
    driven = Driven(case.spec, TYPE, ("k",), inputs=3)
    events: list[Event] = [("+I", (1, place, 0), side) for side in range(3) for place in range(10)]
    driven.epoch(events)
    assert len(driven.changes()) == 1000
