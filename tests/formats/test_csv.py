"""CSV, read and written."""

from __future__ import annotations

import csv
import datetime
import io
import re
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import BadRecordError, ConfigurationError, InvalidProgramError, InvalidTypeError
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import Types
from headrace.connectors.source import ReadBudget
from headrace.datastream.connectors.file_system import FileSource
from headrace.formats import lines as blocks
from headrace.formats.csv.reader import CsvFormat, CsvReaderFormat
from headrace.formats.csv.schema import CsvSchema
from headrace.formats.csv.writer import CsvEncoder
from tests.connectors.harness import PLENTY, SourceRun, batch_of
from tests.draws import draws

REJECTED = OutputTag("rejected")
budgets = st.builds(ReadBudget, records=st.integers(1, 30), bytes=st.integers(1, 60), pieces=st.integers(1, 4))
cells = st.text(st.sampled_from("ab,\"'é\t;|"), max_size=5)
LONG_FORM = "a whole number from -9223372036854775808 to 9223372036854775807 in decimal digits"
PAIRS = {"id": int, "name": str}


def run(path: Path, fmt: Any, *, reject: bool = False) -> SourceRun:
    builder = FileSource.for_record_stream_format(fmt, path)
    if reject:
        builder.set_dead_letter(REJECTED)
    return SourceRun(builder.build(), path / ".state")


def read(tmp_path: Path, data: str, fmt: Any, budget: ReadBudget = PLENTY) -> list[tuple[Any, ...]]:
    (tmp_path / "a.csv").write_bytes(data.encode())
    return [tuple(row) for row in run(tmp_path, fmt).to_end(budget)]


def test_columns_by_position(tmp_path: Path) -> None:
    data = '1,a\r\n\r\n2,"b,""c"""\n\n,\n'
    for budget in (PLENTY, ReadBudget(1, 1)):
        assert read(tmp_path, data, CsvFormat(PAIRS), budget) == [(1, "a"), (2, 'b,"c"'), (None, "")]


def test_columns_by_header(tmp_path: Path) -> None:
    data = "\ufeffname,other,id\nAda,x,1\nBob,y,2\n"
    for budget in (PLENTY, ReadBudget(1, 1, 3)):
        assert read(tmp_path, data, CsvFormat(PAIRS, header=True), budget) == [(1, "Ada"), (2, "Bob")]


@pytest.mark.parametrize(
    ("is_reordered", "data", "records"),
    [
        (False, "id,name\n1,Ada\n", [(1, "Ada")]),
        (False, "x,y\n1,Ada\n", [(1, "Ada")]),
        (False, "name,id\n1,Ada\n2,Bob\n", [(1, "Ada"), (2, "Bob")]),
        (True, "name,id\nAda,1\nBob,2\n", [(1, "Ada"), (2, "Bob")]),
        (True, "name,other,id\nAda,x,1\n", [(1, "Ada")]),
    ],
)
def test_the_header_of_a_schema(tmp_path: Path, is_reordered: bool, data: str, records: list[tuple[int, str]]) -> None:
    builder = CsvSchema.builder().add_number_column("id").add_string_column("name").set_use_header()
    fmt = CsvReaderFormat.for_schema(builder.set_reorder_columns(is_reordered).build())
    for budget in (PLENTY, ReadBudget(1, 1, 3)):
        assert read(tmp_path, data, fmt, budget) == records


def test_a_header_in_another_order_is_told_once_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    builder = CsvSchema.builder().add_number_column("id").add_string_column("name").set_use_header()
    in_order, by_name = (CsvReaderFormat.for_schema(builder.set_reorder_columns(by).build()) for by in (False, True))
    assert read(tmp_path, "name,id\n1,Ada\n2,Bob\n", in_order, ReadBudget(1, 1, 3)) == [(1, "Ada"), (2, "Bob")]
    (told,) = [record.getMessage() for record in caplog.records if record.name == "headrace.formats.csv.reader"]
    assert "a.csv: the header has the columns name, id, the schema id, name, and they are taken in the order of" in told
    caplog.clear()
    assert read(tmp_path, "name,id\nAda,1\n", by_name) == [(1, "Ada")]
    assert read(tmp_path, "x,y\n1,Ada\n", in_order) == [(1, "Ada")]
    assert caplog.records == []


