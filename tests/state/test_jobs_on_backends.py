"""Jobs give the same on every state backend, which is chosen by name."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Types, WatermarkStrategy
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, StateMigrationError
from headrace.common.time import Time
from headrace.datastream import KeyedProcessFunction, ProcessWindowFunction, StreamExecutionEnvironment
from headrace.datastream.aggregates import count, sum
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.jobmanager import compaction
from headrace.state.backend import DEFAULT_BACKEND, ROCKSDB_BACKEND
from headrace.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from headrace.testing import JobHarness
from tests.runtime.state_operators import COMMAND, KeyedLedgerSpec, ledger
from tests.state.backends import BACKENDS
from tests.state.test_state_model import Average

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.testing.stored_state import Checkpoint

pytestmark = pytest.mark.usefixtures("installed")

EVENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
KEYS = ["", "ann", "bob", "ü", "eve"]


class Everything(KeyedProcessFunction):
    """Uses all kinds of keyed state and both kinds of timers, and tells what it finds."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))
        self.recent = runtime_context.get_list_state(ListStateDescriptor("recent", Types.LONG()))
        self.times = runtime_context.get_map_state(MapStateDescriptor("times", Types.LONG(), Types.LONG()))
        total = ReducingStateDescriptor("total", lambda left, right: left + right, Types.LONG())
        self.total = runtime_context.get_reducing_state(total)
        self.average = runtime_context.get_aggregating_state(AggregatingStateDescriptor("average", Average()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        key, number, time = value
        before = self.last.value()
        self.last.update(number)
        self.recent.add(number)
        self.times[number % 3] = time
        self.total.add(number)
        self.average.add(number)
        ctx.timer_service().register_event_time_timer(time + 10)
        ctx.timer_service().delete_event_time_timer(time + 5)
        ctx.timer_service().register_processing_time_timer(1_000_000)
        yield key, "record", (number, before, self.total.get(), self.average.get())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        told = (timestamp, self.recent.get(), list(self.times.items()))
        self.recent.clear()
        self.times.remove(1)
        yield ctx.get_current_key(), ctx.time_domain().name, told


class Firings(ProcessWindowFunction):
    """How often a window of a key has fired, and all its windows."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        count = ValueStateDescriptor("count", Types.LONG())
        found = []
        for store in (context.window_state(), context.global_state()):
            state = store.get_state(count)
            state.update((state.value() or 0) + 1)
            found.append(state.value())
        yield key, context.window().start, sorted(element[1] for element in elements), found

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("count", Types.LONG())).clear()


ANYTHING = Types.PICKLED_BYTE_ARRAY()


def everything(job: JobHarness) -> None:
    by_time = WatermarkStrategy.for_bounded_out_of_orderness(5).with_timestamp_assigner(lambda event, _: event[2])
    keyed = job.add_source("events", EVENT, watermarks=by_time).key_by(lambda event: event[0], Types.STRING())
    job.add_sink("states", keyed.process(Everything(), ANYTHING).uid("states-operator"))
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(20))).allowed_lateness(20)
    job.add_sink("sums", windows.aggregate(count(), sum("f1").alias("sum")).uid("sums-operator"))
    job.add_sink(
        "reduced", windows.reduce(lambda left, right: (left[0], left[1] + right[1], 0)).uid("reduced-operator")
    )
    job.add_sink("firings", windows.process(Firings(), ANYTHING).uid("firings-operator"))


SINKS = ("states", "sums", "reduced", "firings")


def run(name: str, epochs: list[tuple[list[Any], int]], *, inline: str = "20 kb") -> dict[str, dict[Any, list[Any]]]:
    """What every key comes to, in order; the job starts again, at that parallelism, before each epoch."""
    found: dict[str, dict[Any, list[Any]]] = {sink: defaultdict(list) for sink in SINKS}
    held: Checkpoint | None = None
    settings_ = {"state.backend.type": name, "execution.checkpointing.data-inline-threshold": inline}
    for number, (events, parallelism) in enumerate(epochs):
        with JobHarness(everything, parallelism=parallelism, restore=held, configuration=settings_) as job:
            job.set_processing_time(number)
            job.push_all("events", events)
            job.run_epoch()
            if number == len(epochs) - 1:
                job.set_processing_time(2_000_000)
                job.run_epoch()
            for sink in SINKS:
                for record in job.take(sink):
                    found[sink][record[0]].append(record[1:])
            held = job.checkpoint()
    return {sink: dict(records) for sink, records in found.items()}


def events_of(seed: int, count: int) -> list[Any]:
    source = random.Random(seed)
    return [(source.choice(KEYS), source.randint(-9, 9), n + source.randint(-15, 2)) for n in range(-20, count)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("inline", ["20 kb", "0 b"])
@pytest.mark.parametrize("name", BACKENDS)
def test_functions_timers_and_windows_over_restarts_at_other_parallelisms(name: str, inline: str) -> None:
    events = events_of(0, 120)
    whole = run(DEFAULT_BACKEND, [(events, 1)])
    cut = [(events[:30], 2), (events[30:31], 3), ([], 1), (events[31:90], 1), (events[90:], 4)]
    assert run(name, cut, inline=inline) == whole
    assert {told[0] for key in KEYS for told in whole["states"][key]} == {"record", "EVENT_TIME", "PROCESSING_TIME"}
    assert all(len(whole[sink]) == len(KEYS) for sink in SINKS)
    assert any(count > 1 for key in KEYS for *_, (count, _) in whole["firings"][key]), "some fire again"


def commands(job: JobHarness) -> None:
    stream = job.add_source("in", COMMAND, splits=4)
    job.add_sink("first", ledger(stream).uid("first-ledger"))
    job.add_sink("second", ledger(stream.key_by("f0"), KeyedLedgerSpec()).uid("second-ledger"))


def answers(name: str, parallelisms: Iterable[int]) -> list[list[Any]]:
    """What operators with state without keys answer, epoch by epoch, of subtask after subtask."""
    found: list[list[Any]] = []
    held: Checkpoint | None = None
    for parallelism in parallelisms:
        configuration = {"state.backend.type": name}
        with JobHarness(commands, parallelism=parallelism, restore=held, configuration=configuration) as job:
            for epoch in range(2):
                for split in range(4):
                    keys = [split * 10 + number for number in range(5)]
                    job.push_all("in", [(key, "show", 0) for key in keys], split=split)
                    job.push_all("in", [(key, "add", key + epoch) for key in keys], split=split)
                    job.push_all("in", [(key, "join", key) for key in keys[:1]], split=split)
                    job.push_all("in", [(key, "rule", epoch) for key in range(40)], split=split)
                job.run_epoch()
                for sink in ("first", "second"):
                    kept = [answer for answer in job.take(sink) if answer[0] in {"show", "add"}]
                    found.append(sorted(kept, key=lambda answer: answer[1]))
            held = job.checkpoint()
    return found


def test_lists_union_lists_and_broadcast_maps_over_restarts_at_other_parallelisms() -> None:
    parallelisms = (2, 3, 3, 1, 4)
    found = {name: answers(name, parallelisms) for name in BACKENDS}
    assert all(told == found[DEFAULT_BACKEND] for told in found.values())
    shown = [answer[2] for epoch in found["dictionary"] for answer in epoch if answer[0] == "show"]
    assert {is_restored for *_, is_restored in shown} == {True, False}
    assert any(elements for elements, *_ in shown)
    assert any(len(union) > 4 for _, union, *_ in shown)
    assert any(rules == {0: 0, 1: 1} for _, _, rules, _ in shown)


@pytest.mark.sampled(1)
@pytest.mark.spark
@pytest.mark.parametrize("name", [ROCKSDB_BACKEND, "dictionary"])
def test_it_is_as_on_spark(name: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The backend travels to the workers with the job."""
    monkeypatch.setattr(compaction, "EPOCHS_BETWEEN_LOOKS", 1)
    found = {}
    for runtime in ("local", "spark"):
        settings_ = {
            "headrace.runtime": runtime,
            "parallelism.default": "2",
            "state.backend.type": name,
            "headrace.epoch.max-records": "20",
            "headrace.epoch.target-duration": "60s",
            "execution.checkpointing.data-inline-threshold": "0 b",
        }
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings_))
        pairs = [(f"k{n % 5}", 1) for n in range(100)]
        counted = env.from_collection(pairs, Types.TUPLE([Types.STRING(), Types.LONG()]))
        stream = counted.key_by(lambda pair: pair[0], Types.STRING()).sum(1)
        with stream.execute_and_collect() as results:
            found[runtime] = sorted(results)
    assert found["spark"] == found["local"]
    assert found["local"] == sorted((f"k{n % 5}", n // 5 + 1) for n in range(100))
    assert (tmp_path / "tables").exists() == (name == ROCKSDB_BACKEND)


def test_the_manifest_says_the_backend_and_another_one_is_refused() -> None:
    with JobHarness(everything, configuration={"state.backend.type": "dictionary"}) as job:
        job.push("events", ("ann", 1, 1))
        job.run_epoch()
        held = job.checkpoint()
    manifests = [json.loads(path.read_bytes()) for path in held.directory.rglob("*.json")]
    assert {manifest["state_backend"] for manifest in manifests if "epoch" in manifest} == {"dictionary"}
    with (
        pytest.raises(
            StateMigrationError, match=r"written by the state backend 'dictionary'.*state\.backend\.type=dict"
        ),
        JobHarness(everything, restore=held) as job,
    ):
        job.run_epoch()


@pytest.mark.parametrize(
    ("name", "told"), [("forst", "use 'rocksdb', whose tables"), ("trees", "there are 'dictionary', 'hash")]
)
def test_a_backend_that_is_not_there(name: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"there is no state backend '{name}': {told}"):
        JobHarness(everything, configuration={"state.backend.type": name})


@pytest.mark.parametrize("name", ["hashmap", "HashMap", "HASHMAP"])
def test_the_backend_that_is_built_in_is_known_in_any_case_as_in_flink(name: str) -> None:
    with JobHarness(everything, configuration={"state.backend.type": name}) as job:
        job.push("events", ("ann", 1, 1))
        job.run_epoch()
        held = job.checkpoint()
    with JobHarness(everything, restore=held) as job:
        job.run_epoch()
