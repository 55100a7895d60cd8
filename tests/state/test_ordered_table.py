"""Ordered tables against a model: over epochs, merges, compactions and changes of parallelism."""

from __future__ import annotations

import dataclasses
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import StateMigrationError
from headrace.common.typeinfo import TypeInformation, Types
from headrace.state.compaction import plan_compaction
from headrace.state.keys.hashing import hash_array, partitions_of_hashes
from headrace.state.runs import ALL_HASHES, RunStore
from headrace.state.runs import merging as mergers
from headrace.state.runs.layout import LIVE
from headrace.state.runs.merge_input import NO_TIME, all_rows, newest
from headrace.state.runs.merging import MANY_RUNS, merge_runs, register_ordered_merger
from headrace.state.runs.sections import Section
from headrace.state.sorted_table import TableLayout, TimeSortedTable
from tests.state.harness import MAX_PARALLELISM, UID, Job

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.state.runs.merge_input import Combine

Row = tuple[int, int, bytes, int]
"""Time, key, namespace, value."""

COLUMNS = {
    "time": pa.int64(),
    "hash": pa.uint64(),
    "key": pa.int64(),
    "namespace": pa.binary(),
    "value": pa.int64(),
}
COMBINES: dict[str, Combine] = {"the newest": newest, "all": all_rows}


def layout(kind: str = "all", **about: Any) -> TableLayout:
    return TableLayout("rows", kind, pa.schema(COLUMNS), 4, {"keys": "long", **about}, {"keys": "key type"})


def typed(values: TypeInformation) -> TableLayout:
    """The same layout, whose values may become those of a wider type."""
    schema = pa.schema({**COLUMNS, "value": values.storage_type})
    return dataclasses.replace(layout(), schema=schema, values=values)


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    times, keys, names, values = zip(*rows, strict=True)
    column = pa.array(keys, pa.int64())
    arrays = [times, hash_array(column), column, names, values]
    types = COLUMNS.values()
    made = [pa.array(array, type_) for array, type_ in zip(arrays, types, strict=True)]
    return all_rows(layout().meta, [pa.RecordBatch.from_arrays(made, names=list(COLUMNS))])


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    return [
        tuple(row[name] for name in ("time", "key", "namespace", "value")) for b in batches for row in b.to_pylist()
    ]  # type: ignore[misc]