def test_a_header_in_another_order_is_no_excuse_for_values_of_another_type(tmp_path: Path) -> None:
    schema = CsvSchema.builder().add_number_column("id").add_string_column("name").set_use_header().build()
    with pytest.raises(BadRecordError, match=r"a\.csv:2: .*field 'id'"):
        read(tmp_path, "name,id\nAda,1\n", CsvReaderFormat.for_schema(schema))


def test_a_header_alone(tmp_path: Path) -> None:
    assert read(tmp_path, "id,name", CsvFormat(PAIRS, header=True)) == []


def test_a_header_without_a_column_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadRecordError, match=r"a\.csv:1: the header has no column 'id'"):
        read(tmp_path, "name,x\nAda,1\n", CsvFormat(PAIRS, header=True))


def test_strict_headers(tmp_path: Path) -> None:
    schema = CsvSchema.builder().add_number_column("id").add_string_column("name")
    fmt = CsvReaderFormat.for_schema(schema.set_use_header().set_strict_headers().build())
    assert read(tmp_path, "id,name\n1,a\n", fmt) == [(1, "a")]
    with pytest.raises(BadRecordError, match="header has the columns"):
        read(tmp_path, "name,id\na,1\n", fmt)


def test_pyflink_s_schema(tmp_path: Path) -> None:
    builder = CsvSchema.builder().add_number_column("id", Types.INT()).add_string_column("name")
    builder.add_array_column("list", ",", element_type=Types.STRING()).add_boolean_column("ok")
    builder.set_column_separator("|").set_escape_char("\\").set_null_value("NULL").set_allow_comments()
    schema = builder.set_skip_first_data_row().build()
    assert len(schema) == len(builder) == schema.size() == 4
    data = "whatever\n# a comment|\n1|a\\|b|x,y|true\nNULL|NULL||False\n2|'|z|NULL\n"
    expected = [(1, "a|b", ["x", "y"], True), (None, None, [], False), (2, "'", ["z"], None)]
    for budget in (PLENTY, ReadBudget(1, 1)):
        assert read(tmp_path, data, CsvReaderFormat.for_schema(schema), budget) == expected


def test_separators_of_arrays(tmp_path: Path) -> None:
    builder = CsvSchema.builder().add_array_column("own", "+").add_array_column("usual").add_array_column("without")
    builder.remove_array_element_separator(2)
    own, usual = ["1", "2 2;2"], ["1 1+1", "2"]
    expected = {"|": ["1 1+1", "2;2"], ";": ["1 1+1|2", "2"]}
    for separator in ("|", ";"):
        schema = builder.set_array_element_separator(separator).build()
        (record,) = read(tmp_path, "1+2 2;2,1 1+1;2,1 1+1|2;2\n", CsvReaderFormat.for_schema(schema))
        assert record == (own, usual, expected[separator])
        written = CsvEncoder(schema).encode_batch(batch_of(schema.row_type, [record]))
        assert written == b"1+2 2;2,1 1+1;2,1 1+1|2;2\n"


def test_an_array_without_any_separator_is_refused() -> None:
    builder = CsvSchema.builder().add_string_column("name").add_array_column("tags").disable_array_element_separator()
    assert len(builder.build()) == 2  # it has its own
    with pytest.raises(InvalidProgramError, match="nothing separates the elements of the array column 'tags'"):
        builder.remove_array_element_separator(1).build()
    with pytest.raises(InvalidProgramError, match="there is no column 2: the schema has 2 by now"):
        builder.remove_array_element_separator(2)


@pytest.mark.parametrize("is_escaped", [False, True])
def test_a_column_takes_what_is_behind_the_last_one(tmp_path: Path, is_escaped: bool) -> None:
    builder = CsvSchema.builder().add_number_column("id").add_string_column("rest").set_any_property_name("rest")
    if is_escaped:
        builder.set_escape_char("\\")
    third = "c\\,c" if is_escaped else "cc"
    data = f'1,a\r\n2,b,"x,""y"""\r\n\n3,"p,q",,{third}\n4,"d"\n5,e,\n6,f,"g"\n'
    expected = [(1, "a"), (2, 'x,"y"'), (3, third.replace("\\", "")), (4, "d"), (5, ""), (6, "g")]
    for budget in (PLENTY, ReadBudget(1, 1)):
        assert read(tmp_path, data, CsvReaderFormat.for_schema(builder.build()), budget) == expected


