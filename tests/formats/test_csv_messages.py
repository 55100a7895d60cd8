"""Messages of comma-separated values."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import CsvRowDeserializationSchema, CsvRowSerializationSchema, Row, Types
from headrace.common.columns import layout_of
from headrace.common.errors import BadRecordError, InvalidTypeError
from tests.connectors.harness import batch_of

PAIR = Types.ROW_NAMED(["id", "name"], [int, str])
reads, writes = CsvRowDeserializationSchema.Builder, CsvRowSerializationSchema.Builder


def read(schema: Any, messages: list[bytes | None]) -> tuple[list[Any], list[int], list[int]]:
    """The records, the message of each, and which messages are bad."""
    made = pickle.loads(pickle.dumps(schema)).deserialize_batch(pa.array(messages, pa.binary()))
    rows = layout_of(schema.get_produced_type()).columns_to_rows(made.columns)
    sources = list(range(len(messages))) if made.messages is None else made.messages.tolist()
    return rows, sources, [index for index, _ in made.rejected]


texts = st.one_of(st.text(max_size=6), st.sampled_from(['"', 'a,"b', "\n", "x\r\ny", "#", "\\", '\\"', "\r"]))


@pytest.mark.parametrize("escape", [None, "\\"])
@given(rows=st.lists(st.tuples(st.none() | st.integers(-9, 9), texts), max_size=6))
@settings(deadline=None, max_examples=20)
def test_what_is_written_is_read(escape: str | None, rows: list[tuple[Any, str]]) -> None:
    reader, writer = reads(PAIR), writes(PAIR)
    if escape is not None:
        reader, writer = reader.set_escape_character(escape), writer.set_escape_character(escape)
        rows = [(number, text.replace("\n", " ").replace("\r", " ")) for number, text in rows]
    messages = writer.build().serialize_batch(batch_of(PAIR, rows)).to_pylist()
    assert all(message.endswith(b"\n") for message in messages)
    expected = [Row(id=number, name=text) for number, text in rows]
    assert read(reader.build(), messages) == (expected, list(range(len(rows))), [])


GOOD = [b"7,x", b"7,x\r\n", b'7,"x"', b"7,x\n"]
BAD = [b"", b"\n", b"7", b"7,x,y", b"a,x", b'7,"x', b'x"', b"7,x\n7,x", b"\xff,x", b'"7,x']
MESSAGES: list[tuple[bytes | None, bool]] = [*((m, True) for m in GOOD * 3), *((m, False) for m in BAD), (None, False)]


@given(st.lists(st.sampled_from(MESSAGES), max_size=15), st.sampled_from(["quotes", "escapes"]))
@settings(deadline=None, max_examples=40)
def test_each_message_is_read_or_rejected_by_itself(messages: list[tuple[bytes | None, bool]], mode: str) -> None:
    builder = reads(PAIR) if mode == "quotes" else reads(PAIR).set_escape_character("\\")
    rows, sources, rejected = read(builder.build(), [message for message, _ in messages])
    good = [index for index, (_, is_good) in enumerate(messages) if is_good]
    assert (rows, sources) == ([Row(id=7, name="x")] * len(good), good)
    assert rejected == [i for i, (message, is_good) in enumerate(messages) if not is_good and message is not None]


def test_settings() -> None:
    kind = Types.ROW_NAMED(["a", "b", "c"], [int, Types.LIST(int), str])
    reader = reads(kind).set_field_delimiter("|").set_array_element_delimiter(":").set_quote_character("'")
    schema = reader.set_null_literal("-").set_allow_comments().build()
    assert read(schema, [b"1|1:2|'x|y'", b"#1|1|x", b"-|-|-"]) == (
        [Row(a=1, b=[1, 2], c="x|y"), Row(a=None, b=None, c=None)], [0, 2], []
    )  # fmt: skip
    writer = writes(kind).set_field_delimiter("|").set_array_element_delimiter(":").set_quote_character("'")
    made = writer.set_null_literal("-").set_line_delimiter("").build()
    assert made.serialize(Row(a=1, b=[1, 2], c="x|y")) == b"1|1:2|'x|y'"
    assert made.serialize(Row(a=None, b=None, c=None)) == b"-|-|-"
    assert writes(PAIR).disable_quote_character().build().serialize((1, 'a"')) == b'1,a"\n'


def test_what_does_not_fit() -> None:
    lenient = reads(PAIR).set_ignore_parse_errors(True).build()
    assert lenient.deserialize(b"x") is None
    with pytest.raises(BadRecordError, match="expected 2 columns, got 1"):
        reads(PAIR).build().deserialize(b"x")
    with pytest.raises(InvalidTypeError, match="have the fields of"):
        writes(PAIR).build().validate(Types.TUPLE([int]))
    untyped = batch_of(Types.PICKLED_BYTE_ARRAY(), [(1, "a"), {"id": 2, "name": None}])
    assert writes(PAIR).build().serialize_batch(untyped).to_pylist() == [b"1,a\n", b"2,\n"]


def test_only_a_line_end_is_cut_off() -> None:
    """Not the letters of its escapes."""
    assert read(reads(PAIR).build(), [b"1,corn", b"2,or\\\n", b"3,n"])[0] == [
        Row(id=1, name="corn"), Row(id=2, name="or\\"), Row(id=3, name="n"),
    ]  # fmt: skip


def test_messages_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One look for all of them, so that reading costs no call for each."""
    schema = reads(Types.ROW_NAMED(["a", "b"], [str, int])).build()
    looks = []
    decode = schema.decode
    monkeypatch.setattr(schema, "decode", lambda messages: (looks.append(len(messages)), decode(messages))[1])
    assert len(schema.deserialize_batch(pa.array([b"x,1\n"] * 100))) == 100
    assert looks == [100]
