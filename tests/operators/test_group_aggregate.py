"""Aggregates of a changelog by key: the changelog that one record at a time gives, whatever the batches."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Configuration, Row, RowKind, Types
from headrace.common.arrays import differ
from headrace.common.batch import Batch
from headrace.common.call_site import UNKNOWN_CALL_SITE
from headrace.common.errors import InvalidProgramError, StateMigrationError
from headrace.common.logical_types import AtomicType, RowType, TypeRoot, bigint, decimal, string
from headrace.common.typeinfo.types import type_of_logical
from headrace.datastream import DataStream, StreamExecutionEnvironment
from headrace.datastream import aggregates as agg
from headrace.expressions import left
from headrace.operators import distinct_values
from headrace.operators.aggregates import aggregator
from headrace.operators.aggregates.aggregate import Aggregate, BindableAggregate
from headrace.operators.aggregates.calls import AggregateOperation
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext
from headrace.operators.group_aggregate import GroupAggregateOperator
from headrace.operators.mini_batch import LocalGroupAggregateOperator, MiniBatch
from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout
from headrace.operators.window.columnar.local_aggregate import ACCUMULATORS_INPUT, RECORDS_INPUT
from headrace.state.keys import KeyCodec
from headrace.state.keys.hashing import hash_array
from headrace.state.runs import ALL_HASHES, RunStore
from headrace.testing import JobHarness
from tests.draws import draws

INPUT = Types.ROW_NAMED(["key", "n", "x"], [Types.LONG(), Types.LONG(), Types.DOUBLE()])
CODEC = KeyCodec.for_type(Types.LONG())
INSERT, BEFORE, AFTER, DELETE = RowKind
TAKES_BACK = {BEFORE, DELETE}
RETRACTABLE = (
    agg.count(),
    agg.sum("n"),
    agg.sum("x"),
    agg.avg("n"),
    agg.min("x"),
    agg.max("n"),
    agg.count_distinct("n"),
    agg.quantile("n", 0.5).alias("median"),
    agg.collect_multiset("n"),
)
ORDERED = (agg.first("n"), agg.last("x"), agg.collect_list("n"), agg.min("n"), agg.max("x"), agg.count_distinct("x"))

Change = tuple[RowKind, int, Any, Any]
"""What it does, the key, and two values."""


def of_values(aggregate: Aggregate, values: list[Any]) -> Any:
    """An aggregate of the values that are there, in plain Python."""
    ranked = sorted(values)
    by_name = {
        "sum": lambda: sum(values) if values else None,
        "avg": lambda: sum(values) / len(values) if values else None,
        "min": lambda: ranked[0] if values else None,
        "max": lambda: ranked[-1] if values else None,
        "count_distinct": lambda: len(set(values)),
        "quantile": lambda: ranked[(len(values) + 1) // 2 - 1] if values else None,
        "collect_multiset": lambda: dict(Counter(ranked)) or None,
        "first": lambda: values[0] if values else None,
        "last": lambda: values[-1] if values else None,
        "collect_list": lambda: list(values) or None,
    }
    return by_name[aggregate.function]()


@dataclass
class Model:
    """Flink's ``GroupAggFunction``: one record at a time."""

    aggregates: tuple[Aggregate, ...]
    update_before: bool = True
    held: dict[int, list[tuple[Any, Any]]] = field(default_factory=dict)

    def of_mini_batch(self, changes: list[Change]) -> list[tuple[RowKind, tuple[Any, ...]]]:
        """The changes that come of many records together."""
        keys = sorted({change[1] for change in changes})
        before = {key: self.result(key) for key in keys if key in self.held}
        for change in changes:
            self.changes(*change)
        found: list[tuple[RowKind, tuple[Any, ...]]] = []
        for key in keys:
            old, new = before.get(key), self.result(key) if key in self.held else None
            if old is not None and old != new:
                found += [] if new is not None and not self.update_before else [(BEFORE if new else DELETE, old)]
            if new is not None and old != new:
                found.append((AFTER if old else INSERT, new))
        return found

    def changes(self, kind: RowKind, key: int, *values: Any) -> list[tuple[RowKind, tuple[Any, ...]]]:
        held = self.held.get(key)
        if held is None and kind in TAKES_BACK:
            return []
        before = None if held is None else self.result(key)
        held = self.held.setdefault(key, [])
        held.remove(values) if kind in TAKES_BACK else held.append(values)
        if not held:
            del self.held[key]
            return [(DELETE, before or ())]
        after = self.result(key)
        if before is None:
            return [(INSERT, after)]
        if before == after:
            return []
        return [*([(BEFORE, before)] if self.update_before else []), (AFTER, after)]

    def result(self, key: int) -> tuple[Any, ...]:
        held = self.held[key]
        columns = {name: [row[i] for row in held if row[i] is not None] for i, name in enumerate("nx")}
        return key, *(
            of_values(each, columns[cast("str", each.columns[0])]) if each.columns else len(held)
            for each in self.aggregates
        )