class Model:
    """What a table should hold: rows as they came, or the last of those that are equal but for their value."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.rows: list[Row] = []

    def append(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if self.kind == "the newest":
                self.rows = [other for other in self.rows if other[:3] != row[:3]]
            self.rows.append(row)

    def between(self, after: int, up_to: int) -> list[Row]:
        return sorted(row for row in self.rows if after < row[0] <= up_to)

    def next_above(self, time: int) -> int:
        return min((row[0] for row in self.rows if row[0] > time), default=NO_TIME)

    def forget(self, up_to: int) -> None:
        self.rows = [row for row in self.rows if row[0] > up_to]


class Tables:
    """The same table in all partitions of a job."""

    def __init__(self, job: Job, kind: str, *, trims: bool = False) -> None:
        self.job, self.kind, self.combine, self.trims = job, kind, COMBINES[kind], trims
        self.layout = layout(kind)
        self.tables: list[TimeSortedTable] = []

    def begin(self) -> None:
        stores = [operator.store("rows") for operator in self.job.begin()]
        self.tables = [TimeSortedTable(store, self.layout, self.combine, trims=self.trims) for store in stores]
        for table in self.tables:
            table.begin_epoch()

    def end(self) -> None:
        for table in self.tables:
            table.end_epoch()
        self.job.end()

    def append(self, rows: Sequence[Row]) -> None:
        batch = batch_of(rows)
        owners = partitions_of_hashes(batch.column("hash").to_numpy(), self.job.parallelism, MAX_PARALLELISM)
        for partition, table in enumerate(self.tables):
            table.append(batch.filter(pa.array(owners == partition)))

    def between(self, after: int, up_to: int) -> list[Row]:
        return self._combined([table.between(after, up_to) for table in self.tables])

    def up_to(self, time: int) -> list[Row]:
        return self._combined([table.up_to(time) for table in self.tables])

    def find(self, pairs: set[tuple[int, int]]) -> list[Row]:
        hashes = hash_array(pa.array([key for _, key in pairs], pa.int64())).tolist()
        wanted = sorted((time, hashed) for (time, _), hashed in zip(pairs, hashes, strict=True))
        times, ordered = (
            np.array(column, type_) for column, type_ in zip(zip(*wanted, strict=True), ("i8", "u8"), strict=True)
        )
        return self._combined([table.find(times, ordered) for table in self.tables])

    def _combined(self, found: list[list[pa.RecordBatch]]) -> list[Row]:
        return sorted(rows_of(self.combine(self.layout.meta, batches) for batches in found if batches))


@pytest.fixture(autouse=True)
def _kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mergers, "_MERGERS", dict(mergers._MERGERS))
    for name, combine in COMBINES.items():
        register_ordered_merger(name, combine)


@pytest.fixture(params=COMBINES)
def kind(request: pytest.FixtureRequest) -> str:
    """How rows that are equal in the columns of the order become one."""
    name: str = request.param
    return name


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 10))])
def test_a_table_is_as_its_model(seed: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(seed)
    monkeypatch.setattr("headrace.state.runs.merging.INLINE_ROWS", source.choice([0, 4, 50, 1 << 18]))
    monkeypatch.setattr("headrace.state.compaction.INLINE_ROWS", 1)
    monkeypatch.setattr("headrace.state.compaction.MANY_RUNS", 2)
    monkeypatch.setattr("headrace.state.runs.merge_input.FIRST_PROBE", source.choice([1, 3, 1024]))
    job = Job(inline_threshold=source.choice([0, 1 << 20]), keep=seed % 3 == 0)
    tables, model, values = Tables(job, kind, trims=seed % 2 == 0), Model(kind), iter(range(10**6))
    now = 0
    for _ in range(30):
        tables.begin()
        for _ in range(source.randint(0, 5)):
            rows = [
                (now + source.randint(-10, 40), source.randint(-3, 5), source.choice([b"", b"x", b"xy"]), next(values))
                for _ in range(source.randint(1, 15))
            ]
            if kind == "the newest":  # a batch has one row of each
                rows = list({row[:3]: row for row in rows}.values())
            tables.append(rows)
            model.append(rows)
            after = now + source.randint(-20, 20)
            until = after + source.randint(0, 30)
            assert tables.between(after, until) == model.between(after, until)
            assert tables.up_to(until) == model.between(MIN_WATERMARK - 1, until)
            pairs = {(now + source.randint(-10, 40), source.randint(-4, 6)) for _ in range(9)}
            assert tables.find(pairs) == sorted(row for row in model.rows if row[:2] in pairs)
            assert min(table.next_above(after) for table in tables.tables) == model.next_above(after)
            found = {time for table in tables.tables for time in table.times_between(after, until).tolist()}
            assert found == {row[0] for row in model.between(after, until)}
            if source.random() < 0.4:
                now += source.randint(0, 15)
                over = now - source.choice([0, 7])
                for table in tables.tables:
                    table.forget(over)
                model.forget(over)
        # With rows of other tasks in a run, a table may think that there is something earlier.
        assert min(table.first for table in tables.tables) <= model.next_above(MIN_WATERMARK - 1)
        tables.end()
        if source.random() < 0.3:
            job.compact()
            if source.random() < 0.4:
                job.hold()
        elif job.held and source.random() < 0.5:
            job.release()
        if source.random() < 0.2 and not job.results and not job.held:
            job.rescale(source.choice([1, 3, 4]))
    tables.begin()
    assert tables.up_to(MAX_WATERMARK) == sorted(model.rows)


def test_the_ends_of_time_are_times() -> None:
    table = TimeSortedTable(RunStore("rows", ALL_HASHES), layout(), all_rows)
    rows = [(MIN_WATERMARK, 1, b"", 1), (0, 1, b"", 2), (MAX_WATERMARK, 1, b"", 3)]
    for _ in range(2):
        table.begin_epoch()
        if table.first == NO_TIME:
            table.append(batch_of(rows))
        assert table.first == MIN_WATERMARK
        assert (table.next_above(MIN_WATERMARK), table.next_above(MAX_WATERMARK)) == (0, NO_TIME)
        assert rows_of(table.up_to(MAX_WATERMARK)) == rows
        assert rows_of(table.between(0, MAX_WATERMARK)) == rows[2:]
        table.end_epoch()


def test_the_keys_of_the_fullest_time_in_one_run() -> None:
    """Of what earlier epochs left and is not over; what this one appends does not count."""
    table = TimeSortedTable(RunStore("rows", ALL_HASHES), layout(), all_rows)
    table.begin_epoch()
    assert table.stored_keys() is None
    for epoch, (first, keys) in enumerate([(10, range(6)), (20, range(3, 7)), (20, range(1, 2))]):
        table.append(batch_of([(first + key % 2, key, b"", epoch) for key in keys]))
        table.end_epoch()
        table.begin_epoch()
    keys = table.stored_keys()
    assert keys is not None
    assert sorted(keys.keys.to_pylist()) == [0, 2, 4]
    assert keys.hashes.tolist() == sorted(hash_array(keys.keys).tolist())
    table.forget(11)
    table.append(batch_of([(30, key, b"", 9) for key in range(50)]))
    later = table.stored_keys()
    assert later is not None
    assert sorted(later.keys.to_pylist()) in ([3, 5], [4, 6])
    table.forget(21)
    assert table.stored_keys() is None


def test_only_what_is_due_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large run nothing behind the rows that are due is touched, nor in front of them once it is over."""
    touched: list[int] = []
    rows_of_section = Section.rows_of

    def noted(section: Section, name: str, start: int, stop: int) -> Any:
        touched.extend((start, stop - 1))
        return rows_of_section(section, name, start, stop)

    job = Job()
    tables = Tables(job, "all")
    tables.begin()
    tables.append([(time, time % 7, b"", time) for time in range(100_000)])
    tables.end()
    monkeypatch.setattr(Section, "rows_of", noted)
    tables.begin()
    (table,) = tables.tables
    assert table.first == 0
    assert not touched
    assert [len(batch) for batch in table.up_to(499)] == [500]
    assert max(touched) <= 2048
    table.forget(499)
    tables.end()
    touched.clear()
    tables.begin()
    assert tables.tables[0].first == 500
    assert not touched
    assert len(tables.between(499, 999)) == 500
    assert (min(touched), max(touched) <= 4096) == (500, True)


