"""State that is exported to tables and imported again is the same state."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from headrace.common import Types
from headrace.common.errors import StateError, UnsupportedOperationError
from headrace.common.time import Time
from headrace.state.backend import StateOwner
from headrace.state.descriptors import ListStateDescriptor, StateTtlConfig, ValueStateDescriptor
from headrace.state.exported_tables import ExportedTable
from headrace.state.runs.merging import describe_run
from headrace.state.state_file import NewVersion
from tests.state.dictionary_backend import DictionaryStateBackend
from tests.state.harness import MAX_PARALLELISM, UID, Job
from tests.state.test_state_model import KEY_KINDS, Checker


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", sorted(KEY_KINDS))
@pytest.mark.parametrize("inline_threshold", [0, 1 << 20])
def test_keyed_states_are_as_their_model(kind: str, inline_threshold: int) -> None:
    source = random.Random(kind)
    type_, key_of = KEY_KINDS[kind]
    job = Job(Job().codec.for_type(type_), inline_threshold=inline_threshold)
    checker, keys = Checker(source), [key_of(n) for n in range(25)]
    for parallelism in (1, 4, 3, 1):
        job.rescale(parallelism)
        for _ in range(3):
            operators = job.begin()
            job.on_keys(operators, keys, checker.check)
            job.on_keys(operators, source.choices(keys, k=60), checker.touch)
            job.end()
        job.transplant()
    job.on_keys(job.begin(), keys, checker.check)


def test_states_of_key_and_namespace() -> None:
    job, model = Job(), {}
    totals = ListStateDescriptor("totals", Types.LONG())
    namespaces = [-5, b"", b"seven", (0, 7), (-5, 7)]

    def add(operator: Any, key: int, _: int) -> None:
        for number, namespace in enumerate(namespaces):
            operator.keyed.enter_namespace(namespace, (operator.keyed.current,))
            state = operator.keyed.namespaced_state(totals)
            assert state.get() == model.get((key, namespace), [])
            state.add(key + number)
            model.setdefault((key, namespace), []).append(key + number)

    for parallelism in (1, 3, 2):
        job.rescale(parallelism)
        job.on_keys(job.begin(), range(-9, 9), add)
        job.end()
        job.transplant()
    assert len(model) == 18 * 5


def test_timers_fire_once_each() -> None:
    job = Job()
    job.on_keys(job.begin(), range(20), lambda op, key, _: op.timers.event.register(100 + key % 7, (key, key + 1)))
    job.end()
    job.on_keys(job.begin(), range(5), lambda op, key, _: op.timers.event.delete(100 + key % 7, (key, key + 1)))
    job.end()
    job.rescale(3)
    job.begin()
    job.end()
    job.transplant()
    due = [timer for operator in job.begin() for timer in operator.timers.event.pop_due(1000)]
    expected = {(100 + key % 7, key, (key, key + 1)) for key in range(5, 20)}
    assert {(timer.time, timer.entry.key, timer.namespace) for timer in due} == expected
    assert len(due) == 15


def test_what_has_expired_is_not_exported() -> None:
    job = Job()
    seen = ValueStateDescriptor("seen", Types.LONG())
    seen.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(100)).build())
    job.on_keys(job.begin(), range(4), lambda op, key, _: op.keyed.state(seen).update(key))
    job.end()
    job.clock = 60
    job.on_keys(job.begin(), range(2), lambda op, key, _: op.keyed.state(seen).update(key))
    job.end()
    (table,) = job.backend.export_tables(job.storage, job.refs[0], 110)
    rows = table.whole()
    assert sorted(rows.column("key").to_pylist()) == [0, 1]
    assert rows.column("expiry").to_pylist() == [160, 160]


def test_of_a_state_that_holds_nothing_any_more_there_is_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.state.runs.merging.INLINE_ROWS", 0)  # what says that it is gone stays
    job, seen = Job(), ValueStateDescriptor("seen", Types.LONG())
    for value in (1, None):
        job.on_keys(job.begin(), range(4), lambda op, *_: op.keyed.state(seen).update(value))  # noqa: B023 # called now
        job.end()
    assert len(job._open(0).store(UID, "state/seen").runs) == 2
    assert list(job.backend.export_tables(job.storage, job.refs[0], 0)) == []


def test_columns_are_as_the_table_says() -> None:
    job = Job()
    words = ListStateDescriptor("words", Types.STRING())
    job.on_keys(job.begin(), [7], lambda op, key, _: op.keyed.state(words).update(["a", "b"]))
    job.end()
    (table,) = job.backend.export_tables(job.storage, job.refs[0], 0)
    assert (table.uid, table.store, table.about["kind"]) == (UID, "state/words", "list")
    assert table.whole().to_pylist() == [{"key": 7, "value": "a"}, {"key": 7, "value": "b"}]


def test_rows_may_come_in_any_order() -> None:
    job, seen = Job(), ValueStateDescriptor("seen", Types.LONG())
    job.on_keys(job.begin(), range(50), lambda op, key, _: op.keyed.state(seen).update(key * key))
    job.end()
    (table,) = job.backend.export_tables(job.storage, job.refs[0], 0)
    rows = table.whole()
    turned = rows.take(pa.array(range(rows.num_rows - 1, -1, -1)))
    job.refs = [_imported(job, ExportedTable(table.uid, table.store, table.about, rows.schema, [turned]))]
    found = job.on_keys(job.begin(), range(50), lambda op, key, _: op.keyed.state(seen).value())
    assert found == [key * key for key in range(50)]


@pytest.mark.parametrize(
    ("partition", "owners"),
    [(0, {UID: StateOwner(2, MAX_PARALLELISM)}), (1, {UID: StateOwner(1, MAX_PARALLELISM)}), (0, {})],
    ids=["of another part of them", "of an operator with fewer subtasks", "of none"],
)
def test_keys_of_other_partitions_are_refused(partition: int, owners: dict[str, StateOwner]) -> None:
    job, seen = Job(), ValueStateDescriptor("seen", Types.LONG())
    job.on_keys(job.begin(), range(50), lambda op, key, _: op.keyed.state(seen).update(key))
    job.end()
    tables = list(job.backend.export_tables(job.storage, job.refs[0], 0))
    with pytest.raises(StateError, match="'state/seen' has keys that belong into other files"):
        job.backend.import_tables(job.storage, tables, NewVersion(1, partition, 1, 1, 0), owners)


def test_a_log_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(StateError, match="has not imported the module"):
        describe_run({"kind": "unheard-of"}, pa.RecordBatch.from_pylist([{"a": 1}]))


def test_a_backend_need_not_be_able_to() -> None:
    backend = DictionaryStateBackend("dictionary")
    with pytest.raises(UnsupportedOperationError, match="take a native savepoint"):
        backend.export_tables(Job().storage, Job().refs, 0)  # type: ignore[arg-type] # looks at nothing


def _imported(job: Job, table: ExportedTable) -> Any:
    owners = {UID: StateOwner(1, MAX_PARALLELISM)}
    return job.backend.import_tables(job.storage, [table], NewVersion(1, 0, job.epoch, 1, 0), owners)
