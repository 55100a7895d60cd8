"""Windows with very many elements of a key: functions go through what state has, some at a time."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from test_row_functions import driver, outputs
from window_model import MAX, Record

from headrace.common.errors import UserFunctionError
from headrace.common.typeinfo import Types
from headrace.operators.window.general import ordered_contents
from headrace.operators.window.general.ordered_contents import ColumnPieces, StoredElements


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_contents, "BLOCK", 4)
    monkeypatch.setattr(ordered_contents, "MOST_IN_LIST", 10)


class Passes:
    """Goes through the elements in every way that there is."""

    def process(self, key: int, context: Any, elements: Any) -> Any:
        first = [element["value"] for element in elements]
        assert [element["value"] for element in elements] == first
        assert [element["value"] for element in reversed(elements)] == first[::-1]
        assert len(elements) == len(first)
        assert [element["value"] for element in elements[2:-1]] == first[2:-1]
        assert (elements[0]["value"], elements[-1]["value"]) == (first[0], first[-1])
        assert elements[1] in elements
        yield key, type(elements) is list, first


@pytest.mark.parametrize("fresh", [True, False])
def test_functions_see_all_elements_in_the_order_in_which_they_came(fresh: bool) -> None:
    source, run = random.Random(1), driver(window_function=Passes(), fresh=fresh)
    expected: dict[int, list[float]] = {}
    for _ in range(6):
        keys = [source.choice([1, 1, 1, 1, 2, 3, 4, 5, 6]) for _ in range(source.randint(1, 15))]
        records = [Record(key, source.random(), 5) for key in keys]
        for record in records:
            expected.setdefault(record.key, []).append(record.value)
        run.run([records[:5], records[5:]])
    run.run([], upto=MAX)
    found = {key: values for key, _, values in outputs(run)}
    assert found == expected
    assert {key: is_list for key, is_list, _ in outputs(run)} == {
        key: len(values) <= ordered_contents.MOST_IN_LIST for key, values in expected.items()
    }
    assert len(expected[1]) > ordered_contents.MOST_IN_LIST


def test_late_elements_find_those_that_were_there_before() -> None:
    run = driver(window_function=Passes(), allowed_lateness=100)
    run.run([[Record(1, float(n), 5) for n in range(12)]])
    run.run([], upto=20)
    run.run([[Record(1, 99.0, 5, 20)]], upto=MAX)
    assert [values for _, _, values in outputs(run)] == [[*map(float, range(12))], [*map(float, range(12)), 99.0]]


def test_what_only_a_list_can_do_is_told_with_what_to_write() -> None:
    class Sorted:
        def process(self, key: int, context: Any, elements: Any) -> Any:
            elements.sort()

    run = driver(window_function=Sorted())
    run.run([[Record(1, float(n), 5) for n in range(12)]])
    with pytest.raises(UserFunctionError, match=r"sorted\(elements\) makes a sorted list"):
        run.run([], upto=MAX)


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_a_column_in_pieces_are_those_of_the_whole(seed: int) -> None:
    source = np.random.default_rng(seed)
    texts = [pa.array([f"{n}-{row}" for row in range(source.integers(1, 9))]) for n in range(source.integers(1, 6))]
    column = ColumnPieces(Types.STRING(), texts)
    whole = column.whole().to_pylist()
    rows = source.integers(0, len(whole), 30)
    assert column.values(rows) == [whole[row] for row in rows]
    elements = StoredElements(column, rows)
    assert list(elements) == [whole[row] for row in rows]
    assert elements[3:9:2] == [whole[row] for row in rows[3:9:2]]
    assert repr(elements) == "<30 elements of a window>"


def test_nothing_is_made_of_more_elements_than_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    decode = ordered_contents.array_to_values
    monkeypatch.setattr(ordered_contents, "array_to_values", lambda t, a: made.append(len(a)) or decode(t, a))
    monkeypatch.setattr(ColumnPieces, "whole", lambda column: pytest.fail("the pieces need not be put together"))
    run = driver(window_function=lambda key, window, elements: [sum(element["value"] for element in elements)])
    for _ in range(3):
        run.run([[Record(1, 1.0, 5) for _ in range(9)]])
    run.run([], upto=MAX)
    assert outputs(run) == [27.0]
    assert sum(made) == 27
    assert max(made) <= 4


@pytest.mark.slow  # it writes, and reads twice, five million records
def test_five_million_records_of_a_key_take_less_than_two_gibibytes(tmp_path: Path) -> None:
    records = 5_000_000
    program = [sys.executable, "-m", "tests.operators.window.large_window", str(tmp_path), str(records)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    count, characters, below, mebibytes = map(int, done.stdout.split())
    assert (count, characters, below) == (records, 100 * records, records // 2)
    assert mebibytes < 2_048