def test_rows_that_were_deleted_hide_older_ones_until_nothing_older_is_left() -> None:
    schema = pa.schema({**COLUMNS, LIVE: pa.bool_()})
    store = RunStore("rows", ALL_HASHES)
    table = TimeSortedTable(store, TableLayout("rows", "timers", schema, 4, {}), newest)
    for live in (True, False):
        table.begin_epoch()
        rows = batch_of([(5, key, b"", 0) for key in ((1, 2) if live else (2, 3))])
        table.append(rows.append_column(LIVE, pa.array([live] * 2)))
        table.end_epoch()
        if live:
            first = store.runs
    assert [run.rows for run in store.runs] == [1]  # of key 1
    again = RunStore("rows", ALL_HASHES, first)
    again.append(rows.append_column(LIVE, pa.array([False] * 2)), store.runs[0].meta)
    merged, _ = merge_runs(again.runs, is_oldest=False, now=0)
    assert merged is not None
    assert sorted(zip(merged.column("key").to_pylist(), merged.column(LIVE).to_pylist(), strict=True)) == [
        (1, True),
        (2, False),
        (3, False),
    ]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_values_of_another_type_at_another_parallelism(parallelism: int) -> None:
    """Each task rewrites its own rows, of those that are not over; none is lost, and none comes back."""
    job = Job()
    tables = Tables(job, "all")
    tables.layout = typed(Types.LONG())
    rows = [(time, time + 100 * key, b"", time) for time in range(100) for key in range(5)]
    for over in (-1, 29):
        tables.begin()
        if over < 0:
            tables.append(rows)
        tables.tables[0].forget(over)
        tables.end()
    job.rescale(parallelism)
    tables.layout = typed(Types.DOUBLE())
    for _ in range(2):
        tables.begin()
        assert min(table.first for table in tables.tables) == 30
        assert tables.up_to(MAX_WATERMARK) == sorted(row for row in rows if row[0] > 29)
        tables.end()
        job.compact()
        job.rescale(4 - parallelism)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_columns_of_another_name_at_another_parallelism(parallelism: int) -> None:
    job = Job()
    tables = Tables(job, "all")
    tables.layout = layout(column="before")
    rows = [(time, time + 100 * key, b"", time) for time in range(100) for key in range(5)]
    for over in (-1, 29):
        tables.begin()
        if over < 0:
            tables.append(rows)
        tables.tables[0].forget(over)
        tables.end()
    job.rescale(parallelism)
    renamed = dataclasses.replace(layout(column="after"), named_now=lambda about: {**about, "column": "after"})
    tables.layout = renamed
    for _ in range(2):
        tables.begin()
        assert min(table.first for table in tables.tables) == 30
        assert tables.up_to(MAX_WATERMARK) == sorted(row for row in rows if row[0] > 29)
        tables.end()
        job.rescale(4 - parallelism)