@dataclass
class Driven:
    """The operator on stores of its own; a new one for each epoch."""

    aggregates: tuple[BindableAggregate, ...]
    retracts: bool = True
    update_before: bool = True
    input: Any = INPUT
    mini_batch: MiniBatch | None = None
    stores: dict[str, RunStore] = field(default_factory=dict)
    batches: list[Batch] = field(default_factory=list)
    epochs: int = 0

    def open(self, *, is_batch: bool = False) -> GroupAggregateOperator:
        layout = ColumnarWindowLayout.of(self.input, CODEC, self.aggregates, ["key"], None, (), retracts=self.retracts)
        operator = GroupAggregateOperator(
            layout, update_before=self.update_before, is_batch=is_batch, mini_batch=self.mini_batch
        )
        self.local = LocalGroupAggregateOperator(layout, self.mini_batch) if self.mini_batch is not None else None
        self.stores = {name: RunStore(name, ALL_HASHES, store.runs) for name, store in self.stores.items()}
        state = SimpleNamespace(stored=lambda: list(self.stores), store=self._store)
        context = OperatorContext("group", "uid", 0, 1, 128, UNKNOWN_CALL_SITE, cast("Any", state))
        operator.open(context, cast("Any", SimpleNamespace(emit=self.batches.append, advance_watermark=lambda _: None)))
        if self.local is not None:
            sent = SimpleNamespace(
                emit=lambda batch: operator.process(RECORDS_INPUT, batch),
                emit_side=lambda _, batch: operator.process(ACCUMULATORS_INPUT, batch),
                advance_watermark=lambda _: None,
            )
            self.local.open(context, cast("Any", sent))
        return operator

    def epoch(self, *pieces: list[Change]) -> None:
        operator = self.open()
        operator.begin_epoch(EpochScope(self.epochs, 0, self.epochs))
        for changes in filter(None, pieces):
            rows = [Row.of_kind(change[0], *change[1:]) for change in changes]
            batch = Batch.of_rows(self.input, rows, range(len(rows)), [self.epochs] * len(rows))
            keyed = KeyedBatch.of(batch, CODEC.encode([change[1] for change in changes]))
            if self.local is not None and self.mini_batch is not None and self.mini_batch.has_two_phases:
                self.local.process(0, keyed)
            else:
                operator.process(0, keyed)
        if self.local is not None:
            self.local.advance_watermark(self.epochs)
        operator.advance_watermark(self.epochs)
        operator.end_epoch()
        self.epochs += 1

    def changes(self) -> list[tuple[RowKind, tuple[Any, ...]]]:
        return [(row.get_row_kind(), tuple(row)) for batch in self.batches for row in batch.rows]

    def _store(self, name: str) -> RunStore:
        return self.stores.setdefault(name, RunStore(name, ALL_HASHES))


@st.composite
def changelogs(draw: st.DrawFn, *, is_valid: bool = False) -> list[Change]:
    """Records that come and are taken back, and unless all are valid some that a key without records never had."""
    held: dict[int, list[tuple[Any, Any]]] = {}
    changes: list[Change] = []
    values = st.tuples(st.none() | st.integers(-3, 3), st.none() | st.sampled_from([-1.5, 0.0, 0.25, 2.0]))
    for key in draw(st.lists(st.integers(0, 2), max_size=30)):
        own = held.setdefault(key, [])
        if draw(st.booleans()) and (own or (not is_valid and draw(st.booleans()))):
            taken = own.pop(draw(st.integers(0, len(own) - 1))) if own else draw(values)
            changes.append((draw(st.sampled_from([BEFORE, DELETE])), key, *taken))
        else:
            own.append(draw(values))
            changes.append((draw(st.sampled_from([INSERT, AFTER])), key, *own[-1]))
    return changes