def test_quoted_newlines_behind_the_last_column(tmp_path: Path) -> None:
    schema = CsvSchema.builder().add_number_column("id").add_string_column("rest").set_any_property_name("rest").build()
    data = '1,"a\nb"\n2,c,"d\ne,f"\n'
    assert read(tmp_path, data, CsvReaderFormat(schema, multiline=True)) == [(1, "a\nb"), (2, "d\ne,f")]


@pytest.mark.parametrize("name", ["other", "tags"])
def test_values_that_no_column_takes_make_a_bad_record(tmp_path: Path, name: str) -> None:
    schema = CsvSchema.builder().add_number_column("id").add_array_column("tags").set_any_property_name(name).build()
    (tmp_path / "a.csv").write_text("1,a\n2,b,c\n3\n4,d\n")
    job = run(tmp_path, CsvReaderFormat.for_schema(schema), reject=True)
    assert [tuple(row) for row in job.to_end()] == [(1, ["a"]), (4, ["d"])]
    assert [reason for _, _, reason in job.rejected] == ["expected 2 columns, got 3", "expected 2 columns, got 1"]


def test_lines_that_stay_bad_where_a_column_takes_more(tmp_path: Path) -> None:
    schema = CsvSchema.builder().add_number_column("id").add_string_column("name").set_any_property_name("id").build()
    (tmp_path / "a.csv").write_text("1,a\n2,b,3\n4\n5,c,x\n6,d,e,7\n")
    job = run(tmp_path, CsvReaderFormat.for_schema(schema), reject=True)
    assert [tuple(row) for row in job.to_end()] == [(1, "a"), (3, "b"), (7, "d")]
    assert [(raw, reason) for _, raw, reason in job.rejected] == [
        ("4", "expected 2 columns, got 1"),
        ("5,c,x", f"field 'id': 'x' is not {LONG_FORM}"),
    ]


def test_every_simple_type(tmp_path: Path) -> None:
    kinds: dict[str, Any] = {
        "byte": Types.BYTE(), "double": float, "float": Types.FLOAT(), "big": Types.BIG_INT(), "dec": Types.BIG_DEC(),
        "date": Types.SQL_DATE(), "time": Types.SQL_TIME(), "stamp": Types.SQL_TIMESTAMP(),
        "zoned": Types.TIMESTAMP_LTZ(), "char": Types.CHAR(), "ints": Types.LIST(int),
    }  # fmt: skip
    data = (
        "-5,0.5,1.5,123456789012345678901,1.00,2020-01-02,12:30:01.5,"
        "2020-01-02 03:04:05,2020-01-02T03:04:05+01:00,x,1;2"
    )
    utc = datetime.UTC
    assert read(tmp_path, f"{data}\n,,,,,,,,,,\n", CsvFormat(kinds)) == [
        (
            -5, 0.5, 1.5, 123456789012345678901, Decimal("1.00"), datetime.date(2020, 1, 2),
            datetime.time(12, 30, 1, 500000), datetime.datetime(2020, 1, 2, 3, 4, 5),
            datetime.datetime(2020, 1, 2, 2, 4, 5, tzinfo=utc), "x", [1, 2],
        ),
        (*[None] * 10, []),
    ]  # fmt: skip


BAD_LINES = ["x,a", "1", "1,a,b", '2,"open', "3,a\rb", "4,\udcff", "99999999999999999999,a", "0x10,a", "\ufeff1,a"]


