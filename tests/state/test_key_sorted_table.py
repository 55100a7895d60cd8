"""Tables sorted by key: against a model, over epochs, merges and rescaling; and what expires when."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.common.constants import MAX_WATERMARK
from headrace.common.errors import StateMigrationError
from headrace.common.typeinfo import Types
from headrace.operators.join.find_pairs import RECORD, TIME, JoinInterval, log_layout
from headrace.state import key_sorted_table
from headrace.state.backend import DEFAULT_BACKEND, ROCKSDB_BACKEND, StateBackendPlugin
from headrace.state.compaction import adopt
from headrace.state.key_sorted_table import KeySortedTable, key_sorted, register_key_sorted_merger
from headrace.state.keys import KeyCodec, KeyColumn, hashing
from headrace.state.keys.hashing import partitions_of_hashes
from headrace.state.runs import ALL_HASHES, Run, RunStore, merging
from headrace.state.runs.layout import HASH, KEY, LIVE, RETAINED_UNTIL, SHOWN
from headrace.state.runs.merging import can_be_rewritten, merge_runs, merged_pieces
from headrace.state.runs.run import order_of_keys
from headrace.state.runs.sections import Section
from headrace.state.sorted_table import TableLayout
from tests.draws import draws
from tests.state.harness import MAX_PARALLELISM, Job

CODEC = KeyCodec.for_type(Types.STRING())
KEPT = 10


def batch_of(*rows: tuple[int, str, int], came_at_end: bool = False) -> pa.RecordBatch:
    """Rows of hash, key and time, in order; the record of each is its place."""
    hashes, keys, times = zip(*rows, strict=True)
    until = [time + KEPT + came_at_end for time in times]
    columns = [pa.array(hashes, pa.uint64()), keys, times, until, range(len(rows))]
    schema = log_layout(CODEC, Types.LONG(), KEPT, is_outer=False).schema
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    whole = pa.RecordBatch.from_arrays(arrays, schema=schema)
    order, _ = key_sorted(whole.column(HASH).to_numpy(), whole.column(KEY), whole.column(TIME).to_numpy())
    return whole.take(pa.array(order))


def log_of(store: RunStore, watermark: int = MAX_WATERMARK) -> KeySortedTable:
    log = KeySortedTable(store, log_layout(CODEC, Types.LONG(), KEPT, is_outer=False))
    log.begin_epoch(watermark)
    return log


def times_of(store: RunStore) -> list[Any]:
    return [run.batch.column(TIME).to_pylist() for run in store.runs]


def test_rows_are_by_hash_key_and_time_and_else_as_they_came() -> None:
    batch = batch_of((7, "b", 2), (3, "a", 5), (7, "b", 1), (7, "b", 2), (3, "a", 4))
    assert batch.column(RECORD).to_pylist() == [4, 1, 2, 0, 3]


def test_keys_that_share_a_hash_are_apart() -> None:
    batch = batch_of((7, "b", 2), (7, "a", 3), (7, "b", 1), (7, "a", 4), (9, "c", 1))
    assert batch.column(KEY).to_pylist() == ["a", "a", "b", "b", "c"]
    _, numbers = key_sorted(batch.column(HASH).to_numpy(), batch.column(KEY), batch.column(TIME).to_numpy())
    assert numbers.tolist() == [0, 0, 1, 1, 2]


@pytest.mark.parametrize(("key", "expected"), [("a", (0, 2)), ("b", (2, 4)), ("d", (0, 0))])
def test_a_key_is_found_among_others_with_its_hash(key: str, expected: tuple[int, int]) -> None:
    source = Section(batch_of((7, "b", 2), (7, "a", 3), (7, "b", 1), (7, "a", 4)))
    keys = KeyColumn(pa.array([key]), np.array([7], np.uint64))
    firsts, lasts = key_sorted_table._ranges_of_keys(source, keys)
    assert (firsts.tolist(), lasts.tolist()) == ([expected[0]], [expected[1]])


def test_the_last_hash_of_all_is_found() -> None:
    source = Section(batch_of((2**64 - 1, "z", 1), (0, "a", 1)))
    keys = KeyColumn(pa.array(["a", "z"]), np.array([0, 2**64 - 1], np.uint64))
    firsts, lasts = key_sorted_table._ranges_of_keys(source, keys)
    assert (firsts.tolist(), lasts.tolist()) == ([0, 1], [1, 2])


def test_only_keys_are_looked_for_whose_hashes_a_section_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was taken in of a savepoint is in many of them, each with a range of hashes of its own."""
    asked: list[int] = []
    ranges = Section.ranges_of_hashes
    monkeypatch.setattr(
        Section, "ranges_of_hashes", lambda self, hashes: asked.extend(hashes.tolist()) or ranges(self, hashes)
    )
    source = Section(batch_of((7, "a", 3), (7, "a", 4), (9, "c", 1)))
    keys = KeyColumn(pa.array(["z", "a", "b", "c", "d"]), np.array([3, 7, 8, 9, 10], np.uint64))
    firsts, lasts = key_sorted_table._ranges_of_keys(source, keys)
    assert (lasts - firsts).tolist() == [0, 2, 0, 1, 0]
    assert asked == [7, 8, 9]
    asked.clear()
    assert [ends.tolist() for ends in key_sorted_table._ranges_of_keys(source, keys.slice(0, 1))] == [[0]] * 2
    assert not asked
    nothing = Section(pa.RecordBatch.from_pylist([], source.schema))
    assert [ends.tolist() for ends in key_sorted_table._ranges_of_keys(nothing, keys)] == [[0] * 5] * 2


