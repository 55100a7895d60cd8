"""Rows of a table whose key is not that of the query: the last one, or the first one that is left at a watermark."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.graph.changelog_specs import UpsertMaterializeSpec
from headrace.operators.user_code import UserFunctionError
from tests.draws import draws
from tests.operators.changelog.driven import run

ROWS = Types.ROW_NAMED(["key", "id", "n"], [Types.STRING(), Types.INT(), Types.INT()])


def _spec(conflict: str, unique_key: tuple[int, ...] = ()) -> UpsertMaterializeSpec:
    return UpsertMaterializeSpec(key_fields=(0,), unique_key=unique_key, conflict=conflict)


def _modelled(events: list[Any], unique_key: tuple[int, ...]) -> list[Any]:
    """What ``DO NOTHING`` emits of one key."""
    emitted: list[Any] = []
    current: Any = None
    changes: list[tuple[bool, Any]] = []
    for event in [*events, 10**6]:
        if not isinstance(event, int):
            change = event[0] in ("-U", "-D"), event[1]
            pair = (not change[0], change[1])
            changes.remove(pair) if pair in changes else changes.append(change)
            continue
        rows = [] if current is None else [current]
        for retracts, row in changes:
            same = [each for each in rows if all(each[i] == row[i] for i in unique_key or range(3))]
            if retracts:
                rows = [each for each in rows if not same or each is not same[0]]
            elif unique_key and same:
                rows = [row if each is same[0] else each for each in rows]
            else:
                rows.append(row)
        changes = []
        after = current if len(rows) > 1 and current is not None else rows[0] if rows else None
        if after != current:
            kind = "-D" if after is None else "+I" if current is None else "+U"
            emitted.append((kind, current if after is None else after))
        current = after
    return emitted


def _last_rows(events: list[Any], unique_key: tuple[int, ...]) -> list[Any]:
    """What ``DO DEDUPLICATE`` emits, one record at a time."""
    emitted: list[Any] = []
    held: dict[str, list[Any]] = {}
    for kind, row in events:
        rows = held.setdefault(row[0], [])
        place = next(
            (at for at, each in enumerate(rows) if all(each[i] == row[i] for i in unique_key or range(3))), None
        )
        if kind in ("+I", "+U"):
            emitted.append(("+U" if rows else "+I", row))
            if place is None or not unique_key:
                rows.append(row)
            else:
                rows[place] = row
        elif place is not None:
            del rows[place]
            if not rows:
                emitted.append(("-D", row))
            elif place == len(rows):
                emitted.append(("+U", rows[-1]))
    return emitted


@settings(max_examples=draws(20), deadline=None)
@given(
    drawn=st.lists(
        st.tuples(
            st.sampled_from(["+I", "-U", "+U", "-D"]),
            st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3), st.integers(0, 2)),
        ),
        max_size=40,
    ),
    cuts=st.lists(st.integers(0, 40), max_size=3),
    unique_key=st.sampled_from([(), (1,)]),
)
def test_the_last_row_that_is_left_is_shown(drawn: list[Any], cuts: list[int], unique_key: tuple[int, ...]) -> None:
    found = run(_spec("DEDUPLICATE", unique_key), ROWS, ("key",), drawn, cuts, 7)
    assert found == _last_rows(drawn, unique_key)


@settings(max_examples=draws(15), deadline=None)
@given(
    drawn=st.lists(
        st.one_of(
            st.just(None),
            st.tuples(st.sampled_from(["+I", "-U", "+U", "-D"]), st.integers(0, 2), st.integers(0, 1)),
        ),
        max_size=20,
    ),
    cuts=st.lists(st.integers(0, 20), max_size=3),
    unique_key=st.sampled_from([(), (1,)]),
)
def test_the_first_row_that_is_left_stays(drawn: list[Any], cuts: list[int], unique_key: tuple[int, ...]) -> None:
    events = [time if each is None else (each[0], ("a", *each[1:])) for time, each in enumerate(drawn)]
    assert run(_spec("NOTHING", unique_key), ROWS, ("key",), [*events, 10**6], cuts) == _modelled(events, unique_key)


def test_several_rows_of_a_key_are_an_error() -> None:
    moved: list[Any] = [("+I", ("a", 1, 5)), 1, ("-U", ("a", 1, 5)), ("+I", ("a", 2, 6)), 2]
    assert run(_spec("ERROR"), ROWS, ("key",), moved) == [("+I", ("a", 1, 5)), ("+U", ("a", 2, 6))]
    with pytest.raises(UserFunctionError, match=r"several different rows have the key \[key=a\]"):
        run(_spec("ERROR"), ROWS, ("key",), [*moved, ("+I", ("a", 3, 6)), 3])
