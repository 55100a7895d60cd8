"""Records as messages: headers and partitions that the program gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.common import SimpleStringSchema, Types
from headrace.common.batch import Batch
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.messages import array_to_headers, checked_headers, headers_to_array
from headrace.connectors.messages import MessageSerializationSchema, OutgoingMessages, encode_messages

TEXTS = SimpleStringSchema()
PARTITIONS = {"even": 4, "odd": 2}

names = st.text(max_size=3).filter(lambda name: name.isprintable())
pairs = st.lists(st.tuples(names, st.none() | st.binary(max_size=3)), max_size=3)


def encoded(schema: MessageSerializationSchema, records: list[Any], rejected: list[Any] | None = None) -> Any:
    """The messages of records; those that are refused come into the list."""
    reject = None if rejected is None else lambda record, error: rejected.append((record, str(error)))
    batch = Batch.of_rows(Types.STRING(), records, [0] * len(records), [0] * len(records))
    return list(encode_messages(schema, reject, lambda _: None, PARTITIONS.__getitem__, batch))


def headers_of(messages: OutgoingMessages) -> list[Any]:
    assert messages.headers is not None
    return array_to_headers(messages.headers)


@given(st.lists(st.none() | pairs))
def test_headers_are_a_column_and_headers_again(rows: list[Any]) -> None:
    column = headers_to_array([None if row is None else checked_headers(row) for row in rows])
    assert array_to_headers(column) == [row or None for row in rows]


def test_headers_are_pairs_or_a_mapping_or_nothing() -> None:
    given_for = {"a": [("n", b"1"), ("n", None)], "b": {"m": b"\xff"}, "c": None, "d": ()}
    schema = MessageSerializationSchema("even", TEXTS, headers=given_for.get)
    (messages,) = encoded(schema, ["a", "b", "c", "d"])
    assert headers_of(messages) == [[("n", b"1"), ("n", None)], [("m", b"\xff")], None, None]
    assert messages.partitions is None


def test_headers_and_partitions_go_with_their_record_where_topics_differ() -> None:
    asked = []

    def partition(record: str, key: bytes | None, value: bytes | None, topic: str, partitions: Any) -> int:
        asked.append((record, key, value, topic, list(partitions)))
        return partitions[-1]

    schema = MessageSerializationSchema(
        lambda text: "odd" if int(text) % 2 else "even",
        TEXTS,
        TEXTS,
        headers=lambda text: {"number": text.encode()},
        partitioner=partition,
    )
    even, odd = encoded(schema, ["2", "3", "4", "5"])
    assert (even.topic, headers_of(even)) == ("even", [[("number", b"2")], [("number", b"4")]])
    assert (odd.topic, headers_of(odd)) == ("odd", [[("number", b"3")], [("number", b"5")]])
    assert even.partitions.tolist() == [3, 3]
    assert odd.partitions.tolist() == [1, 1]
    assert asked[2:] == [("3", b"3", b"3", "odd", [0, 1]), ("5", b"5", b"5", "odd", [0, 1])]


def test_a_partitioner_may_give_what_numpy_computes() -> None:
    schema = MessageSerializationSchema("even", TEXTS, partitioner=lambda text, *_: np.int64(text) % 4)
    (messages,) = encoded(schema, ["6", "7"])
    assert messages.partitions.tolist() == [2, 3]


@pytest.mark.parametrize("wrong", [4, -1, True, None, "0", 1.0])
def test_a_partition_that_there_is_not_is_the_fault_of_the_record(wrong: Any) -> None:
    schema = MessageSerializationSchema("even", TEXTS, partitioner=lambda text, *_: wrong if text == "x" else 0)
    rejected: list[Any] = []
    assert sum(len(messages) for messages in encoded(schema, ["a", "x", "b"], rejected)) == 2
    ((record, reason),) = rejected
    assert record == "x"
    assert f"the partitioner gave {wrong!r}, and topic even has the partitions 0 to 3" in reason
    with pytest.raises(InvalidTypeError, match="return one of those that it is given"):
        encoded(schema, ["x"])


@pytest.mark.parametrize("wrong", [7, ["name"], [("name", "text")], {"name": 1}, [(b"name", b"")], [("\ud800", b"")]])
def test_headers_that_there_cannot_be_are_the_fault_of_the_record(wrong: Any) -> None:
    schema = MessageSerializationSchema("even", TEXTS, headers=lambda text: wrong if text == "x" else None)
    rejected: list[Any] = []
    assert sum(len(messages) for messages in encoded(schema, ["a", "x", "b"], rejected)) == 2
    ((record, reason),) = rejected
    assert record == "x"
    assert "header" in reason


@pytest.mark.parametrize("name", ["headers", "partitioner"])
def test_what_is_no_function_is_told(name: str) -> None:
    with pytest.raises(InvalidTypeError, match=f"{name} is a function of the record, not 'x'") as caught:
        MessageSerializationSchema("even", TEXTS, **{name: "x"})  # type: ignore[arg-type]
    assert isinstance(caught.value, InvalidProgramError)
