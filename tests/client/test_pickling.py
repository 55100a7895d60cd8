"""What of a program cannot be pickled is named: the operator, and the variable of which function."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import MagicMock

import pytest

from headrace.common import Configuration
from headrace.common.errors import InvalidProgramError
from headrace.datastream import DataStream, StreamExecutionEnvironment
from headrace.datastream.functions import MapFunction

LOCK = threading.Lock()


def numbers() -> DataStream:
    configuration = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"})
    return StreamExecutionEnvironment.get_execution_environment(configuration).from_collection([1, 2])


def refusal(stream: DataStream) -> list[str]:
    stream.print()
    with pytest.raises(InvalidProgramError) as refused:
        stream.get_execution_environment().execute()
    return str(refused.value).splitlines()


def holder(stream: DataStream) -> str:
    lines = refusal(stream)
    assert lines[0].endswith("cannot travel to the tasks")
    assert lines[1].lstrip().startswith("TypeError: cannot pickle")
    assert len(lines) == 5
    return lines[2].strip()


def at(function: Callable[..., Any]) -> str:
    return f"{function.__name__} ({__file__}:{function.__code__.co_firstlineno}) holds it as "


def test_a_variable_of_a_closure() -> None:
    lock = threading.Lock()

    def count(value: Any) -> Any:
        with lock:
            return value or later

    assert holder(numbers().map(count)) == at(count) + "lock"
    later = 1


def test_a_global_variable_also_inside_a_comprehension() -> None:
    names: dict[str, Any] = {"__name__": "__main__", "LOCK": LOCK}
    exec("def count(value):\n    return [LOCK for _ in range(value)]\n", names)
    assert holder(numbers().map(names["count"])) == "count (<string>:1) holds it as LOCK"


def test_a_default_value() -> None:
    def count(value: Any, one: int = 1, lock: Any = LOCK, *, other: Any = None) -> Any:
        return value

    assert holder(numbers().map(count)) == at(count) + "default 1"


class Connected(MapFunction):
    def __init__(self, connections: Any) -> None:
        self.name = "x" * 1000
        self.connections = connections

    def map(self, value: Any) -> Any:
        return value


@dataclass(slots=True)
class Pool:
    size: int
    members: list[Any] = field(default_factory=list)


@pytest.mark.parametrize(
    ("connections", "path"),
    [
        (LOCK, "connections"),
        ({"a": [1, (LOCK, 2)]}, "connections['a'][1][0]"),
        (Pool(2, [1, LOCK]), "connections.members[1]"),
    ],
    ids=["field", "nested", "slots"],
)
def test_a_field_of_a_function_object(connections: Any, path: str) -> None:
    assert holder(numbers().map(Connected(connections))) == f"Connected holds it as {path}"


def test_a_cycle_has_an_end() -> None:
    connections: list[Any] = [LOCK]
    connections.insert(0, connections)
    assert holder(numbers().map(Connected(connections))) == "Connected holds it as connections[1]"


def test_a_partial_and_a_key_function() -> None:
    def keep(lock: Any, value: Any) -> Any:
        return value

    expected = at(keep) + "its arguments[0]"
    assert holder(numbers().map(functools.partial(keep, LOCK))) == expected

    def account(value: Any) -> Any:
        return LOCK, records, value

    records = (value for value in ())
    assert holder(numbers().key_by(account).map(lambda value: value)) == at(account) + "records"


class Lost:
    """Looks for its fields in a field, which is not there yet while it is unpickled."""

    def __init__(self) -> None:
        self.fields = {"scale": 2}

    def __getattr__(self, name: str) -> Any:
        if name not in self.fields:
            raise AttributeError(name)
        return self.fields[name]

    def __call__(self, value: int) -> int:
        return value * self.fields["scale"]


@pytest.mark.parametrize("function", [MagicMock(return_value=3), Lost()], ids=["mock", "lost"])
def test_what_can_be_pickled_but_not_unpickled(function: Any) -> None:
    lines = refusal(numbers().map(function))
    assert lines[0].endswith("cannot travel to the tasks")
    assert lines[1].startswith("  RecursionError: ")
    assert lines[-1].startswith("  operator defined at ")
    assert len(lines) <= 5


class Odd:
    """Its own ``__reduce__`` raises."""

    def __reduce__(self) -> Any:
        raise RuntimeError("no")


def test_what_refuses_by_itself() -> None:
    odd = Odd()

    def count(value: Any) -> Iterator[Any]:
        yield odd

    lines = refusal(numbers().flat_map(count))
    assert lines[1:3] == ["  RuntimeError: no", f"  {at(count)}odd"]
