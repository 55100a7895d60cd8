"""Branches that meet in front of a shuffle are sent as one, yet an error names the branch that the record came by."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.common import Configuration, Types
from headrace.common.errors import UserFunctionError
from headrace.datastream import StreamExecutionEnvironment

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


def not_negative(pair: tuple[str, int]) -> str:
    if pair[1] < 0:
        raise ValueError("negative")
    return pair[0]


def first(pair: tuple[str, int]) -> str:
    return pair[0]


@pytest.mark.parametrize(
    ("key", "made", "reason"),
    [(not_negative, ("b", -1), "ValueError: negative"), (first, ("b", "one"), "expected an int")],
)
def test_of_a_key_function_and_of_a_wrong_type(key: Any, made: Any, reason: str) -> None:
    configuration = Configuration().set_string("headrace.runtime", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    plain = env.from_collection([("a", 1)], PAIR)
    changed = plain.map(lambda pair: made, PAIR).name("changed")
    with pytest.raises(UserFunctionError, match=f"operator 'changed'(.|\n)*{reason}"):
        list(plain.union(changed).key_by(key).sum(1).execute_and_collect())
