"""Mistakes in what is to be written are told, with state and row, and leave nothing that a job could start from."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace.common import Configuration, Time, Types
from headrace.common.errors import InvalidProgramError, InvalidTypeError, SavepointError
from headrace.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from headrace.state_processor import OperatorTransformation, SavepointReader, SavepointWriter, StateTables
from headrace.storage.folder import Folder

TOTAL = ValueStateDescriptor("total", Types.LONG())
ROW = ValueStateDescriptor("row", Types.ROW_NAMED(["a", "b"], [int, str]))
TAGS = ValueStateDescriptor("tags", Types.PRIMITIVE_ARRAY(Types.LONG()))
PRICE = ValueStateDescriptor("price", Types.BIG_DEC())
WORDS = ListStateDescriptor("words", Types.STRING())
VISITS = MapStateDescriptor("visits", Types.STRING(), Types.LONG())


def tables(key_type: Any = str) -> StateTables:
    return OperatorTransformation.from_tables(key_type)


def one(descriptor: Any, value: Any, key: Any = "ann") -> Callable[[], StateTables]:
    return lambda: tables().with_state(descriptor, {"key": [key], "value": [value]})


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "an unknown column": (
        lambda: tables().with_state(TOTAL, {"key": ["ann"], "value": [1], "amount": [2]}),
        "value state 'total': it takes no column 'amount', but key, key_encoded, value",
    ),
    "no value": (
        lambda: tables().with_state(TOTAL, {"key": ["ann"]}),
        "value state 'total': the column 'value' is mis",
    ),
    "no key": (lambda: tables().with_state(TOTAL, {"value": [1]}), "value state 'total': the column 'key' is missing"),
    "expiry without a time to live": (
        lambda: tables().with_state(TOTAL, {"key": ["ann"], "value": [1], "expiry": [5]}),
        "no column 'expiry'",
    ),
    "no key of an entry": (
        lambda: tables().with_state(VISITS, {"key": ["ann"], "value": [1]}),
        "map state 'visits': the column 'entry_key' is missing",
    ),
    "text for a number": (one(TOTAL, "7"), "value state 'total': a column of type string cannot be read as int64"),
    "a part of a number": (one(TOTAL, 7.5), "value state 'total': .*7.500000 was truncated"),
    "another record": (one(ROW, {"a": 1, "c": "x"}), r"records with the fields \['a', 'c'\] are no Row.* \['a', 'b'\]"),
    "a field of another type": (
        one(ROW, {"a": "x", "b": "y"}),
        "value state 'row': field 'a': a column of type string",
    ),
    "no record": (one(ROW, 5), r"value state 'row': a column of type int64 cannot be read as Row\(a: "),
    "an element that is null": (one(TAGS, [1, None]), "value state 'tags': an element is null"),
    "no list": (one(TAGS, "a"), "value state 'tags': a column of type string cannot be read as Array<"),
    "no decimal": (one(PRICE, "much"), "value state 'price'"),
    "a value that is null": (
        lambda: tables().with_state(TOTAL, {"key": ["ann", "bob"], "value": [1, None]}),
        "value state 'total': row 1: 'value' is null; leave such rows out",
    ),
    "an element of a list that is null": (
        lambda: tables().with_state(WORDS, pa.table({"key": ["ann"], "value": pa.array([None], pa.string())})),
        "list state 'words': row 0: 'value' is null",
    ),
    "a key that is null": (
        lambda: tables().with_state(TOTAL, {"key": ["ann", None], "value": [1, 2]}),
        "value state 'total': row 1: 'key' is null, and every row is of a key",
    ),
    "a key of another type": (
        lambda: tables(Types.LONG()).with_state(TOTAL, {"key": ["ann"], "value": [1]}),
        "value state 'total': column 'key': a column of type string cannot be read as int64",
    ),
    "a key that is no key": (
        lambda: tables(None).with_state(TOTAL, {"key": [["a"]], "value": [1]}),
        "value state 'total': .* cannot be a key: it is not hashable",
    ),
    "a key twice": (
        lambda: tables().with_state(TOTAL, {"key": ["ann", "bob", "ann"], "value": [1, 2, 3]}),
        "value state 'total': row 2 has the key of an earlier row: {'key': 'ann'}",
    ),
    "an entry twice": (
        lambda: tables().with_state(VISITS, {"key": ["ann"] * 2, "entry_key": ["x"] * 2, "value": [1, 2]}),
        "map state 'visits': row 1 has the entry of an earlier row",
    ),
    "a timer twice": (
        lambda: tables().with_timers({"key": ["ann"] * 2, "time": [5, 5]}),
        "event timers: row 1 has the timer of an earlier row",
    ),
    "an unknown time domain": (
        lambda: tables().with_timers({"key": ["ann"], "time": [5], "domain": ["wall"]}),
        "timers: 'domain' is 'wall' in a row",
    ),
    "a timer without a time": (
        lambda: tables().with_timers({"key": ["ann"]}),
        "event timers: the column 'time' is mis",
    ),
    "a window without an end": (
        lambda: tables().with_window_state(TOTAL, {"key": ["ann"], "value": [1]}),
        "value state 'total': the column 'window_end' is missing",
    ),
    "a window without an end but with a start": (
        lambda: tables().with_window_state(TOTAL, {"key": ["ann"], "value": [1], "window_start": [0]}),
        "value state 'total': the column 'window_end' is missing",
    ),
    "a timer of half a window": (
        lambda: tables().with_timers({"key": ["ann"], "time": [1], "window_start": [0]}),
        "event timers: the column 'window_end' is missing",
    ),
    "a column twice": (
        lambda: tables().with_state(TOTAL, pa.table([["ann"], [1], [2]], ["key", "value", "value"])),
        "value state 'total': the column 'value' is there twice",
    ),
    "a window that is null": (
        lambda: tables().with_window_state(
            TOTAL, pa.table({"key": ["ann"], "value": [1], "window_end": pa.nulls(1, pa.int64())})
        ),
        "value state 'total': row 0: the window is null",
    ),
    "a window that ends before it begins": (
        lambda: tables().with_window_state(
            TOTAL, {"key": ["a", "b"], "value": [1, 2], "window_start": [0, 20], "window_end": [10, 10]}
        ),
        "value state 'total': row 1: the window from 20 to 10 has no time in it",
    ),
    "a moment for a number": (
        one(TOTAL, datetime(2026, 1, 1)),
        r"value state 'total': a column of type timestamp\[us\] cannot be read as int64, whose unit nobody knows",
    ),
    "a moment for milliseconds": (
        lambda: tables().with_timers({"key": ["ann"], "time": [datetime(2026, 1, 1)]}),
        r"event timers: a column of type timestamp\[us\] .*: make numbers of it, milliseconds since 1970",
    ),
    "a key of what all subtasks have": (
        lambda: tables().with_broadcast_state(VISITS, {"key": ["ann"], "entry_key": ["x"], "value": [1]}),
        "map state 'visits': broadcast state has no keys: leave the column 'key' out",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_rows_that_are_no_state(mistake: str) -> None:
    make, told = MISTAKES[mistake]
    with pytest.raises(SavepointError, match=told):
        make()


def test_what_is_no_table() -> None:
    with pytest.raises(InvalidTypeError, match="expected a table of Arrow, pandas, Polars, DuckDB or Spark, not"):
        tables().with_state(TOTAL, 5)
    with pytest.raises(InvalidTypeError, match=r"DuckDB or Spark, not pandas\.core\.series\.Series"):
        tables().with_state(TOTAL, pd.Series([1]))
    with pytest.raises(InvalidTypeError, match="no Arrow table can be made of this dict"):
        tables().with_state(TOTAL, {"key": ["a", "b"], "value": [1]})


def test_a_state_twice() -> None:
    given = tables().with_state(TOTAL, {"key": ["ann"], "value": [1]})
    with pytest.raises(InvalidProgramError, match="value state 'total' is given twice"):
        given.with_state(TOTAL, {"key": ["bob"], "value": [1]})


def test_expiry_of_states_with_a_time_to_live() -> None:
    """It may be given, and may be left out."""
    seen = ValueStateDescriptor("seen", Types.LONG())
    seen.enable_time_to_live(StateTtlConfig.new_builder(Time.days(7)).build())
    tables().with_state(seen, {"key": ["ann"], "value": [1], "expiry": [5]})
    tables().with_state(seen, pa.table({"key": ["ann"], "value": [1], "expiry": pa.nulls(1, pa.int64())}))
    tables().with_state(seen, {"key": ["ann"], "value": [1]})


# --- operators and places ---------------------------------------------------------------------------------------------


@pytest.fixture
def first(tmp_path: Path) -> str:
    given = tables().with_state(TOTAL, {"key": ["ann"], "value": [1]})
    return SavepointWriter.new_savepoint(16).with_operator("totals", given).write(f"{tmp_path}/first")


def test_unknown_operators(first: str) -> None:
    writer = SavepointWriter.from_existing_savepoint(first)
    with pytest.raises(SavepointError, match="no operator with uid 'total': did you mean 'totals'"):
        writer.remove_operator("total")
    with pytest.raises(SavepointError, match="no operator with uid 'xyz': it has totals"):
        writer.change_operator_identifier("xyz", "abc")
    with pytest.raises(SavepointError, match="did you mean totals state/total"):
        writer.replace_table("totals", "state/totals", {"key": ["ann"], "value": [1]})
    writer.remove_operator("totals")
    with pytest.raises(SavepointError, match="'totals' has the state that with_operator"):
        writer.replace_table("totals", "state/total", {"key": ["ann"], "value": [1]})


def test_state_that_is_there_already(first: str) -> None:
    writer = SavepointWriter.from_existing_savepoint(first)
    given = tables().with_state(TOTAL, {"key": ["bob"], "value": [1]})
    with pytest.raises(InvalidProgramError, match=r"'totals' has state already: call remove_operator\('totals'\)"):
        writer.with_operator("totals", given)
    writer.with_operator("others", given)
    with pytest.raises(InvalidProgramError, match="'others' has state already"):
        writer.with_operator("others", given)
    with pytest.raises(InvalidProgramError, match="there is an operator with uid 'others' already"):
        writer.change_operator_identifier("totals", "others")


def test_replaced_rows_are_checked_too(first: str) -> None:
    writer = SavepointWriter.from_existing_savepoint(first)
    with pytest.raises(SavepointError, match="operator 'totals': value state 'total': row 0: 'value' is null"):
        writer.replace_table("totals", "state/total", pa.table({"key": ["ann"], "value": pa.nulls(1, pa.int64())}))


def test_keys_without_a_type_are_not_what_is_shown_for_them(tmp_path: Path) -> None:
    given = tables(None).with_state(TOTAL, {"key": ["ann", "bob"], "value": [1, 2]})
    path = SavepointWriter.new_savepoint().with_operator("totals", given).write(f"{tmp_path}/first")
    writer = SavepointWriter.from_existing_savepoint(path)
    table = writer.reader.read_keyed_state("totals", "total").sort_by("value")
    assert table.column("key").to_pylist() == ["'ann'", "'bob'"]
    with pytest.raises(SavepointError, match="keys have no declared type: the column 'key_encoded' has to be among"):
        writer.replace_table("totals", "state/total", table.drop_columns(["key_encoded"]))
    changed = table.set_column(table.schema.get_field_index("key"), "key", pa.array(["'ann'", "'eve'"]))
    with pytest.raises(SavepointError, match="row 1: 'key_encoded' is of the key \"'bob'\", and 'key' is \"'eve'\""):
        writer.replace_table("totals", "state/total", changed)
    writer.replace_table("totals", "state/total", table)


def test_keys_without_a_type_that_are_null_or_told_by_half(tmp_path: Path) -> None:
    seen = MapStateDescriptor("seen", value_type_info=Types.LONG())
    rows = {"key": ["ann"], "entry_key": ["tea"], "value": [1]}
    given = tables(None).with_state(seen, rows)
    path = SavepointWriter.new_savepoint().with_operator("totals", given).write(f"{tmp_path}/first")
    writer = SavepointWriter.from_existing_savepoint(path)
    table = writer.reader.read_keyed_state("totals", "seen")
    for left_out in ("entry", "entry_key"):
        told = "keys of entries have no declared type: the columns 'entry_key' and 'entry' have to be among those given"
        with pytest.raises(SavepointError, match=told):
            writer.replace_table("totals", "state/seen", table.drop_columns([left_out]))
    for name in ("key_encoded", "entry_key"):
        nulls = table.set_column(table.schema.get_field_index(name), name, pa.nulls(1, pa.binary()))
        with pytest.raises(SavepointError, match=f"row 0: '{name}' is null"):
            writer.replace_table("totals", "state/seen", nulls)
    writer.replace_table("totals", "state/seen", table)


def test_a_place_that_is_taken(first: str, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(first)
    with pytest.raises(SavepointError, match="holds a savepoint already: choose another place"):
        writer.write(first)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes").touch()
    with pytest.raises(SavepointError, match="other holds 'notes': choose another place"):
        writer.write(f"{tmp_path}/other")
    with pytest.raises(SavepointError, match="notes is a file"):
        writer.write(f"{tmp_path}/other/notes")
    (tmp_path / "empty").mkdir()
    assert SavepointReader.read(writer.write(f"{tmp_path}/empty")).states()


def test_the_configuration_comes_first() -> None:
    given = tables().with_state(TOTAL, {"key": ["bob"], "value": [1]})
    writer = SavepointWriter.new_savepoint().with_operator("totals", given)
    with pytest.raises(InvalidProgramError, match="the configuration comes first"):
        writer.with_configuration(Configuration())


def test_max_parallelism_has_bounds() -> None:
    with pytest.raises(InvalidProgramError, match="max_parallelism must be between 1 and 32768, not 0"):
        SavepointWriter.new_savepoint(0)
    with pytest.raises(InvalidTypeError, match="new_savepoint takes an int, not '4'"):
        SavepointWriter.new_savepoint("4")  # type: ignore[arg-type]


def test_a_place_that_is_none(first: str) -> None:
    with pytest.raises(InvalidTypeError, match="write takes a str, not None"):
        SavepointWriter.from_existing_savepoint(first).write(None)  # type: ignore[arg-type]


def test_an_operator_without_state() -> None:
    with pytest.raises(InvalidProgramError, match=r"'totals' is given no state: call with_state\(\)"):
        SavepointWriter.new_savepoint().with_operator("totals", tables())


def test_what_windows_keep_for_themselves() -> None:
    columns = {"key": ["ann"], "value": ["x"], "window_start": [0], "window_end": [10]}
    for name in ("window-contents", "trigger/count"):
        with pytest.raises(InvalidProgramError, match=rf"windows keep '{name}' for themselves: bootstrap_with"):
            tables().with_window_state(ListStateDescriptor(name, Types.STRING()), columns)


def test_timers_are_replaced_as_they_were_read(tmp_path: Path) -> None:
    """Those of one time domain, whose name a reader shows in a column."""
    given = tables().with_timers({"key": ["ann", "bob"], "time": [5, 6], "domain": ["event", "processing"]})
    path = SavepointWriter.new_savepoint().with_operator("totals", given).write(f"{tmp_path}/first")
    writer = SavepointWriter.from_existing_savepoint(path)
    timers = writer.reader.read_timers("totals")
    with pytest.raises(SavepointError, match="some rows are of processing time: replace those as 'timers/processing'"):
        writer.replace_table("totals", "timers/event", timers)
    of_events = timers.filter(pc.equal(timers.column("domain"), "event"))
    later = of_events.set_column(1, "time", pa.array([50]))
    reader = SavepointReader.read(writer.replace_table("totals", "timers/event", later).write(f"{tmp_path}/next"))
    assert reader.read_timers("totals").column("time").to_pylist() == [6, 50]
    none = writer.replace_table("totals", "timers/event", of_events.slice(1)).write(f"{tmp_path}/none")
    assert SavepointReader.read(none).read_timers("totals").column("time").to_pylist() == [6]


# --- failures in the middle -------------------------------------------------------------------------------------------


def test_whatever_file_fails_there_is_no_savepoint(first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its files in turn, the last one included, cannot be written."""
    write, create = Folder.write, Folder.create
    written = 0
    fails_at = 0

    def counted() -> None:
        nonlocal written
        written += 1
        if written == fails_at:
            raise OSError("no space left")

    def failing_write(folder: Folder, name: str, chunks: Any, **more: Any) -> None:
        counted()
        write(folder, name, chunks, **more)

    def failing_create(folder: Folder, name: str, content: bytes) -> bool:
        counted()
        return create(folder, name, content)

    monkeypatch.setattr(Folder, "write", failing_write)
    monkeypatch.setattr(Folder, "create", failing_create)
    more = tables().with_state(TOTAL, {"key": ["bob"], "value": [1]}).with_timers({"key": ["bob"], "time": [5]})
    failed = 0
    while True:
        written, fails_at = 0, failed + 1
        target = tmp_path / f"target-{fails_at}"
        writer = SavepointWriter.from_existing_savepoint(first).with_operator("others", more)
        try:
            writer.write(str(target))
        except OSError:
            failed += 1
            assert not any(path.is_file() for path in target.rglob("*"))
            with pytest.raises(SavepointError, match="neither a savepoint"):
                SavepointReader.read(str(target))
        else:
            break
    assert failed == written == 5, "three tables, what says that they are being written, and what makes it a savepoint"


@pytest.mark.parametrize("uid", ["", 7])
def test_a_uid_is_a_text_that_is_not_empty(first: str, uid: Any) -> None:
    given = OperatorTransformation.from_tables(Types.STRING())
    with pytest.raises(InvalidProgramError, match="a string that is not empty, not"):
        SavepointWriter.new_savepoint().with_operator(uid, given)
    with pytest.raises(InvalidProgramError, match="a string that is not empty, not"):
        SavepointWriter.from_existing_savepoint(Path(first)).change_operator_identifier("totals", uid)
