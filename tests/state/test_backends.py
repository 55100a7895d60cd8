"""What every state backend has to do: one suite, run on headrace's own and on one of dicts; chosen by name."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.common import Types, WatermarkStrategy
from headrace.common.configuration import Configuration
from headrace.common.errors import (
    ConfigurationError,
    InvalidProgramError,
    InvalidTypeError,
    StateCorruptedError,
    StateMigrationError,
)
from headrace.common.time import Time
from headrace.datastream import KeyedProcessFunction, ProcessWindowFunction, StreamExecutionEnvironment
from headrace.datastream.aggregates import count, sum
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.jobmanager import compaction
from headrace.state.backend import DEFAULT_BACKEND, ROCKSDB_BACKEND, STATE_BACKENDS
from headrace.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from headrace.state.rocksdb import merging
from headrace.state.rocksdb.settings import RocksDBSettings
from headrace.testing import JobHarness
from tests.runtime.state_operators import COMMAND, KeyedLedgerSpec, ledger
from tests.state.harness import UID, Job, MemoryFolder
from tests.state.test_state_model import KEY_KINDS, Average, Checker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.state.backend import StateBackend
    from headrace.testing.checkpoint import Checkpoint

BACKENDS = [DEFAULT_BACKEND, ROCKSDB_BACKEND, "dictionary"]
EVENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
KEYS = ["", "ann", "bob", "ü", "eve"]


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dictionary backend as a distribution would bring it, and tables of RocksDB for what is small, too."""
    small = RocksDBSettings(local_dir=str(tmp_path / "tables"), smallest_table=0, largest_columns=0)
    monkeypatch.setattr(RocksDBSettings, "of", lambda _: small)
    monkeypatch.setattr(merging, "CHUNK_ROWS", 8)
    about = tmp_path / "site" / "dictionaries-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: dictionaries\nVersion: 1.0\n")
    entry = "dictionary = tests.state.dictionary_backend:DictionaryStateBackend"
    (about / "entry_points.txt").write_text(f"[headrace.state_backends]\n{entry}\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, installed: None) -> StateBackend:
    return STATE_BACKENDS.load(request.param).configured(Configuration())


# --- the state of one operator ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["integers", "strings", "tuples"])
def test_keyed_states_are_as_their_model(kind: str, backend: StateBackend) -> None:
    source = random.Random(kind)
    type_, key_of = KEY_KINDS[kind]
    job = Job(Job().codec.for_type(type_), inline_threshold=source.choice([0, 1 << 20]), backend=backend)
    checker, keys = Checker(source), [key_of(n) for n in range(25)]
    for parallelism in (1, 4, 3, 1):
        job.rescale(parallelism)
        for keep in (False, True, True):
            operators = job.begin()
            job.on_keys(operators, keys, checker.check)
            job.on_keys(operators, source.choices(keys, k=60), checker.touch)
            job.keep = keep
            job.end()
            if not keep:
                job.compact()
            job.collect_garbage()


def test_states_of_a_key_and_a_namespace_are_kept_apart(backend: StateBackend) -> None:
    job = Job(backend=backend)
    count = ValueStateDescriptor("count", Types.LONG())
    model: dict[tuple[int, Any], int] = defaultdict(int)
    source = random.Random(1)

    def touch(operator: Any, key: int, _: int) -> None:
        for namespace in source.sample([-5, 0, 7, b"", b"seven", 1 << 62, (0, 7), (-5, 7)], 5):
            operator.keyed.enter_namespace(namespace, (operator.keyed.current,))
            state = operator.keyed.namespaced_state(count)
            assert (state.value() or 0) == model[key, namespace]
            model[key, namespace] += 1
            state.update(model[key, namespace])
        assert operator.keyed.state(count).value() is None

    for parallelism in (1, 3, 2):
        job.rescale(parallelism)
        for _ in range(3):
            job.on_keys(job.begin(), list(range(-9, 9)), touch)
            job.end()
        job.compact()
    assert len(model) == 18 * 8


class Longest:
    """Keeps the words of the greatest length, in a list that it changes in place."""

    def create_accumulator(self) -> list[str]:
        return []

    def add(self, value: str, accumulator: list[str]) -> list[str]:
        return self.merge(accumulator, [value])

    def merge(self, a: list[str], b: list[str]) -> list[str]:
        a.extend(b)
        a[:] = [word for word in a if len(word) == max(map(len, a))]
        return a

    def get_result(self, accumulator: list[str]) -> list[str]:
        return accumulator


MERGING: list[tuple[StateDescriptor, Any]] = [
    (ListStateDescriptor("words", Types.STRING()), ["be", "tea", "egg"]),
    (ReducingStateDescriptor("joined", lambda a, b: f"{a}+{b}", Types.STRING()), "be+tea+egg"),
    (AggregatingStateDescriptor("longest", Longest(), Types.LIST(Types.STRING())), ["tea", "egg"]),
]


@pytest.mark.parametrize(("descriptor", "merged"), MERGING, ids=lambda given: getattr(given, "name", ""))
@pytest.mark.parametrize("is_stored", [False, True])
def test_what_namespaces_hold_is_made_one(
    descriptor: StateDescriptor, merged: Any, is_stored: bool, backend: StateBackend
) -> None:
    job, pieces = Job(backend=backend), {(0, 5): ["be"], (5, 9): ["tea"], (9, 12): ["egg"]}

    def fill(operator: Any, key: int, _: int) -> None:
        for operator.keyed.namespace, words in pieces.items():
            for word in words:
                operator.keyed.namespaced_state(descriptor).add(word)

    def merge(operator: Any, key: int, _: int) -> None:
        operator.keyed.expect([(operator.keyed.current, namespace) for namespace in pieces])
        operator.keyed.namespace = (0, 5)
        operator.keyed.merge_namespaces(descriptor, [(5, 9), (9, 12), (12, 13)])
        assert operator.keyed.namespace == (0, 5)

    def check(operator: Any, key: int, _: int) -> None:
        state = operator.keyed.namespaced_state(descriptor)
        found = []
        for operator.keyed.namespace in [(0, 5), (5, 9), (9, 12), (12, 13)]:
            found.append(state.get() or None)
        assert found == [merged, None, None, None]

    for use in (fill, merge, check):
        if is_stored or not job.tasks:
            operators = job.begin()
        job.on_keys(operators, [1, 2], use)
        if is_stored:
            job.end()


@pytest.mark.parametrize("descriptor", [descriptor for descriptor, _ in MERGING], ids=lambda given: given.name)
def test_all_keys_and_namespaces_of_a_state_are_told(descriptor: StateDescriptor, backend: StateBackend) -> None:
    def fill(operator: Any, key: int, _: int) -> None:
        for operator.keyed.namespace in [(0, 5), 7, b"w"]:
            operator.keyed.namespaced_state(descriptor).add("tea")

    job = Job(backend=backend)
    for keys in ([1, 2], [2, 3]):
        job.on_keys(job.begin(), keys, fill)
        job.end()
    found = [
        (key.key, namespace)
        for operator in job.begin()
        for key, namespace in operator.keyed.keys_and_namespaces(descriptor)
    ]
    assert len(found) == len(set(found))
    assert set(found) == {(key, namespace) for key in (1, 2, 3) for namespace in [(0, 5), 7, b"w"]}


@pytest.mark.parametrize("descriptor", [ValueStateDescriptor("last"), MapStateDescriptor("seen")], ids=["value", "map"])
def test_state_that_cannot_be_merged_is_refused(descriptor: StateDescriptor, backend: StateBackend) -> None:
    def merge(operator: Any, key: int, _: int) -> None:
        operator.keyed.namespace = 1
        with pytest.raises(InvalidProgramError, match=descriptor.name):
            operator.keyed.merge_namespaces(descriptor, [2])

    job = Job(backend=backend)
    job.on_keys(job.begin(), [1], merge)


TIMES = st.one_of(st.integers(0, 20), st.sampled_from([-(1 << 63) + 1, -1, (1 << 63) - 1]))
ACTIONS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 4), TIMES, st.sampled_from([None, -3, 4, b"w", (-3, 4), (3, 4)])),
    max_size=12,
)