def test_what_is_over_is_not_stored_and_a_run_goes_as_a_whole() -> None:
    store = RunStore("log", ALL_HASHES)
    log = log_of(store)
    log.append(batch_of((1, "a", 5), (1, "a", 6), (2, "b", 20)), watermark=15)
    log.end_epoch(15)
    assert times_of(store) == [[6, 20]]
    log = log_of(store)
    assert [section.rows for section in log.sections(29)] == [2]
    assert log.sections(30) == []
    log.end_epoch(30)
    assert times_of(store) == []


def test_a_row_that_came_at_its_end_is_retained_until_the_watermark_goes_on() -> None:
    store = RunStore("log", ALL_HASHES)
    log = log_of(store)
    log.append(batch_of((1, "a", 5), came_at_end=True), watermark=15)
    log.end_epoch(15)
    assert times_of(store) == [[5]]
    log_of(store).end_epoch(16)
    assert times_of(store) == []


def test_a_merge_leaves_out_what_was_over_when_the_newest_run_was_written() -> None:
    store = RunStore("log", ALL_HASHES)
    log = log_of(store)
    log.append(batch_of(*((1, "a", time) for time in range(100))), watermark=0)
    log.end_epoch(0)
    log = log_of(store)
    log.append(batch_of((1, "a", 99)), watermark=50)
    log.end_epoch(50)
    assert [len(times) for times in times_of(store)] == [100, 1]
    merged, _ = merge_runs(store.runs, is_oldest=True, now=0)
    assert merged.column(TIME).to_pylist() == [*range(41, 100), 99]
    assert merged.column(RECORD).to_pylist() == [*range(41, 100), 0]


def test_a_task_knows_of_no_later_watermark_than_its_own() -> None:
    """A run of a subtask that was ahead does not say what is over of the keys of another one."""
    ahead, behind = (RunStore("log", hashes) for hashes in ((0, 5), (5, 10)))
    for store, row, watermark in ((ahead, (1, "a", 92), 101), (behind, (7, "b", 90), 89)):
        log = log_of(store)
        log.append(batch_of(row), watermark)
        log.end_epoch(watermark)
    both = RunStore("log", ALL_HASHES, [*ahead.runs, *behind.runs])
    log_of(both).end_epoch(89)
    assert times_of(both) == [[92, 90]]


def test_a_merge_before_the_first_epoch_takes_no_task_to_be_where_another_one_was() -> None:
    """After a start at a lower parallelism, in a savepoint say; whatever range of hashes is merged first."""
    ahead, behind = (RunStore("log", hashes) for hashes in ((0, 5), (5, 10)))
    for store, row, watermark in ((ahead, (1, "a", 92), 101), (behind, (7, "b", 90), 89)):
        log = log_of(store)
        log.append(batch_of(row), watermark)
        log.end_epoch(watermark, has_shown=True)
    for runs in ([*ahead.runs, *behind.runs], [*behind.runs, *ahead.runs]):
        merged, meta = merge_runs(runs, is_oldest=True, now=0)
        assert merged is not None
        assert sorted(merged.column(TIME).to_pylist()) == [90, 92]
        assert (meta["reached"], meta[SHOWN]) == (89, 89)
        pieces = list(merged_pieces(runs, now=0))
        assert [about[SHOWN] for _, about in pieces] == [89] * len(pieces)


