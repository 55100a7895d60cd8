"""Elements that age in event time, and that leave the disk once they have expired."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.configuration import Configuration
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.typeinfo import Types
from headrace.datastream.functions import KeyedProcessFunction, RuntimeContext
from headrace.datastream.state import StateTtlConfig, ValueStateDescriptor
from headrace.state.backend import DEFAULT_BACKEND, ROCKSDB_BACKEND, STATE_BACKENDS, StateBackendPlugin
from headrace.state.compaction import plan_compaction
from headrace.testing import JobHarness
from headrace.time.watermark_strategy import WatermarkStrategy
from tests.draws import draws
from tests.state.harness import Job
from tests.state.test_ttl import KINDS, METHODS, TTL, Epochs, config, entries, several, value

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


@pytest.mark.parametrize("make", KINDS)
def test_before_there_is_a_watermark_nothing_ages(make: Callable[[], Any]) -> None:
    epochs = Epochs(make, config(in_event_time=True))
    epochs.write(MIN_WATERMARK, 1)
    assert epochs.read(10**12) == 1
    epochs.write(10**12, 1)
    assert epochs.read(10**12 + TTL) == (1 if make is several else None)


@pytest.mark.parametrize("make", KINDS)
def test_the_clock_makes_no_difference(make: Callable[[], Any]) -> None:
    epochs = Epochs(make, config(in_event_time=True))
    epochs.write(50, 1)
    epochs.job.clock = 10**15
    assert epochs.read(50 + TTL - 1) == 1
    epochs.job.compact(now=10**15)
    assert epochs.read(50 + TTL - 1) == 1


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("in_event_time", [False, True])
def test_the_time_in_which_elements_age_can_be_changed(make: Callable[[], Any], in_event_time: bool) -> None:
    """What was written before begins anew when it is written again."""
    epochs = Epochs(make, config(in_event_time=not in_event_time))
    epochs.write(1000, 1)
    epochs.ttl = config(in_event_time=in_event_time)
    assert epochs.read(10**6) == 1
    epochs.write(10**6, 1)
    assert epochs.read(10**6 + TTL - 1) is not None
    assert epochs.read(10**6 + TTL) == (1 if make is several else None)


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("length", [10, 1000])
def test_another_length_counts_from_the_next_write(make: Callable[[], Any], length: int) -> None:
    epochs = Epochs(make, config())
    epochs.write(0, 1)
    epochs.ttl = StateTtlConfig.new_builder(length).build()
    assert epochs.read(TTL - 1) == 1
    epochs.write(TTL - 1, 1)
    last = TTL - 1 + length
    assert epochs.read(last - 1) is not None
    assert epochs.read(last) is None


# --- another time to live, or none -----------------------------------------------------------------------------------

MODES: list[bool | None] = [None, False, True]
"""No time to live, one in processing time, one in event time."""


class Transitions:
    """State of a few keys under one time to live after another, and when each element is to expire.

    Args:
        make: the descriptor.
        backend: where state is kept.
        ahead: by how much the clock is ahead of event time.
    """

    def __init__(self, make: Callable[[], Any], backend: StateBackendPlugin, ahead: int) -> None:
        self.make, self.job, self.ahead = make, Job(backend=backend), ahead
        self.expiries: dict[int, tuple[bool, int] | None] = {}

    def epoch(self, mode: bool | None, time: int, keys: Sequence[int], action: Callable[[Any], Any]) -> list[Any]:
        self.job.watermark, self.job.clock = time, time + self.ahead
        operators, descriptor = self.job.begin(), self.make()
        if mode is not None:
            descriptor.enable_time_to_live(config(in_event_time=mode))
        states = [operator.keyed.state(descriptor) for operator in operators]
        assert len(states) == 1
        found = self.job.on_keys(operators, keys, lambda *_: action(states[0]))
        self.job.end()
        for key, known in self.expiries.items():
            if known is not None and mode is not None and known[0] is not mode:
                self.expiries[key] = None
        return found

    def write(self, mode: bool | None, time: int, keys: Sequence[int]) -> None:
        self.epoch(mode, time, keys, lambda state: METHODS[self.make().kind][0](state, 7))
        for key in keys:
            self.expiries[key] = None if mode is None else (mode, time + TTL if mode else time + self.ahead + TTL)

    def check(self, mode: bool | None, time: int) -> None:
        def is_there(key: int) -> bool:
            known = self.expiries[key]
            return known is None or known[0] is not mode or (time if mode else time + self.ahead) < known[1]

        keys = list(self.expiries)
        found = self.epoch(mode, time, keys, METHODS[self.make().kind][1])
        assert found == [7 if is_there(key) else None for key in keys]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "rewrite", "make"),
    [
        *((DEFAULT_BACKEND, "compaction", make) for make in (value, several, entries)),
        *((DEFAULT_BACKEND, "canonical", make) for make in (value, several, entries)),
        (ROCKSDB_BACKEND, "compaction", entries),
        *(pytest.param(ROCKSDB_BACKEND, "compaction", make, marks=pytest.mark.slow) for make in (value, several)),
    ],
)
def test_an_element_expires_in_the_time_that_it_was_written_in_or_never(
    installed: None, name: str, make: Callable[[], Any], rewrite: str
) -> None:
    """Keys are written under each of three times to live that follow one another; the last one's meets all of them."""
    backend = STATE_BACKENDS.load(name).configured(Configuration())
    for number, modes in enumerate(product(MODES, repeat=3)):
        chain = Transitions(make, backend, ahead=-(10**12) if number % 2 else 10**12)
        for time, mode in zip((10, 20, 30), modes, strict=True):
            chain.write(mode, time, range(time, time + 3))
            if rewrite == "canonical":
                chain.job.transplant()
            else:
                chain.job.compact(chain.job.clock, time)
        chain.check(modes[-1], 30)
        chain.check(modes[-1], 30 + 10 * TTL)


