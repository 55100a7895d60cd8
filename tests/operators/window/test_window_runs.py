"""What windows leave in state between epochs: how much, for how long, and how it survives merging and rescaling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from test_against_model import columnar, row_apply, row_fold
from window_harness import Driver, context
from window_model import MAX, Record

from headrace.operators.window import stored_windows
from headrace.operators.window.columnar.accumulators import Accumulators
from headrace.state.hashmap_backend import HashMapOperatorStates
from headrace.state.keys.hashing import hash_array
from headrace.state.runs import RunStore
from headrace.state.runs.merging import merge_runs
from headrace.state.runs.sections import Section
from headrace.windowing.intervals import AlignedWindows

MAKES = pytest.mark.parametrize("make", [columnar, row_apply, row_fold])
TENS = AlignedWindows(10, 10)


def driver(make: Any, windows: AlignedWindows = TENS, lateness: int = 0, fresh: bool = True) -> Driver:
    return Driver(lambda: make(windows, lateness, None), fresh=fresh)


def runs(run: Driver) -> list[Any]:
    return list(run.state.store("windows").runs)


@MAKES
def test_windows_that_open_and_close_in_an_epoch_are_never_written(make: Any) -> None:
    run = driver(make)
    run.run([[Record(1, 1.0, t) for t in range(50)]], upto=49)
    assert runs(run) == []
    assert len(run.out.rows) == 5


@MAKES
def test_runs_are_sorted_and_described(make: Any) -> None:
    run = driver(make)
    run.run([[Record(k, 1.0, t) for t in (25, 5, 15) for k in (2, 0, 1)]])
    (only,) = runs(run)
    table = only.table
    assert only.meta["sort"] == ["window_end", "hash", "key"] == table.column_names[:3]
    rows = list(zip(*(table.column(name).to_pylist() for name in table.column_names[:3]), strict=True))
    assert rows == sorted(rows)
    assert (only.meta["low"], only.meta["next"]) == (0, 10)


@MAKES
def test_runs_go_when_all_their_windows_are_over(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.state.runs.merging.INLINE_ROWS", 0)
    run = driver(make, lateness=5)
    run.run([[Record(1, 1.0, 5), Record(1, 1.0, 15)]])
    run.run([[Record(1, 1.0, 25)]])
    counts = []
    for watermark in (9, 14, 19, 23, 24, 33, 34):
        run.run([], upto=watermark)
        counts.append(len(runs(run)))
    assert counts == [2, 2, 2, 2, 1, 1, 0]


@pytest.mark.sampled(1)
@MAKES
@pytest.mark.parametrize("fresh", [True, False])
def test_many_small_runs_become_few(make: Any, fresh: bool) -> None:
    run = driver(make, AlignedWindows(1000, 1000), fresh=fresh)
    for i in range(100):
        run.run([[Record(i % 7, float(i), i), Record(0, 1.0, i)]])
        assert len(runs(run)) < 16
    run.run([], upto=MAX)
    assert sum(row[5] for row in run.out.rows) == 200
    assert sum(row[7] for row in run.out.rows) == sum(range(100)) + 100


@MAKES
def test_compaction(make: Any) -> None:
    """Runs may be merged at any time."""
    plain, compacted = (driver(make, AlignedWindows(30, 15), lateness=20) for _ in range(2))
    rng = np.random.default_rng(5)
    for i in range(12):
        records = [Record(int(k), float(v), 5 * i + int(t), 5 * i - 10) for k, v, t in rng.integers(0, 9, (20, 3))]
        plain.run([records])
        compacted.run([records])
        if i % 3 == 2:
            compact(compacted.state.store("windows"))
    for run in (plain, compacted):
        run.run([], upto=MAX)
    assert compacted.out.rows == plain.out.rows
    assert plain.out.rows


def compact(store: RunStore) -> None:
    old = store.runs
    table, meta = merge_runs(old, is_oldest=True, now=0)
    store.replace(old, table, meta)
    assert len(store.runs) == 1


@MAKES
def test_rescaling(make: Any) -> None:
    """Each of two subtasks takes over the runs of one, and sees only its own keys."""
    keys = list(range(20))
    hashed = hash_array(pa.array(keys)).tolist()
    old = driver(make)
    old.run([[Record(k, 1.0, 5) for k in keys], [Record(k, 2.0, 15) for k in keys]])
    rows = []
    for half in ((0, 2**63), (2**63, 2**64)):
        part = driver(make)
        part.state.stores["windows"] = RunStore("windows", half, [run.restricted(half) for run in runs(old)])
        mine = [k for k, h in zip(keys, hashed, strict=True) if half[0] <= h < half[1]]
        part.epoch, part.fresh = 1, False
        operator = _opened(part)
        operator.process(0, part.batch([Record(k, 3.0, 15) for k in mine]))
        operator.advance_watermark(MAX)
        part._end(operator)
        rows += [(row[2], row[4], row[5], row[7]) for row in part.out.rows]
    assert sorted(rows) == sorted([(k, 10, 1, 1.0) for k in keys] + [(k, 20, 2, 5.0) for k in keys])


def _opened(run: Driver) -> Any:
    run.operator_state = HashMapOperatorStates("w", run.state.store)
    run.operator_state.bind_key_codec(run.codec)
    run.operator = run.make()
    run.operator.open(context(run.operator_state), run.out)
    return run._begin()


def test_large_batches_are_aggregated_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [Record(i % 50, 1.0, i % 30) for i in range(2000)]
    whole = driver(columnar)
    whole.run([records], upto=MAX)
    monkeypatch.setattr("headrace.operators.window.columnar.windows_by_end._WAITING_ROWS", 64)
    monkeypatch.setattr("headrace.operators.window.columnar.windows_by_end.merge_blocks.__defaults__", (100,))
    pieces = driver(columnar)
    pieces.run([records[i : i + 50] for i in range(0, 2000, 50)], upto=MAX)
    assert pieces.out.rows == whole.out.rows
    assert len(pieces.out.batches) > 1


@pytest.mark.parametrize(
    ("keys", "most_bytes", "pieces"),
    [
        pytest.param(4, 1 << 20, [64, 64, 64, 64, 64], id="few keys"),
        pytest.param(1000, 1 << 20, [64, 256], id="many keys"),
        pytest.param(1000, 4096, [64, 128, 128], id="many keys, as many as memory takes"),
        pytest.param(1000, 1000, [64, 64, 64, 64, 64], id="many keys of large records"),
    ],
)
def test_more_records_wait_where_they_do_not_become_fewer(
    monkeypatch: pytest.MonkeyPatch, keys: int, most_bytes: int, pieces: list[int]
) -> None:
    monkeypatch.setattr("headrace.operators.window.columnar.windows_by_end._WAITING_ROWS", 64)
    monkeypatch.setattr("headrace.operators.window.columnar.windows_by_end._WAITING_BYTES", most_bytes)
    aggregated: list[int] = []
    of_chunk = Accumulators.of_chunk

    def noted(aggregators: Any, chunk: Any, *known: Any) -> Accumulators:
        aggregated.append(len(chunk))
        return of_chunk(aggregators, chunk, *known)

    monkeypatch.setattr(Accumulators, "of_chunk", staticmethod(noted))
    run = driver(columnar)
    run.run([[Record(i % keys, 1.0, 5) for i in range(start, start + 32)] for start in range(0, 320, 32)], upto=8)
    assert aggregated == pieces
    run.run([], upto=MAX)
    assert sum(row[5] for row in run.out.rows) == 320


def test_nothing_is_read_while_records_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.state.runs.merging.INLINE_ROWS", 0)
    run = driver(columnar)
    run.run([[Record(k, 1.0, 5) for k in range(5)]])

    (stored,) = runs(run)
    rows_of = Section.rows_of

    def no_reading(section: Section, *arguments: Any) -> Any:
        assert section is not stored.section, "state was read"
        return rows_of(section, *arguments)

    monkeypatch.setattr(Section, "rows_of", no_reading)
    run.run([[Record(k, 1.0, 6) for k in range(5)]], upto=8)
    assert len(runs(run)) == 2


def test_names_of_kinds_are_part_of_the_format() -> None:
    assert (stored_windows.ACCUMULATORS_KIND, stored_windows.VALUES_KIND, stored_windows.ELEMENTS_KIND) == (
        "window-partials",
        "window-values",
        "window-elements",
    )


@pytest.mark.slow
def test_sliding_batches_are_cut_to_bound_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [Record(i % 5, 1.0, i % 40, i // 4) for i in range(300)]
    whole, pieces = (driver(columnar, AlignedWindows(30, 3), lateness=4) for _ in range(2))
    whole.run([records], upto=MAX)
    monkeypatch.setattr("headrace.operators.window.columnar.time_windows.MOST_PAIRS", 70)
    pieces.run([records], upto=MAX)
    assert pieces.out.rows == whole.out.rows
