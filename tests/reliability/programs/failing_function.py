"""A function that fails for one record, on both sides of a shuffle.

failing_function.py WHERE
"""

from __future__ import annotations

import sys

from headrace.common import Types
from headrace.datastream import StreamExecutionEnvironment

PLACE = sys.argv[1]


def divide(number: int) -> int:
    return 100 // (number - 7)


def same(number: int) -> int:
    return number


env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_sequence(1, 20).map(divide if PLACE == "first" else same, Types.LONG()).name("before").uid("first")
keyed = numbers.key_by(lambda number: number % 3, Types.LONG())
keyed.map(divide if PLACE == "second" else same, Types.LONG()).name("behind").uid("second").print()
env.execute("failing")
