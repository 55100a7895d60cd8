"""Keys that are known save sorting, and change nothing: groups are those of ``group_rows``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.arrays import gather
from headrace.common.typeinfo import Types
from headrace.operators.aggregates.aggregator import AggregatorList, GroupedRows, ScatteredRows
from headrace.operators.aggregates.simple import CountRows, CountValues, KeyField, MinOrMax
from headrace.operators.aggregates.sums import SquaredDeviations, SumFiniteFloats, SumFloats, SumIntegers
from headrace.state.keys.hashing import hash_array
from headrace.state.runs import key_dictionary
from headrace.state.runs.grouping import group_rows
from headrace.state.runs.key_dictionary import KeyDictionary, OrderedKeys
from tests.draws import draws

if TYPE_CHECKING:
    from headrace.state.runs.key_dictionary import RankedGroups

MAKE_KEYS = {
    "close together": lambda numbers: pa.array(numbers - 3, pa.int64()),
    "far apart": lambda numbers: pa.array(numbers * (2**60 // 100), pa.int64()),
    "text": lambda numbers: pa.array([f"key-{number}" for number in numbers.tolist()], pa.string()),
    "bytes": lambda numbers: pa.array([bytes([number]) for number in numbers.tolist()], pa.binary()),
}


@pytest.fixture(autouse=True)
def few_rows_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_dictionary, "FEWEST_ROWS", 1)


def assert_like_sorting(found: RankedGroups | None, times: np.ndarray, hashes: np.ndarray, keys: pa.Array) -> None:
    assert found is not None
    sorted_ = group_rows(times, hashes, keys)
    first = sorted_.first_rows
    assert found.times.tolist() == times[first].tolist()
    assert found.hashes.tolist() == hashes[first].tolist()
    assert found.keys.equals(keys.take(pa.array(first)))
    assert found.segments.counts.tolist() == sorted_.segments.counts.tolist()
    assert found.segments.first_rows.tolist() == first.tolist()
    ids = np.empty(len(times), np.int64)
    ids[sorted_.order] = sorted_.segments.ids
    assert found.segments.ids.tolist() == ids.tolist()
    assert (len(found.segments), found.segments.total, found.segments.are_single) == (len(first), len(times), False)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", MAKE_KEYS)
@settings(max_examples=draws(45), deadline=None)
@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 100)), min_size=40, max_size=60), min_size=1, max_size=4
    )
)
def test_groups_are_those_of_sorting_whatever_came_before(kind: str, batches: list[list[tuple[int, int]]]) -> None:
    known = KeyDictionary()
    for batch in batches:
        times, numbers = np.array(batch, np.int64).T.copy()
        keys = MAKE_KEYS[kind](numbers)
        hashes = hash_array(keys)
        found = known.group(times, hashes, keys)
        if found is not None:  # where too many keys are new, or too many places empty, rows are to be sorted
            assert_like_sorting(found, times, hashes, keys)


@pytest.mark.parametrize("kind", MAKE_KEYS)
def test_keys_that_come_by_and_by_are_all_known(kind: str) -> None:
    known = KeyDictionary()
    for seen in (20, 21, 40, 80, 100, 100):
        numbers = np.concatenate((np.arange(seen), np.arange(seen)))
        keys = MAKE_KEYS[kind](numbers)
        hashes, times = hash_array(keys), np.repeat([5, 3], seen)
        assert_like_sorting(known.group(times, hashes, keys), times, hashes, keys)
        assert len(known) == seen


def test_integers_at_both_ends_of_the_range() -> None:
    known = KeyDictionary()
    limits = np.iinfo(np.int64)
    for values in ([0, 1, 1], [limits.min, 0, 1, limits.max], [limits.max, limits.min, 7]):
        keys = pa.array(values, pa.int64())
        times = np.zeros(len(values), np.int64)
        assert_like_sorting(known.group(times, hash_array(keys), keys), times, hash_array(keys), keys)


def test_hashes_that_meet_in_one_slot() -> None:
    known = KeyDictionary()
    keys = pa.array([f"{number}" for number in range(64)])
    hashes = np.arange(64, dtype=np.uint64) << np.uint64(40)
    times = np.zeros(64, np.int64)
    for rows in (slice(0, 40), slice(20, 64), slice(0, 64)):
        some = keys.take(pa.array(np.arange(64)[rows]))
        assert_like_sorting(known.group(times[rows], hashes[rows], some), times[rows], hashes[rows], some)


def test_different_keys_with_one_hash_are_for_sorting() -> None:
    known = KeyDictionary()
    hashes, times = np.array([7, 7, 9], np.uint64), np.zeros(3, np.int64)
    assert known.group(times, hashes, pa.array(["a", "b", "c"])) is None
    assert len(known) == 0


def test_keys_that_do_not_come_again_are_forgotten_and_tried_less_and_less() -> None:
    known = KeyDictionary()
    tried = []
    for batch in range(40):
        keys = pa.array(np.arange(batch * 100, batch * 100 + 100))
        known.group(np.zeros(100, np.int64), hash_array(keys), keys)
        tried.append(len(known) > 0)
    assert tried[0]
    assert sum(tried) <= 6


def test_too_many_keys_or_places_are_for_sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = pa.array(np.arange(50))
    times = np.arange(50)
    assert KeyDictionary(most=49).group(np.zeros(50, np.int64), hash_array(keys), keys) is None
    assert KeyDictionary().group(times, hash_array(keys), keys) is None
    monkeypatch.setattr(key_dictionary, "FEWEST_ROWS", 51)
    assert KeyDictionary().group(np.zeros(50, np.int64), hash_array(keys), keys) is None


@settings(max_examples=draws(25), deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 5),
            st.one_of(st.none(), st.floats(), st.sampled_from([1e300, -1e300, 1e-300, 0.1, -0.0])),
            st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        ),
        min_size=12,
        max_size=40,
    )
)
def test_aggregates_of_groups_that_lie_anywhere_are_those_of_sorted_ones(
    rows: list[tuple[int, float | None, int | None]],
) -> None:
    aggregators = AggregatorList(
        (
            CountRows(),
            CountValues(1, "x"),
            KeyField(0, "k", Types.LONG()),
            SumFloats(1, "x"),
            SumFiniteFloats(1, "x"),
            SumIntegers(2, "n"),
            SquaredDeviations(2, "n"),
            MinOrMax(1, "x", Types.DOUBLE(), is_largest=True),
            MinOrMax(2, "n", Types.LONG(), is_largest=False),
        )
    )
    assert aggregators.are_scatterable
    keys, x, n = zip(*rows, strict=True)
    columns = dict(enumerate([pa.array(keys, pa.int64()), pa.array(x, pa.float64()), pa.array(n, pa.int64())]))
    times, hashes = np.zeros(len(rows), np.int64), hash_array(columns[0])
    known, groups = KeyDictionary(), group_rows(times, hashes, columns[0])
    ranked = known.group(times, hashes, columns[0])
    assert ranked is not None
    wanted = aggregators.accumulate(GroupedRows(columns, np.arange(len(rows)), groups))
    assert_same(aggregators.accumulate(ScatteredRows(columns, ranked.segments)), wanted)

    # The accumulator of each record by itself, merged either way.
    single = group_rows(np.arange(len(rows)), hashes, columns[0])
    parts = aggregators.accumulate(GroupedRows(columns, np.arange(len(rows)), single))
    assert_same(aggregators.merge(parts, ranked.segments), wanted)
    assert_same(aggregators.merge([gather(part, groups.order) for part in parts], groups.segments), wanted)


def assert_same(found: list[pa.Array], wanted: list[pa.Array]) -> None:
    assert list(map(repr, [column.to_pylist() for column in found])) == [repr(column.to_pylist()) for column in wanted]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", MAKE_KEYS)
@settings(max_examples=draws(45), deadline=None)
@given(
    stored=st.sets(st.integers(0, 100), min_size=1, max_size=60),
    batches=st.lists(st.lists(st.integers(0, 100), min_size=40, max_size=60), min_size=1, max_size=3),
)
def test_keys_that_are_stored_are_known_from_the_start(kind: str, stored: set[int], batches: list[list[int]]) -> None:
    kept = ordered(MAKE_KEYS[kind](np.array(sorted(stored))))
    asked: list[None] = []

    def of_state() -> OrderedKeys:
        asked.append(None)
        return kept

    known = KeyDictionary()
    known.stored = of_state
    assert not asked
    for batch in batches:
        keys, times = MAKE_KEYS[kind](np.array(batch)), np.zeros(len(batch), np.int64)
        found = known.group(times, hash_array(keys), keys)
        if found is not None:
            assert_like_sorting(found, times, hash_array(keys), keys)
    assert len(asked) == 1


def ordered(keys: pa.Array) -> OrderedKeys:
    hashes = hash_array(keys)
    order = np.argsort(hashes)
    return OrderedKeys(hashes[order], keys.take(pa.array(order)))


def test_all_keys_that_are_stored_are_found() -> None:
    keys = pa.array(np.arange(100))
    known = KeyDictionary()
    known.stored = lambda: ordered(keys)
    for _ in range(2):
        assert_like_sorting(known.group(np.zeros(100, np.int64), hash_array(keys), keys), *rows_of(keys))
        assert len(known) == 100


def rows_of(keys: pa.Array) -> tuple[np.ndarray, np.ndarray, pa.Array]:
    return np.zeros(len(keys), np.int64), hash_array(keys), keys


@pytest.mark.parametrize(("fewest", "most"), [(101, 1000), (1, 99)])
def test_too_few_or_too_many_stored_keys_are_left_alone(
    fewest: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if nothing were stored."""
    stored, keys = ordered(pa.array(np.arange(100))), pa.array(np.arange(98).repeat(2))
    monkeypatch.setattr(key_dictionary, "FEWEST_ROWS", fewest)
    known = KeyDictionary(most)
    known.stored = lambda: stored
    assert_like_sorting(known.group(*rows_of(keys)), *rows_of(keys))
    assert len(known) == 98
    nothing = KeyDictionary()
    nothing.stored = lambda: None
    assert_like_sorting(nothing.group(*rows_of(keys)), *rows_of(keys))