@given(st.lists(st.sampled_from(["1,good", *BAD_LINES]), max_size=12), budgets)
@settings(deadline=None)
def test_bad_lines_are_put_aside_whatever_the_cut(lines: list[str], budget: ReadBudget) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        lines = ["1,good", *lines]
        path.write_bytes("\n".join(lines).encode(errors="surrogateescape"))
        job = run(Path(folder), CsvFormat(PAIRS), reject=True)
        assert [tuple(row) for row in job.to_end(budget)] == [(1, "good")] * lines.count("1,good")
        assert [where for where, _, _ in job.rejected] == [
            f"{path}:{number}" for number, line in enumerate(lines, 1) if line in BAD_LINES
        ]


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_bad_line_fails_the_job(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.csv").write_bytes(f"1,a\n\n{line}\n".encode(errors="surrogateescape"))
    with pytest.raises(BadRecordError, match=r"a\.csv:3: "):
        run(tmp_path, CsvFormat(PAIRS)).to_end()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("x,a", r"field 'id': 'x' is not a whole number from .* in decimal digits; the line is 'x,a'"),
        ("99999999999999999999,a", r"field 'id': '99999999999999999999' is not a whole number from .*; the line"),
        ("1", r"expected 2 columns, got 1; the line is '1'"),
        ("1,a,b", r"expected 2 columns, got 3; the line is '1,a,b'"),
        ("a,é" + "x" * 2000, r"field 'id': 'a' is not a whole number"),
        ("4,\udcff", "invalid UTF8 data"),
    ],
)
@pytest.mark.parametrize("block", [64, 1 << 20])
def test_errors_name_line_and_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, reason: str, block: int
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block)
    (tmp_path / "a.csv").write_bytes(("1,good\n" * 99 + f"{line}\n2,b\n").encode(errors="surrogateescape"))
    with pytest.raises(BadRecordError, match=rf"a\.csv:100: .*{reason}") as caught:
        run(tmp_path, CsvFormat(PAIRS)).to_end()
    assert "Row #" not in str(caught.value)


def test_a_wrong_value_is_told_with_its_column_wherever_the_file_has_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,other,id\nAda,,1\nBob,,2\nEve,,three\n")
    with pytest.raises(BadRecordError, match=r"a\.csv:4: field 'id': 'three' is not a whole number"):
        run(tmp_path, CsvFormat(PAIRS, header=True)).to_end()


@pytest.mark.parametrize(
    ("data", "is_hinted"),
    [
        ("id,name\n1,a\n", True),
        ("\ufeffName,ID\nx,1\n", True),
        ('"key","label"\n1,a\n', True),
        ("id,name,more\n1,a,b\n", True),
        ("x 1,a\n1,a\n", False),
        ("1,a\nid,name\n", False),
        ("1,a,b\n", False),
    ],
)
def test_a_first_line_that_looks_like_a_header_is_told(tmp_path: Path, data: str, is_hinted: bool) -> None:
    (tmp_path / "a.csv").write_bytes(data.encode())
    with pytest.raises(BadRecordError) as caught:
        run(tmp_path, CsvFormat(PAIRS)).to_end()
    assert ("which seems to name the columns: then say header=True" in str(caught.value)) == is_hinted


@pytest.mark.parametrize("block", [5, 1 << 20])
def test_quoted_newlines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block)
    rows = [(1, "a\nb"), (2, 'c"\r\n"d'), (3, ""), (4, "plain"), (5, "\n\n")]
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([("id", "name"), *rows])
    fmt = CsvFormat(PAIRS, header=True, multiline=True)
    assert read(tmp_path, text.getvalue(), fmt, ReadBudget(1, 10, 3)) == rows
    bad = text.getvalue() + "x,bad\n6,more\n"
    (tmp_path / "a.csv").write_text(bad, newline="")
    job = run(tmp_path, fmt, reject=True)
    assert len(job.to_end()) == 6
    ((where, raw, reason),) = job.rejected
    assert (where[-3:], raw) == (":11", "x,bad")
    assert reason == f"field 'id': 'x' is not {LONG_FORM}"


def test_a_quote_that_is_never_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 64)
    (tmp_path / "a.csv").write_text('1,a\n2,"open\n' + "3,x\n" * 1000)
    fmt = CsvReaderFormat(CsvSchema.of(Types.ROW_NAMED(list(PAIRS), list(PAIRS.values()))), multiline=True)
    fmt._max_line_bytes = 200
    job = run(tmp_path, fmt, reject=True)
    assert [tuple(row) for row in job.to_end()] == [(1, "a")]
    assert [(where[-2:], reason) for where, _, reason in job.rejected] == [(":2", "the line is too long")]


