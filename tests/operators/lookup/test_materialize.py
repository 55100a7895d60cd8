"""What lookup joins found of rows is what is taken back with them, whatever the table has by then."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.common import Types
from headrace.common.typeinfo import RowTypeInfo
from headrace.graph.changelog_specs import LookupMaterializeSpec
from tests.operators.changelog.driven import run

GIVEN = RowTypeInfo((Types.INT(), Types.STRING(), Types.STRING(), Types.LONG()), ("id", "v", "name", "number"))
RESULT = RowTypeInfo((Types.INT(), Types.STRING(), Types.STRING()), ("id", "v", "name"))

Change = tuple[str, tuple[Any, ...]]
Found = tuple[str, int, str, list[str]]
"""The kind of a change, its row, and what was found of it."""

SOME = st.tuples(
    st.sampled_from(["+I", "-U", "+U", "-D"]),
    st.integers(0, 2),
    st.sampled_from("xy"),
    st.lists(st.sampled_from("abc"), max_size=3),
)


def joined(changes: list[Found]) -> list[Any]:
    """The rows of a lookup join for changes: retractions are not looked up."""
    rows: list[Any] = []
    for kind, key, value, names in changes:
        if kind in ("-U", "-D") or not names:
            rows.append((kind, (key, value, None, None)))
        else:
            rows += [(kind, (key, value, name, number)) for number, name in enumerate(names, 1)]
    return rows


def model(changes: list[Found], *, keeps_empty: bool) -> list[Change]:
    """What comes of changes one by one."""
    kept: dict[int, list[str]] = {}
    made: list[Change] = []
    for kind, key, value, found in changes:
        before = kept.pop(key, [])
        names = before if kind in ("-U", "-D") else found
        if names is found and found:
            kept[key] = found
        made += [(kind, (key, value, name)) for name in names]
        if not names and keeps_empty:
            made.append((kind, (key, value, None)))
    return made


@pytest.mark.parametrize("keeps_empty", [False, True])
@given(changes=st.lists(SOME, max_size=12), cuts=st.lists(st.integers(0, 20), max_size=3), size=st.integers(1, 30))
def test_operator_equals_model(changes: list[Found], cuts: list[int], size: int, keeps_empty: bool) -> None:
    spec = LookupMaterializeSpec(output_type=RESULT, width=2, keeps_empty=keeps_empty)
    events = joined(changes)
    starts = [at for at, (_, row) in enumerate(events) if (row[3] or 1) == 1]  # rows of one row come together
    whole = [starts[cut % len(starts)] for cut in cuts] if starts else []
    assert run(spec, GIVEN, ("id",), events, whole, size) == model(changes, keeps_empty=keeps_empty)