@pytest.mark.parametrize("name", BACKENDS)
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(epochs=st.lists(st.tuples(ACTIONS, st.integers(0, 6), st.integers(1, 3)), min_size=1, max_size=6))
def test_timers_are_as_their_model(name: str, epochs: list[tuple[list[Any], int, int]]) -> None:
    """Registered, deleted, fired in order, at any parallelism."""
    job, model, reached = Job(backend=STATE_BACKENDS.load(name)), set(), -(1 << 63)
    for actions, advance, parallelism in epochs:
        job.rescale(parallelism)
        operators = job.begin()
        for is_new, key, time, namespace in actions:
            job.on_keys(
                operators,
                [key],
                lambda operator, _, __, now=time, where=namespace, new=is_new: (
                    operator.timers.event.register(now, where) if new else operator.timers.event.delete(now, where)
                ),
            )
            (model.add if is_new else model.discard)((time, key, namespace))
        reached = advance if reached < 0 else reached + advance
        moved = reached > job.watermark
        fired = [[(t.time, t.entry.key, t.namespace) for t in o.timers.event.pop_due(reached)] for o in operators]
        due = {timer for timer in model if timer[0] <= reached} if moved else set()
        assert {timer for found in fired for timer in found} == due
        assert len([timer for found in fired for timer in found]) == len(due)
        assert all([timer[0] for timer in found] == sorted(timer[0] for timer in found) for found in fired)
        model -= due
        job.end()
        job.watermark = reached


