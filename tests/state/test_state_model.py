"""All kinds of keyed state against plain dicts: random operations, epoch cuts, compactions, other parallelism."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from headrace.common.typeinfo import TypeInformation, Types
from headrace.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from headrace.state.keys import KeyCodec
from headrace.state.runs import Run
from tests.state.harness import Job


class Average:
    """An aggregate function whose accumulator is changed in place."""

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[0] += value
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator: list[int]) -> tuple[int, int]:
        return accumulator[0], accumulator[1]


class Model:
    """What every state of one key should be."""

    def __init__(self) -> None:
        self.value: Any = None
        self.list: list[Any] = []
        self.map: dict[Any, Any] = {}
        self.sum: Any = None
        self.average: Any = None


class Checker:
    """Does random things to the states of a key and to its model, and compares what they answer."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.models: dict[Any, Model] = {}
        self.value = ValueStateDescriptor("value", Types.TUPLE([Types.LONG(), Types.STRING()]))
        self.list = ListStateDescriptor("list", Types.STRING())
        self.map = MapStateDescriptor("map", Types.STRING(), Types.LONG())
        self.sum = ReducingStateDescriptor("sum", lambda left, right: left + right, Types.LONG())
        self.average = AggregatingStateDescriptor("average", Average())

    def touch(self, operator: Any, key: Any, _: int) -> None:
        model = self.models.setdefault(key, Model())
        for action in self.source.sample(self.actions(), self.source.randint(1, 5)):
            action(operator.keyed, model)

    def check(self, operator: Any, key: Any, _: int) -> None:
        model = self.models.get(key, Model())
        for look in (self.see_value, self.see_list, self.see_map, self.see_folded):
            look(operator.keyed, model)

    def actions(self) -> list[Callable[[Any, Model], None]]:
        return [
            self.set_value,
            self.set_value,
            self.clear_value,
            self.add,
            self.add,
            self.add_all,
            self.replace_list,
            self.clear_list,
            self.put,
            self.put,
            self.put_all,
            self.remove,
            self.remove_and_put,
            self.clear_map,
            self.fold,
            self.clear_folded,
            self.see_value,
            self.see_list,
            self.see_map,
            self.see_folded,
        ]

    def set_value(self, keyed: Any, model: Model) -> None:
        model.value = (self.source.randint(-5, 5), self.source.choice(["", "ä", "x" * 50]))
        keyed.state(self.value).update(model.value)

    def clear_value(self, keyed: Any, model: Model) -> None:
        model.value = None
        keyed.state(self.value).clear()

    def see_value(self, keyed: Any, model: Model) -> None:
        assert keyed.state(self.value).value() == model.value

    def add(self, keyed: Any, model: Model) -> None:
        model.list.append(str(self.source.randint(0, 99)))
        keyed.state(self.list).add(model.list[-1])

    def add_all(self, keyed: Any, model: Model) -> None:
        model.list += ["", "b"]
        keyed.state(self.list).add_all(["", "b"])

    def replace_list(self, keyed: Any, model: Model) -> None:
        model.list = [str(n) for n in range(self.source.randint(0, 3))]
        keyed.state(self.list).update(model.list)

    def clear_list(self, keyed: Any, model: Model) -> None:
        model.list = []
        keyed.state(self.list).clear()

    def see_list(self, keyed: Any, model: Model) -> None:
        assert keyed.state(self.list).get() == model.list

    def put(self, keyed: Any, model: Model) -> None:
        name = f"k{self.source.randint(0, 5)}"
        model.map[name] = self.source.randint(0, 99)
        keyed.state(self.map)[name] = model.map[name]

    def put_all(self, keyed: Any, model: Model) -> None:
        model.map |= {"k9": 9, "k1": 1}
        keyed.state(self.map).put_all({"k9": 9, "k1": 1})

    def remove(self, keyed: Any, model: Model) -> None:
        name = f"k{self.source.randint(0, 5)}"
        model.map.pop(name, None)
        del keyed.state(self.map)[name]

    def remove_and_put(self, keyed: Any, model: Model) -> None:
        name = f"k{self.source.randint(0, 5)}"
        model.map.pop(name, None)
        model.map[name] = -1
        keyed.state(self.map).remove(name)
        keyed.state(self.map).put(name, -1)

    def clear_map(self, keyed: Any, model: Model) -> None:
        model.map = {}
        keyed.state(self.map).clear()

    def see_map(self, keyed: Any, model: Model) -> None:
        state = keyed.state(self.map)
        assert list(state.items()) == list(model.map.items())  # in the order of insertion
        assert state.get("k1") == model.map.get("k1")
        assert ("k2" in state) == ("k2" in model.map)
        assert state.is_empty() == (not model.map)

    def fold(self, keyed: Any, model: Model) -> None:
        number = self.source.randint(-9, 9)
        model.sum = number if model.sum is None else model.sum + number
        total, count = model.average or (0, 0)
        model.average = (total + number, count + 1)
        keyed.state(self.sum).add(number)
        keyed.state(self.average).add(number)

    def clear_folded(self, keyed: Any, model: Model) -> None:
        model.sum = model.average = None
        keyed.state(self.sum).clear()
        keyed.state(self.average).clear()

    def see_folded(self, keyed: Any, model: Model) -> None:
        assert keyed.state(self.sum).get() == model.sum
        assert keyed.state(self.average).get() == model.average


