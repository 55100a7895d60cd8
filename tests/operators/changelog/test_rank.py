"""The first rows of each key: the changes that one record at a time gives, whatever the batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.graph.changelog_specs import RankSpec
from headrace.operators.changelog.order import RankRange, RankStrategy, SortField
from tests.draws import draws
from tests.operators.changelog.driven import run

BIDS = Types.ROW_NAMED(["id", "item", "price"], [Types.INT(), Types.STRING(), Types.INT()])
DEAREST = (SortField(2, is_descending=True),)
FIRST_BIDS = [
    (1, "a", 10), (2, "b", 4), (3, "a", 20), (4, "a", 15), (5, None, 1), (6, "b", 4),
    (7, "a", None), (8, "a", 30), (9, "b", 9), (10, "a", 20), (11, "a", 12), (12, "b", 1),
]  # fmt: skip


def ranked(ranks: RankRange, events: list[Any], strategy: RankStrategy = RankStrategy.APPEND, **more: Any) -> list[Any]:
    spec = RankSpec(order=DEAREST, ranks=ranks, strategy=strategy, **more)
    return run(spec, BIDS, ("item",), events)


def appended(rows: list[tuple[Any, ...]]) -> list[Any]:
    return [("+I", row) for row in rows]


def test_each_rank_that_changes_is_emitted_from_the_first_down() -> None:
    assert ranked(RankRange(1, 2, shows_rank=True), appended(FIRST_BIDS)) == [
        ("+I", (1, "a", 10, 1)), ("+I", (2, "b", 4, 1)), ("-U", (1, "a", 10, 1)), ("+U", (3, "a", 20, 1)),
        ("+I", (1, "a", 10, 2)), ("-U", (1, "a", 10, 2)), ("+U", (4, "a", 15, 2)), ("+I", (5, None, 1, 1)),
        ("+I", (6, "b", 4, 2)), ("-U", (3, "a", 20, 1)), ("+U", (8, "a", 30, 1)), ("-U", (4, "a", 15, 2)),
        ("+U", (3, "a", 20, 2)), ("-U", (2, "b", 4, 1)), ("+U", (9, "b", 9, 1)), ("-U", (6, "b", 4, 2)),
        ("+U", (2, "b", 4, 2)),
    ]  # fmt: skip


def test_without_a_rank_rows_come_and_drive_others_out() -> None:
    assert ranked(RankRange(1, 2), appended(FIRST_BIDS)) == [
        ("+I", (1, "a", 10)), ("+I", (2, "b", 4)), ("+I", (3, "a", 20)), ("-D", (1, "a", 10)), ("+I", (4, "a", 15)),
        ("+I", (5, None, 1)), ("+I", (6, "b", 4)), ("-D", (4, "a", 15)), ("+I", (8, "a", 30)), ("-D", (6, "b", 4)),
        ("+I", (9, "b", 9)),
    ]  # fmt: skip


def test_the_only_row_is_updated() -> None:
    assert ranked(RankRange(1, 1), appended(FIRST_BIDS)) == [
        ("+I", (1, "a", 10)), ("+I", (2, "b", 4)), ("-U", (1, "a", 10)), ("+U", (3, "a", 20)), ("+I", (5, None, 1)),
        ("-U", (3, "a", 20)), ("+U", (8, "a", 30)), ("-U", (2, "b", 4)), ("+U", (9, "b", 9)),
    ]  # fmt: skip


def test_ranks_behind_the_first_change_without_being_shown() -> None:
    assert ranked(RankRange(2, 3), appended(FIRST_BIDS))[:5] == [
        ("+I", (1, "a", 10)), ("-U", (1, "a", 10)), ("+U", (4, "a", 15)), ("+I", (1, "a", 10)), ("+I", (6, "b", 4)),
    ]  # fmt: skip


def test_a_row_that_goes_lets_others_move_up() -> None:
    events = [
        ("+I", (1, "a", 10)), ("+I", (2, "a", 20)), ("+I", (3, "a", 15)), ("-U", (1, "a", 10)), ("+U", (1, "a", 25)),
        ("-D", (2, "a", 20)), ("-D", (9, "a", 1)),
    ]  # fmt: skip
    assert ranked(RankRange(1, 2), events, RankStrategy.RETRACT) == [
        ("+I", (1, "a", 10)), ("+I", (2, "a", 20)), ("-D", (1, "a", 10)), ("+I", (3, "a", 15)), ("-D", (3, "a", 15)),
        ("+I", (1, "a", 25)), ("-D", (2, "a", 20)), ("+I", (3, "a", 15)),
    ]  # fmt: skip


@dataclass
class Model:
    """Ranks one record at a time, in plain Python."""

    ranks: RankRange
    strategy: RankStrategy
    held: dict[Any, list[tuple[Any, ...]]] = field(default_factory=dict)
    made: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)

    def handle(self, symbol: str, row: tuple[Any, ...]) -> None:
        own = self.held.setdefault(row[1], [])
        before, came, went = own[: self.ranks.end], False, False
        if symbol in ("-U", "-D"):
            if row not in own:
                return
            own.remove(row)
        else:
            if self.strategy is RankStrategy.UPDATE:
                olds = [each for each in own if each[0] == row[0]]
                went = bool(olds)
                self.held[row[1]] = own = [each for each in own if each[0] != row[0]]
            place = sum(key_of(each) >= key_of(row) for each in own)
            own.insert(place, row)
            came = place < (self.ranks.end or 0)
            if self.strategy is not RankStrategy.RETRACT:
                del own[self.ranks.end :]
        gone = next((each for each in before if went and each[0] == row[0]), None)
        self.emit(before, own[: self.ranks.end], gone, is_same=came and went)

    def emit(self, before: list[Any], after: list[Any], gone: Any, *, is_same: bool) -> None:
        if self.ranks.by_rank:
            found: list[tuple[str, Any, int]] = []
            for rank in range(1, max(len(before), len(after)) + 1):
                old, new = (rows[rank - 1] if rank <= len(rows) else None for rows in (before, after))
                if old is not new:
                    found += [("-D" if new is None else "-U", old, rank)] if old is not None else []
                    found += [("+I" if old is None else "+U", new, rank)] if new is not None else []
            moved = next((each for each in found if each[1] is gone and each[0] == "-U"), None)
            if moved is not None and len(found) > 2 and found.index(moved):
                found.remove(moved)
                found.insert(1, moved)
            for symbol, row, rank in found:
                if rank >= self.ranks.start:
                    self.made.append((symbol, (*row, rank) if self.ranks.shows_rank else row))
            return
        old = [row for row in before if not any(row is each for each in after)]
        new = [row for row in after if not any(row is each for each in before)]
        updates = self.strategy is not RankStrategy.RETRACT and old and new and (self.ranks.end == 1 or is_same)
        self.made += [("-U" if updates else "-D", row) for row in old]
        self.made += [("+U" if updates else "+I", row) for row in new]


def key_of(row: tuple[Any, ...]) -> Any:
    return (row[2] is not None, row[2] or 0)


@st.composite
def bids(draw: st.DrawFn, strategy: RankStrategy) -> list[Any]:
    events: list[Any] = []
    held: list[Any] = []
    for number in range(draw(st.integers(0, 40))):
        if strategy is RankStrategy.RETRACT and held and draw(st.integers(0, 2)) == 0:
            # A row may be retracted more often than it has come, which changes nothing.
            row = held[-1] if draw(st.integers(0, 9)) == 0 else held.pop(draw(st.integers(0, len(held) - 1)))
            events.append((draw(st.sampled_from(["-U", "-D"])), row))
            continue
        price = draw(st.none() | st.integers(0, 5))
        ident = number if strategy is RankStrategy.APPEND else draw(st.integers(0, 3))
        if strategy is RankStrategy.UPDATE:
            price = 1000 + number if draw(st.booleans()) else number
        row = (ident, draw(st.sampled_from(["a", "b", None])), price)
        held.append(row)
        events.append(("+I", row))
    return events


@pytest.mark.parametrize("strategy", RankStrategy)
@settings(max_examples=draws(12), deadline=None)
@given(data=st.data())
def test_changes_are_those_of_one_record_at_a_time(strategy: RankStrategy, data: st.DataObject) -> None:
    start = data.draw(st.integers(1, 2))
    ranks = RankRange(start, start + data.draw(st.integers(0, 2)), shows_rank=data.draw(st.booleans()))
    events = data.draw(bids(strategy))
    model = Model(ranks, strategy)
    for symbol, row in events:
        model.handle(symbol, tuple(row))
    spec = RankSpec(order=DEAREST, ranks=ranks, strategy=strategy, unique_key=(0,))
    cuts = data.draw(st.lists(st.integers(0, 40), max_size=3))
    assert run(spec, BIDS, ("item",), events, cuts, data.draw(st.integers(1, 9))) == model.made
