"""Constraints on parts of values, which `table.exec.sink.nested-constraint-enforcer` enforces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import ConfigurationError
from headrace.table import EnvironmentSettings, TableEnvironment
from headrace.table.logical.errors import PlanningError

COLUMNS = (
    "id INT, r ROW<a INT NOT NULL, p ROW<b VARCHAR(3), c CHAR(3)>>, xs ARRAY<ROW<y INT NOT NULL>>, "
    "m MAP<STRING, VARCHAR(2) NOT NULL>, names ARRAY<CHAR(2)>"
)
WHOLE: dict[str, Any] = {
    "r": {"a": 1, "p": {"b": "abc", "c": "xyz"}},
    "xs": [{"y": 1}, {"y": 2}],
    "m": {"k": "ab"},
    "names": ["ab"],
}
FIRST = {"id": 1, **WHOLE}
NOTHING = {"id": 2, "r": None, "xs": None, "m": None, "names": [None]}


def written(folder: Path, rows: list[dict[str, Any]], **settings: str) -> list[dict[str, Any]]:
    """The rows that the table has of those that are inserted."""
    (folder / "in.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("headrace.runtime", "local")
    for name, value in settings.items():
        tables.get_config().set(f"table.exec.sink.{name.replace('_', '-')}-enforcer", value)
    for name, path, columns in (("given", "in.json", COLUMNS.replace(" NOT NULL", "")), ("taken", "out", COLUMNS)):
        options = f"'connector' = 'filesystem', 'path' = '{folder / path}', 'format' = 'json'"
        tables.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ({options})")
    tables.execute_sql("INSERT INTO taken SELECT * FROM given").wait()
    lines = [line for path in (folder / "out").glob("[!._]*") for line in path.read_text().splitlines()]
    return sorted(map(json.loads, lines), key=lambda row: row["id"])


def changed(column: str, value: object) -> dict[str, Any]:
    return {"id": 3, **WHOLE, column: value}


NULLS = [
    ("ROWS", "r.a", changed("r", {"a": None, "p": None})),
    ("ROWS_AND_COLLECTIONS", "xs[element].y", changed("xs", [{"y": 1}, {"y": None}])),
    ("ROWS_AND_COLLECTIONS", "m[value]", changed("m", {"k": None})),
]


@pytest.mark.parametrize(("enforced", "place", "row"), NULLS)
def test_parts_that_must_not_be_null(tmp_path: Path, enforced: str, place: str, row: dict[str, Any]) -> None:
    rows = [FIRST, NOTHING, row]
    assert written(tmp_path / _made(tmp_path, "a"), rows) == rows
    assert written(tmp_path / _made(tmp_path, "b"), rows, nested_constraint=enforced, not_null="DROP") == rows[:2]
    with pytest.raises(Exception, match="is NOT NULL") as failure:
        written(tmp_path / _made(tmp_path, "c"), rows, nested_constraint=enforced)
    assert f"column '{place}' is NOT NULL" in str(failure.value)
    assert "id=3" in str(failure.value)


LENGTHS = [
    ("ROWS", "r.p.b", changed("r", {"a": 1, "p": {"b": "abcd", "c": "xyz"}})),
    ("ROWS", "r.p.c", changed("r", {"a": 1, "p": {"b": "abc", "c": "x"}})),
    ("ROWS_AND_COLLECTIONS", "m[value]", changed("m", {"k": "abc"})),
    ("ROWS_AND_COLLECTIONS", "names[element]", changed("names", ["ab", "a"])),
]


@pytest.mark.parametrize(("enforced", "place", "row"), LENGTHS)
def test_parts_that_have_a_length(tmp_path: Path, enforced: str, place: str, row: dict[str, Any]) -> None:
    rows = [FIRST, NOTHING, row]
    assert written(tmp_path / _made(tmp_path, "a"), rows, type_length="ERROR") == rows
    with pytest.raises(Exception, match="takes values of") as failure:
        written(tmp_path / _made(tmp_path, "b"), rows, nested_constraint=enforced, type_length="ERROR")
    assert f"column '{place}' takes values of" in str(failure.value)
    assert "id=3" in str(failure.value)


def test_parts_of_rows_are_trimmed_and_padded(tmp_path: Path) -> None:
    rows = [FIRST, NOTHING, changed("r", {"a": 5, "p": {"b": "abcd", "c": "x"}}), changed("names", ["a"])]
    rows[3]["id"] = 4
    found = written(tmp_path, rows, nested_constraint="ROWS", type_length="TRIM_PAD")
    assert found == [*rows[:2], changed("r", {"a": 5, "p": {"b": "abc", "c": "x  "}}), rows[3]]


def test_parts_of_collections_are_not_trimmed(tmp_path: Path) -> None:
    with pytest.raises(PlanningError, match="on types nested in collections: set"):
        written(tmp_path, [FIRST], nested_constraint="ROWS_AND_COLLECTIONS", type_length="TRIM_PAD")
    with pytest.raises(ConfigurationError, match="ROWS_AND_COLLECTIONS"):
        written(tmp_path, [FIRST], nested_constraint="ERROR")


def _made(folder: Path, name: str) -> str:
    (folder / name).mkdir()
    return name