KEY_KINDS: dict[str, tuple[TypeInformation, Callable[[int], Any]]] = {
    "integers": (Types.LONG(), lambda n: n - 10),
    "strings": (Types.STRING(), lambda n: f"ключ-{n}" if n else ""),
    "bytes": (Types.BYTES(), lambda n: bytes([n])),
    "tuples": (Types.TUPLE([Types.STRING(), Types.INT()]), lambda n: (f"k{n % 3}", n)),
    "anything": (Types.PICKLED_BYTE_ARRAY(), lambda n: [None, n, str(n), (n, "x"), n + 0.5][n % 5]),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", KEY_KINDS)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_states_are_as_their_model(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(f"{kind}-{seed}")
    # Small limits, so that the background has something to do.
    monkeypatch.setattr("headrace.state.runs.merging.INLINE_ROWS", source.choice([4, 20, 1 << 18]))
    monkeypatch.setattr("headrace.state.compaction.INLINE_ROWS", 1)
    monkeypatch.setattr("headrace.state.compaction.SLICE_BYTES", source.choice([500, 4_000, 1 << 26]))
    monkeypatch.setattr("headrace.state.compaction.MOST_SLICES", source.choice([1, 8]))
    type_, key_of = KEY_KINDS[kind]
    job = Job(KeyCodec.for_type(type_), inline_threshold=source.choice([0, 20_000, 1 << 20]), keep=seed % 2 == 1)
    checker = Checker(source)
    every_key = [key_of(n) for n in range(25)]
    for _ in range(25):
        operators = job.begin()
        for _ in range(source.randint(0, 3)):  # batches
            job.on_keys(operators, source.choices(every_key, k=source.choice([1, 5, 60])), checker.touch)
        if source.random() < 0.3:
            job.on_keys(operators, every_key, checker.check)
        job.end()
        between_epochs(job, source)
    job.tasks = []
    job.on_keys(job.begin(), every_key, checker.check)


def between_epochs(job: Job, source: random.Random) -> None:
    if source.random() < 0.3:
        job.compact()
        if source.random() < 0.4:
            job.hold()
    elif job.held and source.random() < 0.5:
        job.release()
    if source.random() < 0.2 and not job.results and not job.held:
        job.rescale(source.choice([1, 3, 4]))
    if source.random() < 0.3:
        job.collect_garbage()
    for task in job.tasks:
        assert all(most_runs_of_a_key(store.runs) <= 20 for store in task._stores.values())


def most_runs_of_a_key(runs: Sequence[Run]) -> int:
    """In how many runs a key may be, at most."""
    ranges = [run.hashes for run in runs]
    return max((sum(low <= start < high for low, high in ranges) for start, _ in ranges), default=0)


@pytest.mark.slow
def test_a_round_through_parallelism_1_4_3_1_loses_nothing() -> None:
    job, checker = Job(), Checker(random.Random(3))
    keys = list(range(500))
    for parallelism in (1, 4, 3, 1, 2):
        job.rescale(parallelism)
        for _ in range(3):
            operators = job.begin()
            job.on_keys(operators, keys, checker.check)
            job.on_keys(operators, random.Random(parallelism).sample(keys, 300), checker.touch)
            job.end()
            job.collect_garbage()


def test_runs_stay_few_and_work_stays_small() -> None:
    job = Job(keep=True)
    descriptor = ValueStateDescriptor("value", Types.LONG())
    written = 0
    for epoch in range(200):
        operators = job.begin()
        keys = [epoch * 50 + n for n in range(50)]
        job.on_keys(operators, keys, lambda operator, key, _: operator.keyed.state(descriptor).update(key))
        job.end()
        store = job.tasks[0].store("operator", "state/value")
        assert len(store.runs) <= 10
        written += sum(run.rows for run in store.runs if run.section.file.startswith(f"{epoch}-"))
    assert written < 200 * 50 * 12  # a row is rewritten a logarithmic number of times
