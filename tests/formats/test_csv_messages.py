"""Messages of comma-separated values."""

from __future__ import annotations

import csv
import io
import pickle
import re
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import CsvRowDeserializationSchema, CsvRowSerializationSchema, Row, Types
from headrace.common.columns import layout_of
from headrace.common.errors import BadRecordError, InvalidTypeError
from tests.connectors.harness import batch_of
from tests.draws import draws

PAIR = Types.ROW_NAMED(["id", "name"], [int, str])
reads, writes = CsvRowDeserializationSchema.Builder, CsvRowSerializationSchema.Builder


def read(schema: Any, messages: list[bytes | None]) -> tuple[list[Any], list[int], list[int]]:
    """The records, the message of each, and which messages are bad."""
    made = pickle.loads(pickle.dumps(schema)).deserialize_batch(pa.array(messages, pa.binary()))
    rows = layout_of(schema.get_produced_type()).columns_to_rows(made.columns)
    sources = list(range(len(messages))) if made.messages is None else made.messages.tolist()
    return rows, sources, [index for index, _ in made.rejected]


ODD = ['"', 'a,"b', "\n", "x\r\ny", "#", "\\", '\\"', "\r", "\ufeff", "0x1"]
texts = st.one_of(st.text(max_size=6), st.sampled_from(ODD))


@pytest.mark.parametrize("escape", [None, "\\"])
@given(rows=st.lists(st.tuples(st.none() | st.integers(-9, 9), texts), max_size=6))
@settings(deadline=None, max_examples=draws(20))
def test_what_is_written_is_read(escape: str | None, rows: list[tuple[Any, str]]) -> None:
    reader, writer = reads(PAIR), writes(PAIR)
    if escape is not None:
        reader, writer = reader.set_escape_character(escape), writer.set_escape_character(escape)
    messages = writer.build().serialize_batch(batch_of(PAIR, rows)).to_pylist()
    assert all(message.endswith(b"\n") for message in messages)
    expected = [Row(id=number, name=text) for number, text in rows]
    assert read(reader.build(), messages) == (expected, list(range(len(rows))), [])


GOOD = [b"7,x", b"7,x\r\n", b'7,"x"', b"7,x\n", b"\xef\xbb\xbf7,x", b'\xef\xbb\xbf"7","x"', b"+7,x", b'" 7 ",x']
BAD = [b"", b"\n", b"7", b"7,x,y", b"a,x", b'7,"x', b'x"', b"7,x\n7,x", b"\xff,x", b'"7,x', b"0x7,x", b"\xef\xbb\xbf"]
MESSAGES: list[tuple[bytes | None, bool]] = [*((m, True) for m in GOOD * 3), *((m, False) for m in BAD), (None, False)]


@given(st.lists(st.sampled_from(MESSAGES), max_size=15), st.sampled_from(["quotes", "escapes"]))
@settings(deadline=None, max_examples=draws(20))
def test_each_message_is_read_or_rejected_by_itself(messages: list[tuple[bytes | None, bool]], mode: str) -> None:
    builder = reads(PAIR) if mode == "quotes" else reads(PAIR).set_escape_character("\\")
    rows, sources, rejected = read(builder.build(), [message for message, _ in messages])
    good = [index for index, (_, is_good) in enumerate(messages) if is_good]
    assert (rows, sources) == ([Row(id=7, name="x")] * len(good), good)
    assert rejected == [i for i, (message, is_good) in enumerate(messages) if not is_good and message is not None]


