"""Expectations of the rows of a changelog: what takes a row back goes where the row went, and is no violation."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.common import Types
from headrace.expressions import bind, col
from headrace.graph.row_specs import ExpectationSpec
from headrace.operators.expectations import OnViolation
from headrace.operators.user_code import UserFunctionError
from tests.operators.changelog.driven import run

ROWS = Types.ROW_NAMED(["key", "n"], [Types.STRING(), Types.INT()])
CHANGES = [("+I", ("a", 1)), ("-U", ("a", 1)), ("+U", ("a", -1)), ("-D", ("a", -1)), ("-D", ("b", None))]


def changes(on_violation: OnViolation, events: list[Any], *, has_upserts: bool = False) -> list[Any]:
    spec = ExpectationSpec("positive", bind(col("n") > 0, ROWS), on_violation, has_upserts=has_upserts)
    return run(spec, ROWS, ("key",), events)


def test_what_takes_back_a_row_that_was_left_out_is_left_out() -> None:
    assert changes(OnViolation.DROP, CHANGES) == CHANGES[:2]


def test_deletions_among_upserts_go_on() -> None:
    upserts = [CHANGES[0], *CHANGES[2:]]
    assert changes(OnViolation.DROP, upserts, has_upserts=True) == [CHANGES[0], *CHANGES[3:]]


@pytest.mark.parametrize("has_upserts", [True, False])
def test_what_takes_back_a_row_is_no_violation(has_upserts: bool) -> None:
    back = [("-U", ("a", -1)), ("-D", ("b", None))]
    assert changes(OnViolation.FAIL, back, has_upserts=has_upserts) == back
    with pytest.raises(UserFunctionError, match=r"record: .*key='c', n=-7"):
        changes(OnViolation.FAIL, [*back, ("+U", ("c", -7))], has_upserts=has_upserts)