def test_a_time_to_live(backend: StateBackend) -> None:
    """Of values, elements and entries; prolonged by reading where that is asked for, seen once where that is."""
    job = Job(backend=backend)
    lives = StateTtlConfig.new_builder(Time.milliseconds(100))
    plain, read = lives.build(), lives.update_ttl_on_read_and_write().build()
    once = StateTtlConfig.new_builder(Time.milliseconds(100)).return_expired_if_not_cleaned_up().build()

    def states(operator: Any, _: int, __: int) -> list[Any]:
        made = []
        for name, config in (("plain", plain), ("read", read), ("once", once)):
            for kind in (
                ValueStateDescriptor(f"{name}-value", Types.LONG()),
                ListStateDescriptor(f"{name}-list", Types.LONG()),
                MapStateDescriptor(f"{name}-map", Types.STRING(), Types.LONG()),
                ReducingStateDescriptor(f"{name}-sum", lambda left, right: left + right, Types.LONG()),
                AggregatingStateDescriptor(f"{name}-average", Average(), Types.LIST(Types.LONG())),
            ):
                kind.enable_time_to_live(config)
                made.append(operator.keyed.state(kind))
        return made

    def write(*args: Any) -> None:
        for value, elements, entries, total, average in zip(*[iter(states(*args))] * 5, strict=True):
            value.update(1)
            elements.add(1)
            entries.put("a", 1)
            total.add(1)
            average.add(1)

    def look(*args: Any) -> list[Any]:
        groups = zip(*[iter(states(*args))] * 5, strict=True)
        return [(v.value(), li.get(), list(m.items()), s.get(), a.get()) for v, li, m, s, a in groups]

    here, gone = (1, [1], [("a", 1)], 1, (1, 1)), (None, [], [], None, None)
    seen = []
    for clock, action in ((0, write), (60, look), (99, look), (100, look), (158, look), (258, look), (400, look)):
        job.clock = clock
        seen.append(job.on_keys(job.begin(), [7], action)[0])
        job.end()
    assert seen[1] == seen[2] == [here, here, here]
    assert [found[:2] for found in seen[3:]] == [[gone, here], [gone, here], [gone, gone], [gone, gone]]
    assert seen[3][2] == here  # what has expired is read once more, and then gone
    assert seen[4][2] == gone