@pytest.mark.parametrize("block", [1 << 24, 64])
@settings(max_examples=draws(8), deadline=None)
@given(
    changes=changelogs(),
    cuts=st.lists(st.integers(0, 30), max_size=4),
    update_before=st.booleans(),
    each=st.integers(1, 4),
)
def test_changes_are_those_of_one_record_at_a_time(
    block: int, changes: list[Change], cuts: list[int], update_before: bool, each: int
) -> None:
    model, driven = Model(RETRACTABLE, update_before), Driven(RETRACTABLE, update_before=update_before)
    bounds = [0, *sorted(min(cut, len(changes)) for cut in cuts), len(changes)]
    pieces = [changes[start:stop] for start, stop in pairwise(bounds)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aggregator, "_BLOCK_BYTES", block)
        for number in range(0, len(pieces), each):
            driven.epoch(*pieces[number : number + each])
    assert driven.changes() == [found for change in changes for found in model.changes(*change)]


@pytest.mark.parametrize("has_two_phases", [False, True])
@settings(max_examples=draws(8), deadline=None)
@given(changes=changelogs(is_valid=True), cut=st.integers(0, 30), size=st.integers(1, 9), update_before=st.booleans())
def test_records_of_a_mini_batch_make_one_change_of_a_key(
    has_two_phases: bool, changes: list[Change], cut: int, size: int, update_before: bool
) -> None:
    model = Model(RETRACTABLE, update_before)
    driven = Driven(RETRACTABLE, update_before=update_before, mini_batch=MiniBatch(size, has_two_phases))
    expected: list[tuple[RowKind, tuple[Any, ...]]] = []
    for part in (changes[:cut], changes[cut:]):
        driven.epoch(part[:3], part[3:])
        for start in range(0, len(part), size):
            expected += model.of_mini_batch(part[start : start + size])
    if has_two_phases:  # receivers have fewer mini-batches, since accumulators are fewer than records
        left = {row[0]: row for kind, row in driven.changes() if kind in (INSERT, AFTER)}
        assert {key: left[key] for key in model.held} == {key: model.result(key) for key in model.held}
        assert len(driven.changes()) <= len(expected)
    else:
        assert sorted(driven.changes(), key=repr) == sorted(expected, key=repr)


@settings(max_examples=draws(10), deadline=None)
@given(changes=changelogs(), cut=st.integers(0, 30))
def test_insertions_alone_are_taken_by_every_aggregate(changes: list[Change], cut: int) -> None:
    inserted: list[Change] = [(INSERT, *change[1:]) for change in changes]
    model, driven = Model(ORDERED), Driven(ORDERED, retracts=False)
    driven.epoch(inserted[:cut])
    driven.epoch(inserted[cut:])
    assert driven.changes() == [found for change in inserted for found in model.changes(*change)]


INTEGER, DOUBLE, BOOLEAN = (AtomicType(root) for root in (TypeRoot.INTEGER, TypeRoot.DOUBLE, TypeRoot.BOOLEAN))
VALUES: Any = type_of_logical(
    RowType(("key", "t", "n", "x", "d", "f"), (bigint(), string(), INTEGER, DOUBLE, decimal(5, 2), BOOLEAN))
)
DISTINCT = tuple(
    AggregateOperation("COUNT", (column,), bigint(), f"c{column}{passing}", is_distinct=True, filter=passing)
    for column in (1, 2, 3, 4)
    for passing in (None, 5)
)
SUMS = tuple(
    AggregateOperation(function, (2,), INTEGER, function, is_distinct=True, filter=5) for function in ("SUM", "AVG")
)