def test_stored_keys_with_one_hash_are_for_sorting() -> None:
    stored = OrderedKeys(np.array([7, 7, 9], np.uint64), pa.array(["a", "b", "c"]))
    known = KeyDictionary()
    known.stored = lambda: stored
    times = np.zeros(3, np.int64)
    for keys in (["a", "c", "a"], ["a", "b", "c"]):
        array = pa.array(keys)
        hashes = np.array([{"a": 7, "b": 7, "c": 9}[key] for key in keys], np.uint64)
        found = known.group(times, hashes, array)
        if "b" in keys:
            assert found is None
        else:
            assert_like_sorting(found, times, hashes, array)


def test_integers_that_become_dense_are_found_directly() -> None:
    """A few of many do not tell yet how close together all are."""
    known, numbers = KeyDictionary(), np.random.default_rng(1).permutation(5000)
    tables = []
    for seen in (100, 900, 5000):
        keys = pa.array(numbers[:seen])
        found = known.group(*rows_of(keys))
        if found is not None:
            assert_like_sorting(found, *rows_of(keys))
        tables.append(type(known._table).__name__)
    assert tables == ["_HashTable", "_DirectTable", "_DirectTable"]


def test_a_table_of_hashes_grows() -> None:
    assert key_dictionary.UNKNOWN < 0
    known = KeyDictionary()
    random = np.random.default_rng(1)
    for seen in (10, 300, 5000, 5001):
        keys = pa.array(random.permutation(np.arange(seen) * 2**40))
        times = np.zeros(seen, np.int64)
        found = known.group(times, hash_array(keys), keys)
        if seen in (10, 5001):
            assert_like_sorting(found, times, hash_array(keys), keys)
