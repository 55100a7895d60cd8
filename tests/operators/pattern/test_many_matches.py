"""Many partial matches, of one key and of a key each: what is read, decoded and written of them is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from headrace.cep import Pattern, PatternProcessFunction
from headrace.cep.compiler import compile_pattern
from headrace.common.batch import Batch
from headrace.common.call_site import UNKNOWN_CALL_SITE
from headrace.common.constants import MIN_WATERMARK
from headrace.common.typeinfo import Types
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext
from headrace.operators.pattern import found_matches, stored_matches
from headrace.operators.pattern.match_results import PatternFunction
from headrace.operators.pattern.pattern_operator import PatternOperator, PatternSettings
from headrace.operators.pattern.patterns_at_work import FixedPattern
from headrace.state.hashmap_backend import HashMapOperatorStates
from headrace.state.key_sorted_table import KeySortedTable
from headrace.state.keys import KeyCodec, KeyColumn
from headrace.state.runs import ALL_HASHES, Run, RunStore

SMALL, OTHER, LARGE = 1.0, 5.0, 9.0
WINDOW: Final = 10_000_000
BEGIN: Final = 1_000


class Event(NamedTuple):
    key: int
    price: float
    number: int


EVENT = Types.of(Event)


def small_then_large() -> Pattern[Any]:
    small: Pattern[Any] = Pattern.begin("small").where("price < 2.0")
    return small.followed_by("large").where("price > 8.0").within(WINDOW)


class Told(PatternProcessFunction):
    """Notes the key and the numbers of the events of each match."""

    def __init__(self) -> None:
        self.matches: list[tuple[int, int, int]] = []

    def process_match(self, match: Mapping[str, list[Any]], ctx: PatternProcessFunction.Context) -> Iterator[int]:
        ((small,), (large,)) = match["small"], match["large"]
        self.matches.append((small.key, small.number, large.number))
        yield small.number


class Epochs:
    """The operator of one subtask, each epoch with another instance, as after a restart.

    Attributes:
        matches: what the last epoch has found.
        done: of the last epoch, the stored rows that were found and decoded, and the rows and bytes of new runs.
        runs: the state by store.
    """

    def __init__(self, pattern: Pattern[Any], monkeypatch: pytest.MonkeyPatch) -> None:
        self.matches: list[tuple[int, int, int]] = []
        self.done: Counter[str] = Counter()
        self.runs: dict[str, Sequence[Run]] = {}
        self._automaton, self._codec = compile_pattern(pattern), KeyCodec.for_type(Types.LONG())
        self._number, self._watermark = 0, MIN_WATERMARK
        find, decode, append, replace = KeySortedTable.find, found_matches.state_of, RunStore.append, RunStore.replace

        def counted_find(table: KeySortedTable, keys: KeyColumn) -> Any:
            found = find(table, keys)
            if "row" in found[1].schema.names:
                self.done["found"] += len(found[0])
            return found

        def counted_decode(columns: Sequence[list[int]], events: Sequence[int]) -> Any:
            self.done["decoded"] += len(columns[0])
            return decode(columns, events)

        def counted_append(store: RunStore, table: Any, meta: dict[str, Any]) -> Run | None:
            return self._written(append(store, table, meta))

        def counted_replace(store: RunStore, runs: Sequence[Run], table: Any, meta: dict[str, Any]) -> Run | None:
            return self._written(replace(store, runs, table, meta))

        monkeypatch.setattr(KeySortedTable, "find", counted_find)
        monkeypatch.setattr(found_matches, "state_of", counted_decode)
        monkeypatch.setattr(RunStore, "append", counted_append)
        monkeypatch.setattr(RunStore, "replace", counted_replace)

    def run(self, keys: Any, price: Any, time: Any, watermark: int | None = None) -> None:
        """An epoch with an event of each of some keys, with one price and time or one each; their numbers count up."""
        self.done.clear()
        stores = {name: RunStore(name, ALL_HASHES, runs) for name, runs in self.runs.items()}
        states = HashMapOperatorStates("c", lambda name: stores.setdefault(name, RunStore(name, ALL_HASHES)))
        states.bind_key_codec(self._codec)
        told = Told()
        function = PatternFunction(told, Types.LONG(), {}, handles_timeout=False, has_timestamps=True)
        operator = PatternOperator(FixedPattern(self._automaton, EVENT), function, (), EVENT, PatternSettings())
        operator.open(OperatorContext("c", "c", 0, 1, 128, UNKNOWN_CALL_SITE, optional_state=states), self)
        states.begin_epoch(self._watermark, 0)
        operator.begin_epoch(EpochScope(0, 0, self._watermark))
        if len(keys):
            operator.process(0, self._batch(np.asarray(keys, np.int64), price, time))
        self._watermark = int(np.max(time)) if watermark is None else watermark
        operator.advance_watermark(self._watermark)
        operator.end_epoch()
        states.end_epoch()
        self.runs = {name: store.runs for name, store in stores.items()}
        self.matches = told.matches

    def rows(self, store: str = stored_matches.STORE) -> int:
        return sum(run.rows for run in self.runs[store])

    def file_bytes(self) -> int:
        """The bytes of all state in its files."""
        return sum(piece.size for runs in self.runs.values() for run in runs for piece in run.section.encoded())

    def _batch(self, keys: Any, price: Any, time: Any) -> KeyedBatch:
        count = len(keys)
        numbers = np.arange(self._number, self._number + count)
        self._number += count
        columns = [pa.array(keys), pa.array(np.array(np.broadcast_to(price, count), float)), pa.array(numbers)]
        batch = Batch(
            EVENT,
            np.array(np.broadcast_to(time, count)),
            np.full(count, self._watermark),
            columns=pa.record_batch(columns, [*Event._fields]),
        )
        return KeyedBatch.of(batch, self._codec.from_array(columns[0]))

    def _written(self, run: Run | None) -> Run | None:
        if run is not None:
            self.done["rows written"] += run.rows
            self.done["bytes written"] += sum(piece.size for piece in run.section.encoded())
        return run

    def emit(self, batch: Batch) -> None:
        """Take results, which the function has noted."""

    def advance_watermark(self, watermark: int) -> None:
        assert watermark == self._watermark


def test_an_event_writes_the_rows_that_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 2_000

    def is_wanted(event: Any, context: Any) -> bool:
        return bool(event.number == context.events("small")[0].number + count)

    small: Pattern[Any] = Pattern.begin("small").where("price < 2.0")
    wanted = small.followed_by("wanted").where("price > 4.0").where(is_wanted)
    epochs = Epochs(wanted.followed_by("large").where("price > 8.0").within(WINDOW), monkeypatch)
    epochs.run([7] * count, SMALL, BEGIN)
    for more in range(3):
        epochs.run([7], OTHER, BEGIN + 1 + more)
        assert epochs.done["rows written"] <= 10, "two, and small runs are merged"
        assert epochs.done["bytes written"] < 8_000, "of which most are schemas"
    epochs.run([7], LARGE, BEGIN + 5)
    assert epochs.done["rows written"] <= 30, "three matches have ended, and another one has gone on"
    assert epochs.matches == [(7, number, count + 3) for number in range(3)]
    epochs.run([7], LARGE, BEGIN + 6)
    assert epochs.matches == [(7, 3, count + 4)]


@pytest.mark.parametrize("begins", [False, True])
def test_what_times_out_of_a_key_is_gone_without_being_decoded(begins: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 2_000
    epochs = Epochs(small_then_large(), monkeypatch)
    epochs.run([7] * count, SMALL, BEGIN + np.arange(count))
    more = [7] if begins else []
    for step in range(1, 4):
        epochs.run(more, SMALL, BEGIN + WINDOW + 10 * step, BEGIN + WINDOW + 10 * step)
        assert epochs.done["found"] == epochs.done["decoded"] == 0
        assert epochs.done["rows written"] < 20, "what is known of the key, and small runs are merged"
    epochs.run([7], LARGE, BEGIN + WINDOW + 31)
    begun = [count + number for number in range(3)] if begins else []
    assert epochs.matches == [(7, number, count + len(begun)) for number in [*range(32, count), *begun]]


@pytest.mark.parametrize("count", [3_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_what_begins_beside_many_matches_of_a_key_decodes_none_of_them(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = Epochs(small_then_large(), monkeypatch)
    epochs.run([7] * count, SMALL, BEGIN)
    for more in range(1, 4):
        epochs.run([7], SMALL, BEGIN + more)
        assert epochs.done["found"] == epochs.done["decoded"] == 0
        assert epochs.rows() == count + more
    epochs.run([7, 8], OTHER, BEGIN + 5)
    assert epochs.done["found"] == epochs.done["rows written"] == 0, "the events satisfy no condition"
    assert not epochs.matches
    epochs.run([7], LARGE, BEGIN + 6)
    assert epochs.done["decoded"] == count + 3, "each once"
    small = [*range(count + 3)]
    assert epochs.matches == [(7, number, count + 5) for number in small]
    epochs.run([7], LARGE, BEGIN + 7)
    assert not epochs.matches


def test_a_function_is_called_once_for_an_event_whatever_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()

    def is_small(event: Any) -> bool:
        calls["small"] += 1
        return bool(event.price < 2)

    def is_large(event: Any) -> bool:
        calls["large"] += 1
        return bool(event.price > 8)

    small: Pattern[Any] = Pattern.begin("small").where(is_small)
    epochs = Epochs(small.followed_by("large").where(is_large).within(WINDOW), monkeypatch)
    epochs.run([7] * 500, SMALL, BEGIN)
    calls.clear()
    epochs.run([7], OTHER, BEGIN + 1)
    epochs.run([7], LARGE, BEGIN + 2)
    assert calls == {"small": 2, "large": 2}
    assert len(epochs.matches) == 500


@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_of_many_keys_an_epoch_reads_and_writes_those_that_it_touches(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = Epochs(small_then_large(), monkeypatch)
    epochs.run(range(count), SMALL, BEGIN)
    assert epochs.rows() == count
    assert epochs.file_bytes() <= 150 * count
    epochs.run([12], OTHER, BEGIN + 1)
    assert epochs.done == {"found": 1}, "the event satisfies no condition"
    epochs.run([12], SMALL, BEGIN + 2)
    assert (epochs.done["found"], epochs.done["decoded"]) == (1, 1)
    assert epochs.done["rows written"] <= 3, "both matches of the key, and when the second one times out"
    assert epochs.done["bytes written"] < 4_000, "of which most are schemas"
    some = range(0, count, count // 100)
    epochs.run(some, LARGE, BEGIN + 3)
    assert (epochs.done["found"], epochs.done["decoded"]) == (len(some), len(some))
    assert epochs.done["rows written"] <= 2 * len(some) + 4
    assert sorted(epochs.matches) == [(key, key, count + 2 + place) for place, key in enumerate(some)]
    epochs.run(some, LARGE, BEGIN + 4)
    assert not epochs.matches
    epochs.run([12], LARGE, BEGIN + 5)
    assert [match[:2] for match in epochs.matches] == [(12, 12), (12, count + 1)]


def test_a_day_of_events_leaves_no_more_than_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Epochs of ten minutes, in which an event comes each twenty seconds, one of five keys most of the time."""
    minute, hour = 60_000, 6
    chance = np.random.default_rng(5)
    small = Pattern.begin("small").where("price < 2.0")
    pattern = small.followed_by_any("other").where("price > 4.0 and price < 6.0").followed_by("large")
    epochs = Epochs(pattern.where("price > 8.0").within(14 * minute), monkeypatch)
    rows, sizes, matches = [], [], 0
    for start in range(BEGIN, BEGIN + 24 * 60 * minute, 10 * minute):
        keys = np.where(chance.random(30) < 0.8, chance.integers(0, 5, 30), chance.integers(0, 1_000, 30))
        prices = chance.choice([SMALL, 3.0, OTHER, LARGE], 30, p=[0.3, 0.4, 0.2, 0.1])
        epochs.run(keys, prices, start + 20_000 * np.arange(30), start + 590_000)
        rows.append(epochs.rows() + epochs.rows(stored_matches.TIMERS_STORE))
        sizes.append(epochs.file_bytes())
        matches += len(epochs.matches)
    assert len(rows) == 24 * hour
    assert matches > 250
    assert max(rows[hour:]) <= 1.5 * max(rows[:hour])
    assert max(sizes[hour:]) <= 1.5 * max(sizes[:hour])


def test_matches_of_many_keys_time_out_without_being_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    epochs = Epochs(small_then_large(), monkeypatch)
    epochs.run(range(5_000), SMALL, BEGIN)
    epochs.run([], SMALL, BEGIN, watermark=BEGIN + WINDOW)
    assert epochs.done["decoded"] == 0
    epochs.run(range(5_000), LARGE, BEGIN + WINDOW + 1)
    assert not epochs.matches
    assert epochs.done["found"] == 0
