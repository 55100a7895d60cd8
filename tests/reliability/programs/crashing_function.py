"""A function that ends the process it runs in: ``crashing_function.py segfault|exit``."""

from __future__ import annotations

import ctypes
import functools
import os
import sys

from headrace.datastream import StreamExecutionEnvironment


def parse(how: str, number: int) -> int:
    if number == 7 and how == "exit":
        os._exit(3)
    if number == 7:
        ctypes.string_at(0)
    return number


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    parse_it = functools.partial(parse, sys.argv[1])
    env.from_collection(list(range(10))).map(parse_it, output_type=int).print()
    env.execute("crashes")


if __name__ == "__main__":
    main()