STRINGS = {"a": str, "b": str}
odd_lines = st.lists(st.text(st.sampled_from('ab,"\n\r#\ufeff '), max_size=8), min_size=1, max_size=6)


def rows_of_python(text: str) -> list[list[str]] | None:
    """The rows of a line but those with a return outside quotes; None where the line leaves a quote open."""
    lines = re.split(r"(?<=\n)", f"{text}\n-")
    reader = csv.reader(re.sub(r"\r(?!\n)", "R", line) for line in lines)
    rows, start = [], 0
    for row in reader:
        rows.append([field.replace("R", "\r") for field in row])
        if rows[-1] not in rows_of_csv(lines[start : reader.line_num]):
            rows.pop()
        start = reader.line_num
    return rows[:-1] if rows[-1:] == [["-"]] else None


def rows_of_csv(lines: list[str]) -> list[list[str]]:
    try:
        return list(csv.reader(lines))
    except csv.Error:  # a return outside quotes
        return []


@given(odd_lines, budgets, st.sampled_from([True, False]), st.sampled_from([4, 1 << 20]), st.sampled_from(["", "\n"]))
@settings(deadline=None, max_examples=draws(25))
def test_odd_quotes_are_read_as_python_does(
    texts: list[str], budget: ReadBudget, multiline: bool, block: int, end: str
) -> None:
    """Each text is one or more lines that stand for themselves, wherever the file is cut and whatever comes before."""
    whole = "\n".join(texts) + end
    lines = whole.split("\n") if not multiline else [text for text in texts if rows_of_python(text) is not None]
    if multiline:
        whole = "\n".join(lines) + end
    rows = [row for line in lines for row in rows_of_python(line) or []]
    expected = [tuple(row) for row in rows if len(row) == 2]
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", block)
        (Path(folder) / "a.csv").write_bytes(b"a,b\n" + whole.encode())
        job = run(Path(folder), CsvFormat(STRINGS, multiline=multiline), reject=True)
        found = [tuple(row) for row in job.to_end(budget)][1:]
    assert found == expected