@pytest.mark.parametrize("has_few_hashes", [False, True])
@settings(max_examples=draws(10), deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 1),
            st.none() | st.sampled_from("abcde"),
            st.none() | st.integers(-2, 2),
            st.none() | st.sampled_from([0.0, -0.0, 1.5, math.nan]),
            st.none() | st.sampled_from([Decimal("1.50"), Decimal("-3.00"), Decimal("0.00")]),
            st.none() | st.booleans(),
        ),
        max_size=20,
    ),
    cuts=st.tuples(st.integers(0, 20), st.integers(0, 20)),
)
def test_distinct_values_that_are_kept_one_by_one(has_few_hashes: bool, rows: list[Any], cuts: tuple[int, int]) -> None:
    """They give what those in the accumulators of groups give, and values with equal hashes are told apart."""
    first, second = sorted(cuts)
    results = []
    for keeps_values in (False, True):
        calls = tuple(replace(call, keeps_values=keeps_values) for call in (*DISTINCT, *SUMS))
        driven = Driven(calls, retracts=False, input=VALUES)
        with pytest.MonkeyPatch.context() as patch:
            if has_few_hashes:
                patch.setattr(distinct_values, "hash_array", lambda values: (hash_array(values) % 2).astype(np.uint64))
            changes = [(INSERT, *row) for row in rows]
            driven.epoch(changes[:first], changes[first:second])
            driven.epoch(changes[second:])
        results.append(driven.changes())
    assert results[0] == results[1]


def test_sums_may_leave_64_bits_and_return() -> None:
    largest = 2**63 - 1
    driven = Driven((agg.sum("n"),))
    driven.epoch(
        [(INSERT, 1, largest, None), (DELETE, 1, largest, None), (INSERT, 1, -5, None), (INSERT, 2, largest, None)]
    )
    driven.epoch([(INSERT, 2, -largest, None), (INSERT, 2, -largest, None)])
    assert [row[1] for kind, row in driven.changes() if kind in (INSERT, AFTER)] == [
        largest, -5, largest, 0, -largest,
    ]  # fmt: skip


def test_nothing_is_left_of_a_key_that_is_deleted() -> None:
    driven = Driven(RETRACTABLE)
    driven.epoch([(INSERT, 1, 5, 1.0), (INSERT, 2, 6, 1.0)])
    driven.epoch([(DELETE, 1, 5, 1.0)])
    (store,) = driven.stores.values()
    assert sum(run.section.rows for run in store.runs) == 1


def test_other_aggregates_and_other_operators_are_refused() -> None:
    driven = Driven((agg.count(), agg.min("n")))
    driven.epoch([(INSERT, 1, 5, 1.0)])
    driven.retracts = False
    with pytest.raises(StateMigrationError, match="set of aggregates"):
        driven.open()
    driven.stores["value-of-others"] = RunStore("value-of-others", ALL_HASHES)
    with pytest.raises(StateMigrationError, match="another kind of operator"):
        driven.open()


@pytest.mark.parametrize(
    ("some", "others", "expected"),
    [
        ([1, None, None, 2], [1, None, 3, 3], [False, False, True, True]),
        ([[1], [], None, [1, 2], [None]], [[1], None, None, [1, 3], [None]], [False, True, False, True, False]),
        ([{"a": 1}, {"a": None}], [{"a": 1}, {"a": 2}], [False, True]),
        ([float("nan"), float("nan"), 1.0], [float("nan"), 1.0, None], [False, True, True]),
    ],
)
def test_values_differ(some: list[Any], others: list[Any], expected: list[bool]) -> None:
    together = pa.array(some + others)
    assert differ(together[: len(some)], together[len(some) :]).tolist() == expected


# --- programs ---------------------------------------------------------------------------------------------------------

NAMES, FIELDS = ["item", "pieces"], [Types.STRING(), Types.LONG()]
PLAIN, DECLARED = Types.ROW_NAMED(NAMES, FIELDS), Types.ROW_NAMED(NAMES, FIELDS, changelog=True)
STOCK = [Row("tea", 5), Row("oil", 1), Row("tea", 2), Row.of_kind(DELETE, "tea", 5), Row.of_kind(DELETE, "oil", 1)]


def stock(type_: Any = DECLARED, **more: str) -> DataStream:
    config = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "2", **more})
    return StreamExecutionEnvironment.get_execution_environment(config).from_collection(STOCK, type_)