def test_a_run_of_which_no_row_counts_goes_when_values_change_their_type() -> None:
    job = Job()
    tables = Tables(job, "all")
    tables.layout = typed(Types.LONG())
    tables.begin()
    tables.append([(1, 5, b"", 1)])  # one key, so that three of four tasks have none
    tables.end()
    job.rescale(4)
    tables.layout = typed(Types.DOUBLE())
    tables.begin()
    assert sorted(table.first for table in tables.tables) == [1, NO_TIME, NO_TIME, NO_TIME]
    tables.end()


@pytest.mark.parametrize(
    ("declared", "difference"),
    [
        (layout(keys="string"), "another key type: stored long, declared string"),
        (layout("the newest"), "another kind: stored all, declared the newest"),
        (layout(size=10), None),  # earlier versions may not have said it
        (TableLayout("rows", "all", pa.schema({**COLUMNS, "value": pa.string()}), 4, {}), "other columns"),
    ],
)
def test_what_is_stored_must_be_what_is_declared(declared: TableLayout, difference: str | None) -> None:
    store = RunStore("rows", ALL_HASHES)
    table = TimeSortedTable(store, layout(), all_rows)
    table.begin_epoch()
    table.append(batch_of([(1, 1, b"", 1)]))
    table.end_epoch()
    if difference is None:
        TimeSortedTable(store, declared, all_rows)
    else:
        with pytest.raises(StateMigrationError, match=f"rows were stored with {difference}"):
            TimeSortedTable(store, declared, all_rows)


def test_a_few_large_runs_are_left_to_whoever_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.state.compaction.INLINE_ROWS", 10)
    monkeypatch.setattr("headrace.state.sorted_table.SMALL_ROWS", 0)
    job = Job()
    tables = Tables(job, "all")
    for count in range(1, 7):
        tables.begin()
        tables.append([(time, count, b"", 0) for time in range(100)])
        tables.end()
        assert len(job._open(0).store(UID, "rows").runs) == count
        assert job.compact() == (count > MANY_RUNS)


def test_a_run_that_is_mostly_over_is_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.state.compaction.INLINE_ROWS", 10)
    job = Job()
    tables = Tables(job, "all")
    for over in (-1, 74, 79):
        tables.begin()
        if over < 0:
            tables.append([(time, 1, b"", 0) for time in range(100)])
        tables.tables[0].forget(over)
        tables.end()
        assert job.compact() == (over == 79)
    tables.begin()
    assert len(tables.up_to(100)) == 20
    tables.end()
    assert job._open(0).store(UID, "rows").rows == 20