odd_messages = st.lists(st.text(st.sampled_from('a1,"\n\r#\ufeff -\\'), max_size=7).map(str.encode), max_size=12)
KINDS = {
    "strings": Types.ROW_NAMED(["a", "b"], [str, str]),
    "numbers": Types.ROW_NAMED(["a", "b"], [str, float]),
    "lists": Types.ROW_NAMED(["a", "b"], [Types.BIG_DEC(), Types.LIST(int)]),
    "single": Types.ROW_NAMED(["a"], [str]),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("escape", [None, "\\"])
@pytest.mark.parametrize("null_literal", [None, "-"])
@pytest.mark.parametrize("kind", KINDS)
@given(messages=odd_messages, cuts=st.sets(st.integers(0, 12)))
@settings(deadline=None, max_examples=draws(36))
def test_the_verdict_on_a_message_is_the_same_in_any_batch(
    kind: str, null_literal: str | None, escape: str | None, messages: list[bytes], cuts: set[int]
) -> None:
    builder = reads(KINDS[kind])
    if null_literal is not None:
        builder = builder.set_null_literal(null_literal)
    if escape is not None:
        builder = builder.set_escape_character(escape)
    schema = builder.set_ignore_parse_errors(True).build()
    alone = [schema.deserialize(message) for message in messages]
    found: list[Any] = []
    for start, stop in pairwise(sorted({0, len(messages)} | {cut for cut in cuts if cut < len(messages)})):
        rows, sources, rejected = read(schema, list(messages[start:stop]))
        assert sorted(sources + rejected) == list(range(stop - start))
        records = dict(zip(sources, rows, strict=True))
        found += [records.get(index) for index in range(stop - start)]
    assert found == alone


@given(odd_messages)
@settings(deadline=None, max_examples=draws(25))
def test_odd_quotes_are_read_as_python_does(messages: list[bytes]) -> None:
    schema = reads(KINDS["strings"]).set_ignore_parse_errors(True).build()
    rows, sources, _ = read(schema, list(messages))
    records = dict(zip(sources, rows, strict=True))
    for index, message in enumerate(messages):
        text = message.decode().rstrip("\r\n").removeprefix("\ufeff")
        lines = list(csv.reader(io.StringIO(f"{text}\n-", newline="")))
        is_one = len(lines) == 2 and lines[1] == ["-"] and len(lines[0]) == 2
        assert records.get(index) == (Row(a=lines[0][0], b=lines[0][1]) if is_one else None)


def test_a_row_whose_last_value_is_missing() -> None:
    kind = KINDS["numbers"]
    message = writes(kind).build().serialize(Row(a="a,", b=None))
    assert message == b'"a,",\n'
    schema = reads(kind).build()
    assert [read(schema, [message] * count)[0] for count in (1, 2, 6)] == [[Row(a="a,", b=None)] * n for n in (1, 2, 6)]
    assert read(schema, [b'"a,",']) == ([Row(a="a,", b=None)], [0], [])


def test_a_bad_value_is_told_with_field_value_and_form() -> None:
    kinds = [int, Types.SQL_DATE(), Types.BIG_DEC(), Types.LIST(Types.SQL_TIME())]
    schema = reads(Types.ROW_NAMED(["n", "d", "x", "l"], kinds)).build()
    bad = {
        b"0x10,,,": "field 'n': '0x10' is not a whole number from",
        b",2026-13-01,,": "field 'd': '2026-13-01' is not a date such as 2026-01-31",
        b',,"1,5",': "field 'x': '1,5' is not a decimal number such as 12.5",
        b",,,12:00;noon": "field 'l': 'noon' is not a time such as 12:30:00.5",
        b"1,\xff,,": "not utf-8: byte 0xff at position 2, invalid start byte",
    }
    rejected = schema.deserialize_batch(pa.array([b"1,2026-01-31,1.5,12:30", *bad], pa.binary())).rejected
    for (_, reason), expected in zip(rejected, bad.values(), strict=True):
        assert reason.startswith(expected)
    for message, expected in bad.items():
        with pytest.raises(BadRecordError, match=re.escape(expected)):
            schema.deserialize(message)


def test_settings() -> None:
    kind = Types.ROW_NAMED(["a", "b", "c"], [int, Types.LIST(int), str])
    reader = reads(kind).set_field_delimiter("|").set_array_element_delimiter(":").set_quote_character("'")
    schema = reader.set_null_literal("-").set_allow_comments().build()
    assert schema.deserialize(b"#1|1|x") is None
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