def test_a_range_of_the_entries_of_a_map(backend: StateBackend) -> None:
    job = Job(backend=backend)
    times, names = MapStateDescriptor("times", Types.LONG(), Types.LONG()), MapStateDescriptor("names", str, int)
    keys = [5, -(1 << 63), 0, (1 << 63) - 1, -7, 12]
    for half in (keys[:3], keys[3:]):
        entries = {key: key + 1 if key < 9 else 0 for key in half}
        job.on_keys(job.begin(), [1], lambda operator, _, __, new=entries: operator.keyed.state(times).put_all(new))
        job.end()

    def look(operator: Any, _: int, __: int) -> list[list[int]]:
        state = operator.keyed.state(times)
        state.remove(0)
        with pytest.raises(InvalidTypeError, match="integers"):
            operator.keyed.state(names).items_between(0, 1)
        bounds = ((None, None), (-7, 12), (5, None), (None, -7), (3, 3))
        return [[key for key, _ in state.items_between(low, high)] for low, high in bounds]

    everything_ = sorted(set(keys) - {0})
    assert job.on_keys(job.begin(), [1], look) == [
        [everything_, [-7, 5], [5, 12, keys[3]], [keys[1]], []],
    ]


def test_a_state_under_another_type_or_declared_twice_is_refused(backend: StateBackend) -> None:
    job = Job(backend=backend)
    whole, text = ValueStateDescriptor("value", Types.LONG()), ValueStateDescriptor("value", Types.STRING())
    job.on_keys(job.begin(), [1], lambda operator, _, __: operator.keyed.state(whole).update(1))
    with pytest.raises(InvalidProgramError, match="twice"):
        job.tasks[0].operator(UID).keyed.state(text)
    job.end()
    with pytest.raises(StateMigrationError, match="stored"):
        job.begin()[0].keyed.state(text)


@pytest.mark.parametrize("damage", ["gone", "flipped"])
def test_a_damaged_file_is_an_error_that_names_it(damage: str, backend: StateBackend) -> None:
    storage = MemoryFolder()
    job = Job(backend=backend, storage=storage)
    count = ValueStateDescriptor("count", Types.LONG())
    job.on_keys(job.begin(), list(range(50)), lambda operator, key, _: operator.keyed.state(count).update(key))
    (ref,) = job.end()
    content = storage.files.pop(ref.name)
    if damage == "flipped":
        storage.files[ref.name] = content[:-40] + bytes([content[-40] ^ 1]) + content[-39:]
    with pytest.raises(StateCorruptedError, match=ref.name):
        job.on_keys(job.begin(), [1], lambda operator, _, __: operator.keyed.state(count).value())


def test_what_has_not_changed_is_not_written_again(backend: StateBackend) -> None:
    job = Job(backend=backend, keep=True)
    count = ValueStateDescriptor("count", Types.LONG())
    job.on_keys(job.begin(), [1], lambda operator, key, _: operator.keyed.state(count).update(key))
    (ref,) = job.end()
    job.begin()
    assert job.end() == [ref]
    assert job.tasks[0].size_in_bytes() > 0
    job.tasks[0].close()


# --- whole jobs ------------------------------------------------------------------------------------------------------


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
    assert found["dictionary"] == found[DEFAULT_BACKEND]
    shown = [answer[2] for epoch in found["dictionary"] for answer in epoch if answer[0] == "show"]
    assert {is_restored for *_, is_restored in shown} == {True, False}
    assert any(elements for elements, *_ in shown)
    assert any(len(union) > 4 for _, union, *_ in shown)
    assert any(rules == {0: 0, 1: 1} for _, _, rules, _ in shown)


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


# --- by name ---------------------------------------------------------------------------------------------------------


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


def test_a_backend_that_is_not_there() -> None:
    with pytest.raises(ConfigurationError, match="there is no state backend 'forst': there are 'dictionary', 'hash"):
        JobHarness(everything, configuration={"state.backend.type": "forst"})


@pytest.mark.parametrize("name", ["hashmap", "HashMap", "HASHMAP"])
def test_the_backend_that_is_built_in_is_known_in_any_case_as_in_flink(name: str) -> None:
    with JobHarness(everything, configuration={"state.backend.type": name}) as job:
        job.push("events", ("ann", 1, 1))
        job.run_epoch()
        held = job.checkpoint()
    with JobHarness(everything, restore=held) as job:
        job.run_epoch()
