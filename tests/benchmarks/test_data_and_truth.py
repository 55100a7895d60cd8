from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.data import GrowingState, RandomKeys, dataset, first_files
from benchmarks.outcome import Assignment
from benchmarks.programs import duckdb_batch
from benchmarks.truth import WrongResultError, check, process_totals, window_totals

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


def test_window_totals_are_what_a_loop_finds(folder: Path) -> None:
    windows: dict[tuple, list[float]] = defaultdict(list)
    for row in rows(folder):
        start = int(row["ts"].timestamp() * 1000) // 60_000 * 60_000
        windows[row["key"], start].append(row["value"])
    last = sorted({start for _, start in windows})[-2]
    closed = [values for (_, start), values in windows.items() if start <= last]
    expected = {
        "rows": len(closed),
        "count": sum(map(len, closed)),
        "sum": sum(map(sum, closed)),
        "last_start": last,
    }
    assert window_totals(folder, last) == pytest.approx(expected, rel=1e-12)


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


def test_check_wants_results_and_the_right_ones() -> None:
    check("x", {"rows": 2, "sum": 1.0 + 1e-12}, {"rows": 2.0, "sum": 1.0})
    with pytest.raises(WrongResultError, match="no results"):
        check("x", {"rows": 0}, {"rows": 0})
    with pytest.raises(WrongResultError, match=r"x: sum is 1\.1, should be 1\.0"):
        check("x", {"rows": 2, "sum": 1.1}, {"rows": 2, "sum": 1.0})
    with pytest.raises(WrongResultError, match="sum is None"):
        check("x", {"rows": 2}, {"rows": 2, "sum": 1.0})