# --- a model ---------------------------------------------------------------------------------------------------------

STEPS = st.lists(st.tuples(st.sampled_from(["write", "read", "compact"]), st.integers(0, 60)), max_size=12)


@given(
    kind=st.integers(0, len(KINDS) - 1),
    in_event_time=st.booleans(),
    on_read=st.booleans(),
    return_expired=st.booleans(),
    steps=STEPS,
)
def test_against_a_model(
    kind: int, in_event_time: bool, on_read: bool, return_expired: bool, steps: list[tuple[str, int]]
) -> None:
    make = KINDS[kind]
    ttl = config(on_read=on_read, return_expired=return_expired, in_event_time=in_event_time)
    epochs, now, alive = Epochs(make, ttl), 1000, list[tuple[int, int]]()
    folds, adds = make.__name__ in {"reducing", "aggregating"}, make is several
    for step, later in steps:
        now += later
        if step == "compact":
            epochs.job.compact(now=now)
        elif step == "write":
            living = [(item, until) for item, until in alive if until > now]
            item = sum(item for item, _ in living) + later if folds else later
            alive = [*(alive if adds else ()), (item, now + TTL)]
            epochs.write(now, later)
        else:
            found = epochs.read(now)
            living = [(item, until) for item, until in alive if until > now]
            shown = living[-1][0] if living else None
            if found != shown:
                assert return_expired, (found, shown)
                assert found in [item for item, _ in alive], "an expired one may be shown once"
            alive = [(item, now + TTL) for item, _ in living] if on_read else living


# --- on the disk -----------------------------------------------------------------------------------------------------


def bytes_of(epochs: Epochs) -> int:
    epochs.job.collect_garbage()
    storage = epochs.job.storage
    return sum(storage.size(name) or 0 for name in storage.names())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("in_event_time", [False, True])