@pytest.fixture
def shown() -> RunStore:
    """Two runs, of which rows were shown up to 50: that at 42 is over since 52."""
    store = RunStore("log", ALL_HASHES)
    log = log_of(store)
    log.append(batch_of(*((1, "a", time) for time in (20, 30, 39, 42, 60, 70, 200))), watermark=10)
    log.end_epoch(10)
    log.append(batch_of((2, "b", 45)), watermark=50)
    log.end_epoch(50, has_shown=True)
    log.end_epoch(52)
    return store


def back_at(store: RunStore, watermark: int) -> list[Any]:
    log_of(store, watermark)
    return times_of(store)


def test_what_was_shown_does_not_come_back_with_an_earlier_watermark(shown: RunStore) -> None:
    assert times_of(shown) == [[20, 30, 39, 42, 60, 70, 200], [45]]
    assert back_at(shown, 50) == [[20, 30, 39, 42, 60, 70, 200], [45]], "a task by itself never goes back"
    assert back_at(shown, 49) == [[42, 60, 70, 200], [45]]
    assert back_at(shown, 10) == [[42, 60, 70, 200], [45]]


def test_a_run_of_which_all_was_shown_goes(shown: RunStore) -> None:
    log_of(shown).end_epoch(60, has_shown=True)
    store = RunStore("log", ALL_HASHES, [run for run in shown.runs if run.meta[RETAINED_UNTIL] < 90])
    assert back_at(store, 10) == []


def test_what_joins_the_others_later_says_it_as_well(shown: RunStore) -> None:
    """That of the newest run counts when they are merged."""
    log = log_of(shown)
    log.append(batch_of((2, "b", 90)), watermark=53)
    log.end_epoch(53)
    assert [run.meta[SHOWN] for run in shown.runs] == [50, 50]


def test_so_does_what_was_merged_beside_the_epochs_before(shown: RunStore) -> None:
    merged = [{"file": "", "at": 0, "hashes": list(ALL_HASHES), "meta": run.meta} for run in shown.runs]
    batch, meta = merge_runs(shown.runs, is_oldest=True, now=0)
    assert batch is not None
    outcome = Run(Section(batch), meta, ALL_HASHES)
    log_of(shown).end_epoch(53, has_shown=True)
    log_of(shown).end_epoch(54)
    assert adopt(shown, merged, outcome, is_oldest=True)
    assert [run.meta[SHOWN] for run in shown.runs] == [53]
    assert back_at(shown, 10) == [[60, 70, 200, 45]]


@pytest.fixture
def mostly_over() -> RunStore:
    """A run of a hundred rows, which are over at the watermarks from 10 to 109; it was written at 0."""
    store = RunStore("log", ALL_HASHES)
    log = log_of(store)
    log.append(batch_of(*((1, "a", time) for time in range(100))), watermark=0)
    log.end_epoch(0)
    return store


def rows_after(store: RunStore, added: int, watermark: int) -> list[int]:
    """How many rows each run has behind an epoch that adds some which are not over."""
    log = log_of(store)
    if added:
        log.append(batch_of(*((2, "b", 200) for _ in range(added))), watermark)
    log.end_epoch(watermark)
    return [len(times) for times in times_of(store)]


@pytest.mark.parametrize(("watermark", "expected"), [(54, [100]), (55, [54])])
def test_the_log_is_written_anew_when_most_of_its_oldest_run_is_over(
    mostly_over: RunStore, watermark: int, expected: list[int]
) -> None:
    assert rows_after(mostly_over, 0, watermark) == expected


def test_the_log_is_written_anew_once(mostly_over: RunStore) -> None:
    """Also where no record comes any more, while the watermark rises."""
    assert [log_of(mostly_over).end_epoch(watermark) for watermark in (54, 55, 56, 82, 83)] == [0, 1, 0, 0, 1]


@pytest.mark.parametrize(("most", "expected"), [(100, [100, 1]), (101, [50])])
def test_so_many_rows_are_written_anew_whatever_is_added(
    mostly_over: RunStore, monkeypatch: pytest.MonkeyPatch, most: int, expected: list[int]
) -> None:
    monkeypatch.setattr(merging, "INLINE_ROWS", most)
    assert rows_after(mostly_over, 1, 60) == expected


@pytest.mark.parametrize(("added", "expected"), [(33, [100, 33]), (34, [49 + 34])])
def test_more_are_written_anew_by_an_epoch_that_adds_a_quarter_of_them(
    mostly_over: RunStore, monkeypatch: pytest.MonkeyPatch, added: int, expected: list[int]
) -> None:
    monkeypatch.setattr(merging, "INLINE_ROWS", 8)
    assert rows_after(mostly_over, added, 60) == expected


