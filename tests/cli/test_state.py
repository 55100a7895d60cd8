"""``headrace state`` over what a job has left."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.common import Types
from headrace.datastream.state import ListStateDescriptor, ValueStateDescriptor
from headrace.state_processor import OperatorTransformation, SavepointWriter
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A savepoint, and the checkpoint directory of the job, which has gone on since."""
    place = Place(tmp_path_factory.mktemp("job"))
    place.write("a", {1: 1, 2: 2})
    client = start(place, "job", 2)
    wait_for_records(client, 2)
    savepoint = client.trigger_savepoint().result(DEADLINE)
    place.write("b", {2: 10, 3: 3})
    wait_for_records(client, 4)
    client.stop().result(DEADLINE)
    return savepoint, str(place.root / "job")


def headrace(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["state", *arguments], env={"COLUMNS": "200"})
    return done.exit_code, done.output


def test_list(places: tuple[str, str]) -> None:
    for place in places:
        code, shown = headrace("list", place)
        assert code == 0
        lines = {tuple(line.split()) for line in shown.splitlines()}
        rows = "3" if place == places[1] else "2"
        assert ("totals", "state/total", "value", "String", "→", "Long", rows) in lines
        assert ("totals", "timers/event", "timers", "String", rows) in lines


@pytest.mark.parametrize("state", ["total", "state/total"])
def test_show(places: tuple[str, str], state: str) -> None:
    code, shown = headrace("show", places[1], "totals", state, "--format", "json")
    assert code == 0
    rows = sorted((row["key"], row["value"]) for row in map(json.loads, shown.splitlines()))
    assert rows == [("k1", 1), ("k2", 12), ("k3", 3)]
    _, table = headrace("show", places[1], "totals", state, "--key", "k2")
    assert [line.split() for line in table.splitlines() if "k" in line][1:] == [["k2", "12"]]


def test_a_key_that_is_not_there(places: tuple[str, str]) -> None:
    """Keys are texts, and the one that is asked for may have been meant as a number."""
    for form in ("table", "json"):
        done = CliRunner().invoke(app, ["state", "show", places[1], "totals", "total", "--key", "2", "--format", form])
        assert done.exit_code == 0, "there is nothing, and that is the answer"
        assert re.fullmatch(
            r"no key that is shown as '2' holds anything; some that do are k\d, k\d, k\d \(type string\)\n", done.stderr
        )
        assert "k1" not in done.stdout


def test_keys_of_bytes_are_told_apart(tmp_path: Path) -> None:
    names = ValueStateDescriptor("name", Types.STRING())
    rows = {"key": [b"\x00a", b"\x00b"], "value": ["first", "second"]}
    state = OperatorTransformation.from_tables(Types.PRIMITIVE_ARRAY(Types.BYTE())).with_state(names, rows)
    path = SavepointWriter.new_savepoint().with_operator("named", state).write(tmp_path / "first")
    _, shown = headrace("show", path, "named", "name")
    assert "0x0061" in shown
    _, one = headrace("show", path, "named", "name", "--key", "0x0062")
    assert "second" in one
    assert "first" not in one


def test_what_is_not_kept_by_key_has_none(tmp_path: Path) -> None:
    words = ListStateDescriptor("words", Types.STRING())
    state = OperatorTransformation.from_tables().with_list_state(words, {"value": ["tea"]})
    path = SavepointWriter.new_savepoint().with_operator("held", state).write(tmp_path / "first")
    assert headrace("show", path, "held", "list/words")[0] == 0
    code, shown = headrace("show", path, "held", "list/words", "--key", "tea")
    assert code == 2
    assert "'list/words' is not kept by key: leave --key out" in shown


def test_show_timers_and_no_more_than_asked_for(places: tuple[str, str]) -> None:
    code, shown = headrace("show", places[1], "totals", "timers", "-n", "1")
    assert code == 0
    assert "10001" in shown
    assert "10002" not in shown
    assert "3 rows in all" in shown


def test_diff(places: tuple[str, str]) -> None:
    code, shown = headrace("diff", *places)
    assert code == 1
    assert "changed totals state/total key=k2: value=2 -> value=12" in shown
    assert shown.splitlines()[-1] == "2 added, 0 removed, 1 changed"
    code, shown = headrace("diff", places[0], places[0])
    assert (code, shown.strip()) == (0, "no difference")
    _, shown = headrace("diff", *places, "-n", "1")
    assert "and 2 more" in shown