@pytest.mark.parametrize("make", KINDS)
def test_a_run_whose_elements_have_expired_leaves_the_disk(make: Callable[[], Any], in_event_time: bool) -> None:
    """Other keys go on, few of them: nothing is merged for its size."""
    epochs = Epochs(make, config(in_event_time=in_event_time))

    def write_many(clock: int, count: int) -> None:
        def action(state: Any) -> None:
            keyed = epochs.job.tasks[0].operator("operator").keyed
            for entry in keyed.bind(epochs.job.codec.encode(list(range(count)))):
                keyed.current = entry
                METHODS[make().kind][0](state, 7)

        epochs.at(clock, action)

    def compact(now: int) -> int:
        times = {"operator": now} if in_event_time else {}
        tasks = [
            task
            for ref in epochs.job.refs
            for task in plan_compaction(epochs.job.storage, ref, 0 if in_event_time else now, event_times=times)
        ]
        epochs.job.results += [epochs.job.backend.run_compaction(epochs.job.storage, task) for task in tasks]
        return len(tasks)

    write_many(0, 5_000)
    full = bytes_of(epochs)
    write_many(TTL - 1, 10)
    assert compact(TTL - 1) == 0, "nothing has expired"
    assert compact(TTL) == 1
    epochs.at(TTL, lambda state: None)
    assert bytes_of(epochs) < full / 20
    assert compact(TTL + 1) == 0, "what is left is not written over and over"


@pytest.mark.parametrize("make", KINDS)
def test_a_run_that_has_expired_is_written_anew_once_where_it_hides_an_older_one(make: Callable[[], Any]) -> None:
    """What was stored before there was a time to live does not expire, and what has expired must not let it be seen."""
    method, job = METHODS[make().kind], Job()

    def descriptor(*, expires: bool) -> Any:
        made = make()
        if expires:
            made.enable_time_to_live(config())
        return made

    def write(keys: range, *, expires: bool) -> None:
        operators = job.begin()
        state = operators[0].keyed.state(descriptor(expires=expires))
        job.on_keys(operators, keys, lambda *_: method[0](state, 1))
        job.end()

    write(range(100), expires=False)
    write(range(90, 100), expires=True)
    job.clock = TTL
    assert [job.compact(TTL), bool(job.begin()), bool(job.end()), job.compact(TTL)] == [1, True, True, 0]
    operators = job.begin()
    found = job.on_keys(
        operators, range(100), lambda operator, *_: method[1](operator.keyed.state(descriptor(expires=True)))
    )
    hidden = 1 if make().kind == "list" else None  # of a list those that were added before are there
    assert found == [1] * 90 + [hidden] * 10


# --- in a job --------------------------------------------------------------------------------------------------------


class SinceLast(KeyedProcessFunction):
    """Whether the key had a record in the last hundred milliseconds of event time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("seen", Types.LONG())
        descriptor.enable_time_to_live(config(in_event_time=True))
        self.seen = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield value[0], self.seen.value() or 0
        self.seen.update(value[1])
        ctx.timer_service().register_event_time_timer(value[1] + 70)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield "timer", self.seen.value() or 0


def watched(job: JobHarness) -> None:
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
    stream = job.add_source("in", PAIR, watermarks=times)
    job.add_sink("out", stream.key_by("f0").process(SinceLast(), PAIR).uid("watched"))


@settings(max_examples=draws(36))
@given(cuts=st.lists(st.booleans(), min_size=6, max_size=6))
def test_how_the_input_is_cut_makes_no_difference(cuts: list[bool]) -> None:
    records = [("a", 1000), ("b", 1010), ("a", 1050), ("b", 1500), ("a", 1149), ("a", 1551)]
    with JobHarness(watched) as job:
        for record, cut in zip(records, cuts, strict=True):
            job.push("in", record)
            if cut:
                job.run_epoch()
        job.run_epoch()
        shown = job.take("out")
    assert [row for row in shown if row[0] == "a"] == [("a", 0), ("a", 1000), ("a", 0), ("a", 1149)]
    assert [row for row in shown if row[0] == "b"] == [("b", 0), ("b", 1010)]
    # A timer meets state as of its own time, however far the watermark has come at once.
    assert [row[1] for row in shown if row[0] == "timer"] == [1050, 1500, 0, 1551]


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize(("before", "left"), [(TTL, None), (TTL - 1, 1), (0, 1)])
def test_what_would_live_beyond_the_end_of_time_does_not_expire(
    make: Callable[[], Any], before: int, left: int | None
) -> None:
    epochs = Epochs(make, config(in_event_time=True))
    epochs.write(MAX_WATERMARK - before, 1)
    assert epochs.read(max(MAX_WATERMARK - before, MAX_WATERMARK - 1)) == 1
    assert epochs.read(MAX_WATERMARK) == left
