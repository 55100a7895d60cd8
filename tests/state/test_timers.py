"""Timers: one per (key, namespace, time), fired in order, over epochs, compactions and changes of parallelism."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import InvalidTypeError, StateError, StateMigrationError
from headrace.common.typeinfo import Types
from headrace.state.keys import KeyCodec
from headrace.state.timers import EVENT, NO_TIMER, PROCESSING
from tests.state.harness import Job


def register(job: Job, operators: Any, key: Any, time: int, namespace: Any = None, domain: str = EVENT) -> None:
    job.on_keys(operators, [key], lambda op, *_: getattr(op.timers, domain).register(time, namespace))


def delete(job: Job, operators: Any, key: Any, time: int, namespace: Any = None) -> None:
    job.on_keys(operators, [key], lambda op, *_: op.timers.event.delete(time, namespace))


def fire(operators: Any, up_to: int, domain: str = EVENT) -> list[tuple[int, Any, Any]]:
    fired = [(t.time, t.entry.key, t.namespace) for op in operators for t in getattr(op.timers, domain).pop_due(up_to)]
    return sorted(fired, key=repr)


def test_timers_fire_once_in_order_when_time_passes() -> None:
    job = Job()
    (operator,) = job.begin()
    for key, time in ((1, 30), (2, 10), (1, 10), (1, 10), (3, 20)):
        register(job, [operator], key, time)
    assert operator.timers.event.next_due == 10
    fired = [(timer.time, timer.entry.key) for timer in operator.timers.event.pop_due(20)]
    assert [time for time, _ in fired] == [10, 10, 20]
    assert sorted(fired) == [(10, 1), (10, 2), (20, 3)]
    assert operator.timers.event.next_due == 30
    assert fire([operator], 29) == []
    assert fire([operator], 30) == [(30, 1, None)]
    assert operator.timers.event.next_due == NO_TIMER


def test_a_timer_of_a_time_that_has_passed_can_be_deleted_before_it_fires() -> None:
    job = Job()
    (operator,) = job.begin()
    fire([operator], 100)
    for key in (1, 2):
        register(job, [operator], key, 50)
    delete(job, [operator], 1, 50)
    delete(job, [operator], 3, 50)  # never registered
    assert fire([operator], 101) == [(50, 2, None)]


@pytest.mark.parametrize("keep", [False, True])
def test_timers_survive_epochs(keep: bool) -> None:
    job = Job(keep=keep)
    operators = job.begin()
    for time in (5, 15, 25):
        register(job, operators, 1, time, time)
    job.end()
    operators = job.begin()
    assert operators[0].timers.event.next_due == 5
    assert fire(operators, 15) == [(15, 1, 15), (5, 1, 5)]
    job.watermark = 15
    job.end()
    operators = job.begin()
    assert operators[0].timers.event.next_due == 25
    assert fire(operators, 100) == [(25, 1, 25)]
    job.watermark = 100
    job.end()
    assert job.begin()[0].timers.event.next_due == NO_TIMER
    assert not job.tasks[0].store("operator", "timers/event").runs


@pytest.mark.parametrize("cut", [False, True])
def test_a_timer_that_is_overdue_when_registered_fires_with_the_next_advance(cut: bool) -> None:
    job = Job()
    operators = job.begin()
    fire(operators, 100)
    register(job, operators, 1, 50)
    assert fire(operators, 100) == []  # no advance
    job.watermark = 100
    if cut:
        job.end()
        operators = job.begin()
        assert fire(operators, 100) == []
    assert fire(operators, 101) == [(50, 1, None)]
    assert fire(operators, 102) == []


def test_a_deleted_timer_does_not_fire_whichever_epoch_it_is_from() -> None:
    job = Job()
    operators = job.begin()
    for key in range(4):
        register(job, operators, key, 10)
    delete(job, operators, 0, 10)
    delete(job, operators, 9, 10)  # never registered
    job.end()
    operators = job.begin()
    delete(job, operators, 1, 10)
    job.end()
    operators = job.begin()
    delete(job, operators, 2, 10)
    delete(job, operators, 3, 10)
    register(job, operators, 3, 10)
    assert fire(operators, 10) == [(10, 3, None)]


def test_timers_registered_and_deleted_while_firing() -> None:
    job = Job()
    (operator,) = job.begin()
    queue = operator.timers.event
    register(job, [operator], 1, 10)
    register(job, [operator], 1, 30)
    register(job, [operator], 1, 40)
    job.end()
    (operator,) = job.begin()
    queue = operator.timers.event
    fired = []
    for timer in queue.pop_due(50):
        fired.append(timer.time)
        operator.keyed.current = timer.entry
        if timer.time == 10:
            queue.register(20)
            queue.register(60)
            queue.delete(40)
            queue.register(5)  # its time has been passed, but the advance is still going on
    assert fired == [10, 5, 20, 30]
    assert queue.next_due == 60


def test_a_timer_of_the_same_time_can_be_deleted_by_one_that_fires_before() -> None:
    for stored in (False, True):
        job = Job()
        operators = job.begin()
        for namespace in (1, 2, 3):
            register(job, operators, 1, 10, namespace)
        if stored:
            job.end()
            operators = job.begin()
        queue = operators[0].timers.event
        fired = []
        for timer in queue.pop_due(10):
            fired.append(timer.namespace)
            operators[0].keyed.current = timer.entry
            if timer.namespace == 1:
                queue.delete(10, 2)
                queue.delete(10, 3)
                queue.register(10, 3)
        assert fired == [1, 3]


def test_a_timer_of_a_time_that_was_passed_can_be_deleted_by_one_of_the_same_time() -> None:
    job = Job()
    operators = job.begin()
    register(job, operators, 1, 10)
    queue = operators[0].timers.event
    fired = []
    for timer in queue.pop_due(20):
        fired.append((timer.time, timer.namespace))
        operators[0].keyed.current = timer.entry
        if timer.time == 10:
            queue.register(5, 1)
            queue.register(5, 2)
        elif timer.namespace == 1:
            queue.delete(5, 2)
            queue.delete(5, 1)  # has fired
            queue.delete(10)  # has fired long ago
    assert fired == [(10, None), (5, 1)]
    assert queue.next_due == NO_TIMER


@pytest.mark.parametrize("seen", [0, 4, 10, 99])
def test_timers_that_were_foreseen_fire_as_if_they_had_not_been(seen: int) -> None:
    job = Job()
    operators = job.begin()
    for time in (3, 10, 30):
        register(job, operators, 1, time, time)
    job.end()
    operators = job.begin()
    queue = operators[0].timers.event
    foreseen = [] if not seen else [namespace for _, namespace in queue.foresee(seen)]
    assert foreseen == [time for time in (3, 10, 30) if time <= seen]
    assert list(queue.foresee(seen)) == []
    assert fire(operators, 5) == [(3, 1, 3)]
    delete(job, operators, 1, 10, 10)
    register(job, operators, 1, 10, 11)
    assert fire(operators, 10) == [(10, 1, 11)]
    job.watermark = 10
    job.end()
    operators = job.begin()
    assert operators[0].timers.event.next_due == 30
    assert fire(operators, 30) == [(30, 1, 30)]


def test_namespaces_are_told_apart_and_ordered() -> None:
    job = Job()
    operators = job.begin()
    names = [None, -1, 0, 2**63 - 1, -(2**63), b"", b"a"]
    for name in names:
        register(job, operators, 1, 10, name)
    job.end()
    operators = job.begin()
    fired = [timer.namespace for timer in operators[0].timers.event.pop_due(10)]
    assert fired == [None, b"", b"a", -(2**63), -1, 0, 2**63 - 1]


def test_the_ends_of_time_are_times() -> None:
    job = Job()
    operators = job.begin()
    register(job, operators, 1, MIN_WATERMARK)
    register(job, operators, 1, MAX_WATERMARK)
    with pytest.raises(InvalidTypeError):
        register(job, operators, 1, 2**63)
    job.end()
    operators = job.begin()
    assert fire(operators, 0) == [(MIN_WATERMARK, 1, None)]
    assert fire(operators, MAX_WATERMARK) == [(MAX_WATERMARK, 1, None)]


def test_processing_time_is_a_domain_of_its_own() -> None:
    job = Job()
    operators = job.begin()
    register(job, operators, 1, 10, None, PROCESSING)
    register(job, operators, 1, 5)
    assert operators[0].earliest_processing_time() == 10
    assert fire(operators, 7) == [(5, 1, None)]
    job.end()
    operators = job.begin()
    assert operators[0].earliest_processing_time() == 10
    assert fire(operators, 10, PROCESSING) == [(10, 1, None)]
    assert operators[0].earliest_processing_time() is None
    register(job, operators, 1, 3, None, PROCESSING)  # overdue: the next epoch fires it
    job.end()
    operators = job.begin()
    assert operators[0].earliest_processing_time() == 3
    assert fire(operators, 11, PROCESSING) == [(3, 1, None)]


def test_timers_need_a_key() -> None:
    job = Job()
    (operator,) = job.begin()
    with pytest.raises(StateError, match="while a record or a timer"):
        operator.timers.event.register(1)


def test_timers_of_other_keys_cannot_be_taken_over() -> None:
    job = Job()
    register(job, job.begin(), 1, 10)
    job.end()
    job.codec = KeyCodec.for_type(Types.STRING())
    with pytest.raises(StateMigrationError, match="another key type"):
        _ = job.begin()[0].timers


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(12))
def test_timers_are_as_their_model(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(seed)
    monkeypatch.setattr("headrace.state.runs.merging.INLINE_ROWS", source.choice([4, 50, 1 << 18]))
    monkeypatch.setattr("headrace.state.compaction.INLINE_ROWS", 1)
    monkeypatch.setattr("headrace.state.compaction.MANY_RUNS", 2)
    monkeypatch.setattr("headrace.state.runs.merge_input.FIRST_PROBE", source.choice([1, 3, 1024]))
    monkeypatch.setattr("headrace.state.timers.MOST_READ", source.choice([1, 3, 1 << 16]))
    codec = KeyCodec.for_type(source.choice([Types.LONG(), Types.PICKLED_BYTE_ARRAY()]))
    job = Job(codec, inline_threshold=source.choice([0, 1 << 20]), keep=seed % 3 == 0)
    model: set[tuple[int, int, Any]] = set()
    job.watermark = 0
    for _ in range(40):
        operators = job.begin()
        for _ in range(source.randint(0, 4)):
            for _ in range(source.randint(0, 12)):
                key, time = source.randint(0, 9), job.watermark + source.randint(-10, 60)
                name = source.choice([None, 1, b"x"])
                if source.random() < 0.7:
                    register(job, operators, key, time, name)
                    model.add((time, key, name))
                else:
                    delete(job, operators, key, time, name)
                    model.discard((time, key, name))
            if source.random() < 0.6:
                job.watermark += source.randint(1, 25)
                due = {timer for timer in model if timer[0] <= job.watermark}
                assert fire(operators, job.watermark) == sorted(due, key=repr)
                model -= due
        for operator in operators:
            earliest = min((time for time, *_ in model), default=NO_TIMER)
            assert operator.timers.event.next_due >= min(earliest, operator.timers.event.next_due)
        assert min(op.timers.event.next_due for op in operators) <= min((t for t, *_ in model), default=NO_TIMER)
        job.end()
        if source.random() < 0.3:
            job.compact()
        if source.random() < 0.2 and not job.results:
            job.rescale(source.choice([1, 3, 4]))
    assert fire(job.begin(), MAX_WATERMARK) == sorted(model, key=repr)


def change_all(job: Job, operator: Any, keys: list[Any], changes: list[tuple[int, bool]]) -> None:
    def change(op: Any, _: Any, row: int) -> None:
        time, live = changes[row]
        (op.timers.event.register if live else op.timers.event.delete)(time)

    job.on_keys([operator], keys, change)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", [0, 1])
def test_many_timers_of_many_runs_fire_in_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough for several levels of runs, whose rows hide rows of older ones."""
    source = random.Random(seed)
    monkeypatch.setattr("headrace.state.sorted_table.SMALL_ROWS", 64)
    monkeypatch.setattr("headrace.state.timers.MOST_READ", 100)
    monkeypatch.setattr("headrace.state.compaction.INLINE_ROWS", 1_000)
    monkeypatch.setattr("headrace.state.compaction.MANY_RUNS", 3)
    job = Job(KeyCodec.for_type(Types.TUPLE([Types.LONG(), Types.STRING()])), keep=seed == 1)
    model: set[tuple[int, Any]] = set()
    job.watermark = compactions = 0
    for epoch in range(12):
        (operator,) = job.begin()
        keys = [(source.randint(0, 40), source.choice("ab")) for _ in range(source.choice([60, 1_500]))]
        changes = [(job.watermark + source.randint(1, 400), source.random() < 0.8) for _ in keys]
        change_all(job, operator, keys, changes)
        for key, (time, live) in zip(keys, changes, strict=True):
            (model.add if live else model.discard)((time, key))
        if epoch % 3 == 2:
            job.watermark += 100
            fired = [(timer.time, timer.entry.key) for timer in operator.timers.event.pop_due(job.watermark)]
            assert [time for time, _ in fired] == sorted(time for time, _ in fired)
            due = {timer for timer in model if timer[0] <= job.watermark}
            assert len(fired) == len(due)
            assert set(fired) == due
            model -= due
        job.end()
        compactions += job.compact()
    assert compactions > 1
    (operator,) = job.begin()
    assert {(timer.time, timer.entry.key) for timer in operator.timers.event.pop_due(MAX_WATERMARK)} == model