@pytest.mark.parametrize("fmt", ["parquet", "csv", "json"])
def test_export(places: tuple[str, str], tmp_path: Path, fmt: str) -> None:
    folder = tmp_path / "out"
    code, shown = headrace("export", places[1], str(folder), "--format", fmt)
    assert code == 0, shown
    (file,) = folder.glob(f"*total*total*.{fmt}")
    rows = duckdb.sql(f"select key, value from '{file}' order by key").fetchall()
    assert rows == [("k1", 1), ("k2", 12), ("k3", 3)]
    code, shown = headrace("export", places[1], str(folder))
    assert code == 2
    assert "exists: give a folder that does not" in shown


@pytest.fixture
def odd(tmp_path: Path) -> str:
    """A savepoint with values for which CSV or JSON have no form."""
    spread = ValueStateDescriptor("spread", Types.LIST(Types.DOUBLE()))
    seen = ValueStateDescriptor("seen", Types.PRIMITIVE_ARRAY(Types.BYTE()))
    values = [[1.0, math.nan], [math.inf], [-math.inf, None]]
    tables = OperatorTransformation.from_tables(Types.STRING())
    tables = tables.with_state(spread, pa.table({"key": ["a", "b", "c"], "value": values}))
    tables = tables.with_state(seen, pa.table({"key": ["a", "b"], "value": [b"\x00\xff,", b""]}))
    return SavepointWriter.new_savepoint().with_operator("odd", tables).write(tmp_path / "odd")


@pytest.mark.parametrize("fmt", ["csv", "json"])
def test_what_is_exported_is_read_by_others(odd: str, tmp_path: Path, fmt: str) -> None:
    code, shown = headrace("export", odd, str(tmp_path / "out"), "--format", fmt)
    assert code == 0, shown
    (seen,) = (tmp_path / "out").glob(f"*seen*.{fmt}")
    (spread,) = (tmp_path / "out").glob(f"*spread*.{fmt}")
    assert duckdb.sql(f"select key, value from '{seen}' order by key").fetchall()[0] == ("a", "AP8s"), "base64"
    texts = duckdb.sql(f"select value::varchar from '{spread}' order by key").fetchall()
    words = [tuple(re.findall(r"[-\w.]+", text.lower())) for (text,) in texts]
    assert words == [("1.0", "nan"), ("infinity",), ("-infinity", "null")]


def test_rows_as_json_are_read_by_others(odd: str) -> None:
    _, shown = headrace("show", odd, "odd", "spread", "--format", "json")
    assert "NaN" not in shown.replace('"NaN"', "")


def test_where_there_is_no_terminal_nothing_is_wrapped_or_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    uid = "totals-of-all-users-and-all-of-their-orders-" * 3
    total = OperatorTransformation.from_tables(Types.STRING()).with_state(
        ValueStateDescriptor("total", Types.STRING()), pa.table({"key": ["ann"], "value": ["long " * 40]})
    )
    place = SavepointWriter.new_savepoint().with_operator(uid, total).write(tmp_path / "wide")
    done = CliRunner().invoke(app, ["state", "list", place])
    assert any(line.split()[:2] == [uid, "state/total"] for line in done.output.splitlines())
    done = CliRunner().invoke(app, ["state", "show", place, uid, "total"])
    assert any(line.split() == ["ann", *["long"] * 40] for line in done.output.splitlines())
    done = CliRunner().invoke(app, ["state", "list", place], env={"COLUMNS": "40"})
    assert "…" not in done.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["show", "PLACE", "totals", "totale"], "did you mean totals state/total?"),
        (["show", "PLACE", "nobody", "x/y"], "it holds totals state/total, totals timers/event"),
        (["export", "PLACE", "OUT", "--uid", "nobody"], "holds no state of an operator with uid 'nobody'"),
        (["list", "OUT"], "is neither a savepoint nor a checkpoint directory"),
    ],
)
def test_mistakes_are_told(places: tuple[str, str], tmp_path: Path, arguments: list[str], told: str) -> None:
    names = {"PLACE": places[1], "OUT": str(tmp_path / "out")}
    code, shown = headrace(*(names.get(argument, argument) for argument in arguments))
    assert code == 1
    assert told in " ".join(shown.split())