@pytest.mark.parametrize(("missing", "expected"), [(1, [100]), (0, [49])])
def test_what_is_too_large_for_an_epoch_is_not_written_anew(
    mostly_over: RunStore, monkeypatch: pytest.MonkeyPatch, missing: int, expected: list[int]
) -> None:
    (run,) = mostly_over.runs
    monkeypatch.setattr(merging, "MOST_BYTES", run.section.nbytes - missing)
    assert rows_after(mostly_over, 0, 60) == expected


def test_how_much_may_be_written_anew() -> None:
    """A quarter of a million rows, or four times what the epoch has added, and never more than 256 MiB."""
    rows, size = 262_144, 256 << 20
    assert can_be_rewritten(rows, size, added=0)
    assert not can_be_rewritten(rows + 1, size, added=rows // 4)
    assert can_be_rewritten(rows + 4, size, added=rows // 4 + 1)
    assert not can_be_rewritten(1, size + 1, added=rows)


def test_state_with_keys_of_another_type_is_refused() -> None:
    store = RunStore("log", ALL_HASHES)
    log = log_of(store)
    log.append(batch_of((1, "a", 5)), watermark=0)
    log.end_epoch(0)
    other = log_layout(KeyCodec.for_type(Types.LONG()), Types.LONG(), KEPT, is_outer=False)
    with pytest.raises(StateMigrationError, match="another key type"):
        KeySortedTable(store, other)


def test_how_long_records_are_kept() -> None:
    kept = {interval: tuple(JoinInterval(*interval).retention(side) for side in (0, 1)) for interval in INTERVALS}
    assert kept == {(-5, 10): (10, 5), (2, 10): (10, 0), (-10, -2): (0, 10), (0, 0): (0, 0)}


INTERVALS = [(-5, 10), (2, 10), (-10, -2), (0, 0)]


ROWS = "rows by key"
Row = tuple[int, int, int]
"""Sort key, the watermark at which it expires, value."""


class Tables:
    """The same table in all partitions of a job, and what it should hold."""

    def __init__(self, job: Job, *, latest_only: bool) -> None:
        self.job, self.latest_only, self.watermark = job, latest_only, 0
        columns = {HASH: pa.uint64(), KEY: job.codec.arrow_type, "place": pa.int64()}
        kind = {LIVE: pa.bool_()} if latest_only else {RETAINED_UNTIL: pa.int64()}
        schema = pa.schema({**columns, **kind, "value": pa.int64()})
        about = {"keys": job.codec.to_json()}
        self.layout = TableLayout("rows", f"{ROWS} {latest_only}", schema, 3, about, {"keys": "key type"})
        self.model: dict[str, list[Row]] = {}
        self.values = count()

    def begin(self) -> None:
        stores = [operator.store("rows") for operator in self.job.begin()]
        self.tables = [KeySortedTable(store, self.layout, latest_only=self.latest_only) for store in stores]
        for table in self.tables:
            table.begin_epoch(self.watermark)

    def end(self) -> None:
        for table in self.tables:
            table.end_epoch(self.watermark)
        self.job.end()

    def append(self, rows: dict[str, list[tuple[int, int]]]) -> None:
        """Adds rows of keys: the sort key of each, and how long it is retained; of a latest-only table all of a key."""
        added = {key: [(place, place + span, next(self.values)) for place, span in own] for key, own in rows.items()}
        for key, own in added.items():
            before = [] if self.latest_only else self.model.get(key, [])
            self.model[key] = sorted([*before, *own], key=lambda row: row[0])
        for table, keys in self._owned(list(added)):
            flat = [(key, *row, True) for key in keys for row in added[key]]
            if self.latest_only:
                flat += [(key, 0, 0, 0, False) for key in keys if not added[key]]
            if flat:
                table.append(self._batch(flat), self.watermark)

    def _batch(self, rows: list[tuple[str, int, int, int, bool]]) -> pa.RecordBatch:
        names, places, until, values, live = zip(*rows, strict=True)
        column = self.job.codec.encode(names)
        arrays = [pa.array(column.hashes), column.values, places, live if self.latest_only else until, values]
        made = [pa.array(each, field.type) for each, field in zip(arrays, self.layout.schema, strict=True)]
        order, _ = key_sorted(column.hashes, column.values, np.array(places))
        return pa.RecordBatch.from_arrays(made, schema=self.layout.schema).take(pa.array(order))

    def advance(self, watermark: int) -> None:
        self.watermark = max(self.watermark, watermark)

    def find(self, ranges: dict[str, tuple[int, int]] | None) -> dict[str, list[tuple[int, int]]]:
        found: dict[str, list[tuple[int, int]]] = {}
        for table, owned in self._owned(NAMES if ranges is None else list(ranges)):
            column = self.job.codec.encode(owned)
            order = order_of_keys(column)
            bounds = None
            if ranges is not None:
                lows, highs = zip(*(ranges[owned[place]] for place in order), strict=True)
                bounds = np.array(lows), np.array(highs)
            which, batch = table.find(column.take(order), bounds)
            for number, row in zip(which.tolist(), batch.to_pylist(), strict=True):
                if row.get(LIVE, True) and row.get(RETAINED_UNTIL, self.watermark + 1) > self.watermark:
                    found.setdefault(owned[order[number]], []).append((row["place"], row["value"]))
        return found

    def expected(self, ranges: dict[str, tuple[int, int]] | None) -> dict[str, list[tuple[int, int]]]:
        asked = dict.fromkeys(NAMES, (-(10**6), 10**6)) if ranges is None else ranges
        held = {
            key: [
                (place, value)
                for place, until, value in self.model.get(key, ())
                if low <= place <= high and (self.latest_only or until > self.watermark)
            ]
            for key, (low, high) in asked.items()
        }
        return {key: rows for key, rows in held.items() if rows}

    def _owned(self, keys: list[str]) -> Iterator[tuple[KeySortedTable, list[str]]]:
        owners = partitions_of_hashes(self.job.codec.encode(keys).hashes, self.job.parallelism, MAX_PARALLELISM)
        for number, table in enumerate(self.tables):
            own = [key for key, owner in zip(keys, owners, strict=True) if owner == number]
            if own:
                yield table, own


NAMES = [f"{'x' * (number % 3)}{number}" for number in range(9)]
keys, times = st.sampled_from(NAMES), st.integers(0, 20)
ROWS_OF_KEYS = st.dictionaries(keys, st.lists(st.tuples(times, st.integers(0, 15)), max_size=3), max_size=5)
STEPS = st.one_of(
    st.tuples(st.just("append"), ROWS_OF_KEYS),
    st.tuples(st.just("find"), st.dictionaries(keys, st.tuples(times, times), min_size=1, max_size=5)),
    st.tuples(st.just("advance"), times),
    st.tuples(st.just("epoch"), st.sampled_from(["", "compact", "rescale"])),
)


def few_hashes(array: pa.Array) -> Any:
    """Many keys share one; some of them are in the same run, and some are not."""
    return np.array([len(value.as_py()) % 3 for value in array], dtype=np.uint64) << np.uint64(60)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("latest_only", [False, True], ids=["all rows", "the latest of a key"])
@pytest.mark.parametrize("backend", [DEFAULT_BACKEND, ROCKSDB_BACKEND], indirect=True)
@settings(max_examples=draws(24), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=14), collide=st.booleans(), inline=st.sampled_from([0, 20, 1 << 18]))
def test_a_table_is_as_its_model(
    backend: StateBackendPlugin, latest_only: bool, steps: list[Any], collide: bool, inline: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(merging, "_MERGERS", dict(merging._MERGERS))
        register_key_sorted_merger(f"{ROWS} {latest_only}", latest_only=latest_only)
        patched.setattr(merging, "INLINE_ROWS", inline)
        patched.setattr("headrace.state.compaction.INLINE_ROWS", 1)
        patched.setattr("headrace.state.compaction.MANY_RUNS", 2)
        if collide:
            patched.setattr(hashing, "_hash_binary", few_hashes)
        tables = Tables(Job(CODEC, backend=backend), latest_only=latest_only)
        tables.begin()
        for step, given_to_it in [*steps, ("epoch", "rescale"), ("epoch", "")]:
            if step == "append":
                tables.append(given_to_it)
            elif step == "find":
                assert tables.find(given_to_it) == tables.expected(given_to_it)
            elif step == "advance":
                tables.advance(given_to_it)
            else:
                tables.end()
                if given_to_it == "compact":
                    tables.job.compact()
                elif given_to_it == "rescale" and not tables.job.results:
                    tables.job.rescale(4 - tables.job.parallelism)
                tables.begin()
            assert tables.find(None) == tables.expected(None)