@pytest.mark.parametrize("null_value", [None, "-"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_last_line_is_read_as_any_other(tmp_path: Path, null_value: str | None, end: str) -> None:
    kinds = {"a": str, "b": float} if null_value is None else {"a": str, "b": str}
    empty = None if null_value is None else ""
    for multiline in (True, False):
        fmt = CsvFormat(kinds, multiline=multiline, null_value=null_value)
        assert read(tmp_path, '"a",\n"b",' + end, fmt) == [("a", empty), ("b", empty)]
        assert read(tmp_path, '"a",""' + end, fmt) == [("a", empty)]


def test_a_comment_is_no_part_of_a_value(tmp_path: Path) -> None:
    schema = CsvSchema.builder().add_string_column("a").add_string_column("b").set_allow_comments().build()
    text = '#it,"s\n"a\n#b",c\n# no "quote\nd,e\n'
    assert read(tmp_path, text, CsvReaderFormat(schema, multiline=True)) == [("a\n#b", "c"), ("d", "e")]
    assert CsvEncoder(schema).encode_batch(batch_of(schema.row_type, [("#a", "#")])) == b'"#a","#"\n'


def test_blanks_around_values_that_are_no_strings(tmp_path: Path) -> None:
    kinds: dict[str, Any] = {
        "n": int,
        "x": float,
        "t": Types.SQL_TIMESTAMP(),
        "b": bool,
        "l": Types.LIST(int),
        "s": str,
    }
    moment = datetime.datetime(2026, 1, 31, 12)
    expected = (1, 2.5, moment, True, [1, None, 3], " s ")
    assert read(
        tmp_path, " 1\t, 2.5 , 2026-01-31 12:00 , true ,1; ;3, s \n".replace("; ;", ";;"), CsvFormat(kinds)
    ) == [expected]


def test_hexadecimal_texts_beside_numbers(tmp_path: Path) -> None:
    assert read(tmp_path, "16,0x10\n+7,0xff\n", CsvFormat(PAIRS)) == [(16, "0x10"), (7, "0xff")]


@pytest.mark.parametrize(
    ("kind", "values"),
    [(str, ["", "#", "\ufeffa", '"', "-", "a\rb"]), (int, [None, 1]), (Types.BIG_DEC(), [None, Decimal("1.5")])],
)
@pytest.mark.parametrize("null_value", [None, "-"])
def test_a_single_column_comes_back(tmp_path: Path, kind: Any, values: list[Any], null_value: str | None) -> None:
    row = Types.ROW_NAMED(["a"], [kind])
    data = CsvEncoder(null_value=null_value).encode_batch(batch_of(row, [(value,) for value in values]))
    assert read(tmp_path, data.decode(), CsvFormat(row, null_value=null_value)) == [(value,) for value in values]


def test_multiline_needs_quotes() -> None:
    schema = CsvSchema.builder().add_string_column("a")
    with pytest.raises(ConfigurationError, match="multiline"):
        CsvReaderFormat(schema.set_escape_char("\\").build(), multiline=True)
    with pytest.raises(ConfigurationError, match="multiline"):
        CsvReaderFormat(schema.disable_escape_char().disable_quote_char().build(), multiline=True)


def test_schemas_are_checked() -> None:
    with pytest.raises(InvalidProgramError, match="at least one column"):
        CsvSchema.builder().build()
    with pytest.raises(InvalidProgramError, match="delimiter"):
        CsvSchema.builder().add_string_column("a").set_column_separator("||").build()
    with pytest.raises(InvalidTypeError, match="column 'm'"):
        CsvFormat({"m": Types.MAP(str, int)})
    with pytest.raises(InvalidTypeError, match="named fields"):
        CsvFormat(str)
    with pytest.raises(InvalidTypeError, match="columns"):
        CsvEncoder(CsvSchema.builder().add_string_column("a").build()).validate(Types.TUPLE([str, str]))


@given(st.lists(st.tuples(st.integers(0, 99), cells), min_size=1), st.sampled_from(",;\t|"), st.booleans())
@settings(deadline=None)
def test_what_is_written_is_read_again(rows: list[tuple[int, str]], delimiter: str, columnar: bool) -> None:
    kind = Types.ROW_NAMED(["id", "name"], [int, str])
    schema = CsvSchema.of(kind, delimiter=delimiter, header=True)
    encoder = CsvEncoder(schema)
    data = encoder.header(kind) + encoder.encode_batch(batch_of(kind, rows, columnar=columnar))
    assert list(csv.reader(io.StringIO(data.decode(), newline=""), delimiter=delimiter))[1:] == [
        [str(number), name] for number, name in rows
    ]
    with TemporaryDirectory() as folder:
        assert read(Path(folder), data.decode(), CsvReaderFormat.for_schema(schema)) == rows


def test_missing_values_and_lists_are_written(tmp_path: Path) -> None:
    kind = Types.ROW_NAMED(["name", "numbers"], [str, Types.LIST(int)])
    rows = [("NULL", [1, 2]), (None, None), ("", []), ("a", [1, None])]
    encoder = CsvEncoder(CsvSchema.of(kind, null_value="NULL"))
    data = encoder.encode_batch(batch_of(kind, rows))
    assert data == b'"NULL",1;2\nNULL,NULL\n,\na,1;\n'


def test_a_slice_is_written_as_such() -> None:
    kind = Types.ROW_NAMED(["name", "numbers"], [str, Types.LIST(int)])
    batch = batch_of(kind, [(name, [index]) for index, name in enumerate("abcd")], columnar=True).slice(1, 3)
    assert CsvEncoder().encode_batch(batch) == b"b,1\nc,2\n"


def test_a_schema_is_asked_for() -> None:
    with pytest.raises(InvalidTypeError, match=f"^a CsvReaderFormat takes a CsvSchema, not 'a'\n  at {__file__}"):
        CsvReaderFormat.for_schema("a")  # type: ignore[arg-type]