def collected(stream: DataStream) -> list[str]:
    with stream.execute_and_collect() as results:
        return [f"{row.get_row_kind()}{list(row)}" for row in results]


def test_aggregates_by_key_of_a_stream() -> None:
    changes = collected(stock().key_by("item").aggregate(agg.count(), agg.sum("pieces")))
    assert [change for change in changes if "tea" in change] == [
        "+I['tea', 1, 5]", "-U['tea', 1, 5]", "+U['tea', 2, 7]", "-U['tea', 2, 7]", "+U['tea', 1, 2]",
    ]  # fmt: skip
    assert [change for change in changes if "oil" in change] == ["+I['oil', 1, 1]", "-D['oil', 1, 1]"]


def test_a_batch_job_gives_the_last_result_of_each_key() -> None:
    changed = stock(**{"execution.runtime-mode": "BATCH"}).key_by("item").aggregate(agg.count(), agg.max("pieces"))
    assert collected(changed) == ["+I['tea', 1, 2]"]


def test_results_are_aggregated_again() -> None:
    items = stock().key_by("item").aggregate(agg.count().alias("rows"))
    sizes = items.key_by("rows").aggregate(agg.count().alias("items"))
    rows = Counter[str]()
    for change in collected(sizes):
        rows.update({change[2:]: -1 if change.startswith("-") else 1})
    assert +rows == Counter({"[1, 1]": 1})


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.aggregate(agg.first("pieces")), r"first\(\) cannot take records back"),
        (lambda s: s.sum("pieces"), r"insertions alone \(what is folded in is not taken out again, as key_by"),
        (lambda s: s.reduce(lambda a, b: a), "is folded in"),
        (lambda s: s.count_window(2).aggregate(agg.count()), r"\(what a window has taken in is not taken out again\)"),
        (
            lambda s: s.interval_join(s).between(0, 1).select(left("item")),
            r"\(pairs that it has given are not taken back\)",
        ),
        (lambda s: s.aggregate(), "at least one aggregate"),
        (lambda s: s.aggregate(agg.count(), agg.count()), "two columns 'count'"),
        (lambda s: s.aggregate(agg.count(), takes_changes=False), "takes_changes=True"),
    ],
)
def test_what_cannot_be_is_refused_in_the_program(build: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        build(stock().key_by("item"))


def test_changes_that_nothing_tells_of_are_refused_unless_the_program_says_so() -> None:
    with pytest.raises(InvalidProgramError, match=r"takes_changes=True.*but a record is -D"):
        collected(stock(PLAIN).key_by("item").aggregate(agg.count()))
    found = collected(stock(PLAIN).key_by("item").aggregate(agg.count(), takes_changes=True))
    assert found.count("-D['oil', 1]") == 1


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_aggregates_go_on_from_a_savepoint(backend: str) -> None:
    def job(harness: JobHarness) -> None:
        changes = harness.add_source("stock", DECLARED).key_by("item")
        harness.add_sink("totals", changes.aggregate(agg.sum("pieces"), agg.min("pieces")).uid("totals"))

    config = {"state.backend.type": backend}
    with JobHarness(job, configuration=config) as harness:
        harness.push_all("stock", STOCK[:3])
        harness.run_epoch()
        harness.take("totals")
        checkpoint = harness.checkpoint()
    with JobHarness(job, configuration=config, parallelism=3, restore=checkpoint) as harness:
        harness.push_all("stock", STOCK[3:])
        harness.run_epoch()
        assert sorted(f"{row.get_row_kind()}{list(row)}" for row in harness.take("totals")) == [
            "+U['tea', 2, 2]", "-D['oil', 1, 1]", "-U['tea', 7, 2]",
        ]  # fmt: skip


def test_numbers_of_rows() -> None:
    """Keys are told apart however many records come at once."""
    driven = Driven((agg.count(), agg.sum("n")))
    records: list[Change] = [(INSERT, int(key), 1, None) for key in np.arange(300) % 7]
    driven.epoch(records)
    last = {row[0]: row for _, row in driven.changes()}
    assert sorted(last.values()) == [(key, len(range(key, 300, 7)), len(range(key, 300, 7))) for key in range(7)]