@pytest.mark.parametrize("most_runs", [3, 20])
def test_a_run_that_is_full_is_not_merged_any_more(most_runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what windows hold nothing hides anything: to write it anew would cost the more the more there is."""
    monkeypatch.setattr("headrace.state.compaction.INLINE_ROWS", 10)
    monkeypatch.setattr("headrace.state.sorted_table.SMALL_ROWS", 0)
    monkeypatch.setattr("headrace.state.runs.merging.MAX_RUNS", most_runs)
    most = 20_000
    monkeypatch.setattr("headrace.state.runs.merging.MOST_INLINE_BYTES", most)
    monkeypatch.setattr("headrace.state.compaction.MOST_BYTES", most)
    monkeypatch.setattr("headrace.state.compaction.FULL_BYTES", most // 2)
    job = Job()
    tables = Tables(job, "all")
    rewritten = 0
    for count in range(60):
        tables.begin()
        tables.append([(time, count, b"", 0) for time in range(10, 60)])
        tables.end()
        for task in plan_compaction(job.storage, job.refs[0]):
            rewritten += sum(entry["rows"] for entry in task.runs)
            assert sum(entry["size"] for entry in task.runs) <= most
        job.compact()
    tables.begin()
    assert [row[:2] for row in tables.up_to(10)] == [(10, count) for count in range(60)]
    tables.end()
    sizes = [run.section.size for run in job._open(0).store(UID, "rows").runs]
    assert max(sizes) <= most
    assert sum(size > most // 2 for size in sizes) > len(sizes) // 2
    assert rewritten <= 2 * 60 * 50  # each row once or twice, and not with every run that comes


def test_a_full_run_is_written_anew_once_it_is_mostly_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.state.compaction.INLINE_ROWS", 10)
    monkeypatch.setattr("headrace.state.compaction.FULL_BYTES", 100)
    job = Job()
    tables = Tables(job, "all")
    for over in (-1, 50, 79):
        tables.begin()
        if over < 0:
            tables.append([(time, 1, b"", 0) for time in range(100)])
        tables.tables[0].forget(over)
        tables.end()
        assert job.compact() == (over == 79)


@pytest.mark.parametrize(("few", "is_written_anew"), [(40, True), (39, False)])
def test_runs_that_are_mostly_over_are_written_anew(
    few: int, is_written_anew: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So much as an epoch can afford, which counts the rows of all runs that it writes anew."""
    monkeypatch.setattr("headrace.state.runs.merging.INLINE_ROWS", few)
    store = RunStore("rows", ALL_HASHES)
    table = TimeSortedTable(store, layout(), all_rows, 0, trims=True)
    for key in (1, 2):
        table.begin_epoch()
        table.append(batch_of([(time, key, b"", 0) for time in range(100)]))
        table.end_epoch()
    for over, rows in ((49, [100, 100]), (79, [20, 20 if is_written_anew else 100])):
        table.begin_epoch()
        table.forget(over)
        table.end_epoch()
        assert [run.rows for run in store.runs] == rows
    table.begin_epoch()
    assert len(rows_of(table.up_to(MAX_WATERMARK))) == 40


def test_an_epoch_that_adds_many_rows_can_afford_to_write_as_many_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.state.runs.merging.INLINE_ROWS", 1)
    store = RunStore("rows", ALL_HASHES)
    table = TimeSortedTable(store, layout(), all_rows, 0, trims=True)
    for added, rows in ((100, [100]), (4, [100, 4]), (5, [20, 4, 5])):
        table.begin_epoch()
        table.append(batch_of([(100 * (added < 100) + time, 1, b"", 0) for time in range(added)]))
        table.forget(79 if added < 100 else -1)
        table.end_epoch()
        assert [run.rows for run in store.runs] == rows
