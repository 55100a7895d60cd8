from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.data import GrowingState, Pairs, RandomKeys, dataset, first_files
from benchmarks.outcome import Assignment
from benchmarks.programs import duckdb_batch
from benchmarks.truth import (
    GAP_MILLIS,
    HALF_WINDOW_MILLIS,
    LEFT_BELOW,
    NEAR_MILLIS,
    SLIDE_MILLIS,
    TRIGGER_COUNT,
    WINDOW_MILLIS,
    WrongResultError,
    check,
    co_group_totals,
    interval_join_totals,
    lonely_totals,
    median_totals,
    outer_join_totals,
    process_totals,
    session_totals,
    sliding_join_totals,
    sliding_totals,
    trigger_totals,
    window_join_totals,
    window_totals,
)

SPEC = RandomKeys(files=3, records_per_file=400, keys=50)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return dataset(SPEC, tmp_path)


def rows(folder: Path) -> list[dict]:
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def test_a_data_set_is_made_once_and_in_the_order_of_its_names(folder: Path) -> None:
    paths = sorted(folder.glob("*.parquet"))
    assert [pq.read_metadata(path).num_rows for path in paths] == [400] * 3
    assert paths == sorted(paths, key=lambda path: path.stat().st_mtime)
    assert dataset(SPEC, folder.parent) == folder
    assert [path.stat().st_mtime for path in sorted(folder.glob("*"))] == [path.stat().st_mtime for path in paths]


def test_string_keys_name_the_same_cards(tmp_path: Path, folder: Path) -> None:
    strings = rows(dataset(RandomKeys(3, 400, 50, strings=True), tmp_path))
    assert [row["key"] for row in strings] == [f"card-{row['key']:06d}" for row in rows(folder)]


def test_growing_state_has_every_key_once_then_the_same_few(tmp_path: Path) -> None:
    folder = dataset(GrowingState(keys=40, touched=10, rounds=3), tmp_path)
    files = [pq.read_table(path).column("key").to_pylist() for path in sorted(folder.glob("*.parquet"))]
    assert sorted(chain(*files[:4])) == list(range(40))
    assert files[4] == files[5] == files[6]
    assert sorted(files[4]) == list(range(0, 40, 4))


def test_first_files(tmp_path: Path, folder: Path) -> None:
    part = first_files(folder, 2, tmp_path / "part")
    assert [path.name for path in sorted(part.iterdir())] == ["part-00000.parquet", "part-00001.parquet"]


@pytest.mark.parametrize(
    ("work", "truth"), [("window", lambda folder: window_totals(folder, 1 << 50)), ("process", process_totals)]
)
def test_the_limit_computes_what_all_have_to(
    work: str, truth: Callable[[Path], dict[str, float]], folder: Path
) -> None:
    outcome = duckdb_batch.run(Assignment(folder, 400, folder, {"work": work}))
    check("DuckDB", outcome.totals, truth(folder))
    assert {epoch.records for epoch in outcome.epochs} == {400}


Windows = dict[tuple[int, int], list[float]]
"""The values by key and end of window."""


def in_windows(folder: Path, size: int, slide: int) -> Windows:
    found: Windows = defaultdict(list)
    for row in rows(folder):
        first = millis_of(row) // slide * slide + slide
        for end in range(first, first + size, slide):
            if end - size <= millis_of(row):
                found[row["key"], end].append(row["value"])
    return found


def in_sessions(folder: Path) -> Windows:
    found: Windows = {}
    latest: dict[int, int] = {}
    for row in sorted(rows(folder), key=millis_of):
        key, end = row["key"], millis_of(row) + GAP_MILLIS
        before = latest.get(key)
        values = found.pop((key, before)) if before is not None and before >= millis_of(row) else []
        found[key, end] = [*values, row["value"]]
        latest[key] = end
    return found


def millis_of(row: dict) -> int:
    return round(row["ts"].timestamp() * 1000)


def middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("windows_of", "truth", "total"),
    [
        (lambda folder: in_windows(folder, WINDOW_MILLIS, WINDOW_MILLIS), window_totals, sum),
        (lambda folder: in_windows(folder, WINDOW_MILLIS, SLIDE_MILLIS), sliding_totals, sum),
        (in_sessions, session_totals, sum),
        (lambda folder: in_windows(folder, WINDOW_MILLIS, WINDOW_MILLIS), median_totals, middle),
    ],
    ids=["tumbling", "sliding", "session", "median"],
)
def test_totals_of_windows_are_what_a_loop_finds(
    windows_of: Callable[[Path], Windows],
    truth: Callable[[Path, float], dict[str, float]],
    total: Callable[[list[float]], float],
    folder: Path,
) -> None:
    windows = windows_of(folder)
    ends = sorted({end for _, end in windows})
    for last in (ends[0], ends[len(ends) // 2], ends[-1]):
        closed = [values for (_, end), values in windows.items() if end <= last]
        expected = {"rows": len(closed), "count": sum(map(len, closed)), "sum": sum(map(total, closed))}
        found = truth(folder, last)
        assert found.pop("last_end", last) == last
        assert found == pytest.approx(expected, rel=1e-12)
    assert truth(folder, ends[0] - 1)["rows"] == 0


def test_trigger_totals_are_what_a_loop_finds(tmp_path: Path) -> None:
    folder = dataset(RandomKeys(files=2, records_per_file=400, keys=7), tmp_path)
    counts = [
        count
        for values in in_windows(folder, WINDOW_MILLIS, WINDOW_MILLIS).values()
        for count in range(TRIGGER_COUNT, len(values) + 1, TRIGGER_COUNT)
    ]
    assert len(counts) > 30
    assert trigger_totals(folder) == {"rows": len(counts), "count": sum(counts)}


def test_process_totals_are_what_a_loop_finds(folder: Path) -> None:
    state: dict[int, tuple[int, float]] = {}
    emitted = []
    for row in rows(folder):
        count, total = state.get(row["key"], (0, 0.0))
        state[row["key"]] = count + 1, total + row["value"]
        if row["key"] % 1000 == 0:
            emitted.append(state[row["key"]])
    expected = {"rows": len(emitted), "count": sum(c for c, _ in emitted), "highest": max(s for _, s in emitted)}
    assert process_totals(folder) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("totals", "matches"),
    [
        (interval_join_totals, lambda left, right: abs(left - right) <= NEAR_MILLIS),
        (window_join_totals, lambda left, right: left // WINDOW_MILLIS == right // WINDOW_MILLIS),
    ],
)
def test_totals_of_joins_are_what_a_loop_finds(
    totals: Callable[[Path], dict[str, float]], matches: Callable[[int, int], bool], folder: Path
) -> None:
    records = [(row["key"], millis_of(row), row["value"]) for row in rows(folder)]
    sums = [
        value + other_value
        for key, time, value in records
        for other, other_time, other_value in records
        if key == other and value < LEFT_BELOW <= other_value and matches(time, other_time)
    ]
    assert totals(folder) == pytest.approx({"rows": len(sums), "sum": sum(sums)}, rel=1e-9)


def test_totals_of_an_outer_join_have_those_without_a_partner(folder: Path) -> None:
    records = [(row["key"], millis_of(row), row["value"]) for row in rows(folder)]
    alone = sum(
        all(
            key != other or abs(time - at) > NEAR_MILLIS or (value < LEFT_BELOW) == (near < LEFT_BELOW)
            for other, at, near in records
        )
        for key, time, value in records
    )
    pairs = interval_join_totals(folder)
    assert 50 < alone < len(records) - 50
    assert outer_join_totals(folder) == pytest.approx({"rows": pairs["rows"] + alone, "sum": pairs["sum"]})
    assert lonely_totals(folder) == {"rows": len(records)}


def test_totals_of_a_join_of_sliding_windows_have_a_pair_in_each(folder: Path) -> None:
    def windows(time: int) -> set[int]:
        return {time // HALF_WINDOW_MILLIS, time // HALF_WINDOW_MILLIS + 1}

    records = [(row["key"], millis_of(row), row["value"]) for row in rows(folder)]
    sums = [
        value + other_value
        for key, time, value in records
        for other, other_time, other_value in records
        if key == other and value < LEFT_BELOW <= other_value
        for _ in windows(time) & windows(other_time)
    ]
    assert sliding_join_totals(folder) == pytest.approx({"rows": len(sums), "sum": sum(sums)}, rel=1e-9)


@pytest.mark.parametrize("is_hot", [False, True])
def test_pairs_and_groups_of_a_hot_key(tmp_path: Path, is_hot: bool) -> None:
    """Every other record has it, and some partners; a co-group has the sum of all records of a key and a minute."""
    folder = dataset(Pairs(3, 400, 50, 1_875, is_hot), tmp_path)
    groups: dict[tuple[int, int], float] = defaultdict(float)
    for row in rows(folder):
        groups[row["key"], millis_of(row) // WINDOW_MILLIS] += row["value"]
    assert co_group_totals(folder) == pytest.approx({"rows": len(groups), "sum": sum(groups.values())}, rel=1e-9)
    pairs = interval_join_totals(folder)["rows"]
    assert (pairs > 2_000) == is_hot
    assert sum(row["key"] == 1 for row in rows(folder)) > (600 if is_hot else 0)


def test_check_wants_results_and_the_right_ones() -> None:
    check("x", {"rows": 2, "sum": 1.0 + 1e-12}, {"rows": 2.0, "sum": 1.0})
    with pytest.raises(WrongResultError, match="no results"):
        check("x", {"rows": 0}, {"rows": 2})
    check("x", {"rows": 0}, {"rows": 0})
    with pytest.raises(WrongResultError, match=r"x: sum is 1\.1, should be 1\.0"):
        check("x", {"rows": 2, "sum": 1.1}, {"rows": 2, "sum": 1.0})
    with pytest.raises(WrongResultError, match="sum is None"):
        check("x", {"rows": 2}, {"rows": 2, "sum": 1.0})
