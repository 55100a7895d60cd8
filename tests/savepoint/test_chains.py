"""Chains of starts: each goes on from what the last one has left, as another program, and all that is shown is right.

What a start goes on from (a savepoint of either format, a copy of one, its own checkpoint directory), whose that is
then, backend, parallelism, maximum parallelism, uid, type of the values and time to live are drawn, and so is the
input. A model knows what each key holds. ``HEADRACE_CHAINS`` says how many chains are drawn: ``make test-chains`` takes
3,000.
"""

from __future__ import annotations

import copy
import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from headrace.common import Row, Types
from headrace.datastream.functions import KeyedProcessFunction, RuntimeContext
from headrace.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from headrace.jobmanager.savepoints import SavepointRequest
from headrace.savepoint.disposal import dispose
from headrace.savepoint.metadata import savepoint_format
from headrace.savepoint.stored_job import open_job, verify
from headrace.state.rocksdb.table import RocksDBSettings
from headrace.state.runs import merging
from headrace.storage.locations import open_storage
from headrace.testing import JobHarness

CHAINS = int(os.environ.get("HEADRACE_CHAINS", "12"))
STARTS = 6
KEYS = range(12)
FIELDS = "abc"
IN = Types.TUPLE([Types.LONG(), Types.STRING(), Types.LONG()])
COPY = "-copy"
AHEAD = 10**12
"""By how much the clock is ahead of event time: neither can be taken for the other."""


@dataclass(frozen=True)
class Program:
    """What one start is.

    Attributes:
        backend: where state is kept.
        parallelism: of all operators.
        most: the maximum parallelism.
        uid: of the operator with state.
        has_note: whether values have a second field.
        ttl: for how many milliseconds elements live; 0 for no time to live.
        in_event_time: in which time they do.
        on_read: whether reading prolongs it.
    """

    backend: str
    parallelism: int
    most: int
    uid: str
    has_note: bool
    ttl: int
    in_event_time: bool
    on_read: bool

    @staticmethod
    def drawn(chance: random.Random, last: Program | None, *, is_free: bool) -> Program:
        """Another program than the last one, whose state is in its own format unless ``is_free``."""
        drawn = Program(
            chance.choice(["hashmap", "rocksdb"]),
            chance.randint(1, 3),
            chance.choice([4, 16, 128]),
            chance.choice(["state", "renamed"]),
            chance.random() < 0.5,
            chance.choice([0, 0, 40, 400, 86_400_000]),
            chance.random() < 0.5,
            chance.random() < 0.2,
        )
        return drawn if last is None or is_free else replace(drawn, backend=last.backend, most=last.most)

    def value_type(self) -> Any:
        names = ["n", "note"] if self.has_note else ["n"]
        return Types.ROW_NAMED(names, [Types.LONG(), Types.STRING()][: len(names)])

    def settings(self, last: Program | None) -> dict[str, str]:
        settings = {"state.backend.type": self.backend, "pipeline.max-parallelism": str(self.most)}
        if last is not None and last.uid != self.uid:
            settings["execution.state-recovery.uid-mapping"] = f"{last.uid}={self.uid}"
        return settings

    def build(self, job: JobHarness) -> None:
        stream = job.add_source("in", IN)
        states = stream.key_by(lambda record: record[0], Types.LONG()).process(
            Keeping(self), Types.PICKLED_BYTE_ARRAY()
        )
        job.add_sink("out", states.uid(self.uid))


class Keeping(KeyedProcessFunction):
    """Keeps what records say in states of three kinds, and shows on request what a key has."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def open(self, runtime_context: RuntimeContext) -> None:
        value = self.program.value_type()
        made = (
            ValueStateDescriptor("v", value),
            ListStateDescriptor("l", value),
            MapStateDescriptor("m", Types.STRING(), value),
        )
        for descriptor in made if self.program.ttl else ():
            builder = StateTtlConfig.new_builder(self.program.ttl)
            if self.program.in_event_time:
                builder.use_event_time()
            if self.program.on_read:
                builder.update_ttl_on_read_and_write()
            descriptor.enable_time_to_live(builder.build())
        self.value, self.list = runtime_context.get_state(made[0]), runtime_context.get_list_state(made[1])
        self.map = runtime_context.get_map_state(made[2])

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        key, action, number = value
        row = Row(n=number, note=f"note {number}") if self.program.has_note else Row(n=number)
        if action == "v":
            self.value.update(row)
        elif action == "l":
            self.list.add(row)
        elif action in FIELDS:
            self.map.put(action, row)
        elif action == "timer":
            ctx.timer_service().register_event_time_timer(number)
        elif action == "clear":
            for state in (self.value, self.list, self.map):
                state.clear()
        else:
            yield key, self._shown()

    def _shown(self) -> tuple[Any, ...]:
        found = [self.value.value()], self.list.get() or [], [self.map.get(name) for name in FIELDS]
        return tuple([None if row is None else tuple(row) for row in rows] for rows in found)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp


@dataclass
class Element:
    """What one element should be.

    Attributes:
        number: what was written.
        note: the second field.
        expiry: when it expires; None for never.
        in_event_time: in which time that is.
    """

    number: int
    note: str | None
    expiry: int | None = None
    in_event_time: bool = False


@dataclass
class Model:
    """What each key should hold: the value, the list, and the fields of the map."""

    elements: dict[tuple[int, str], list[Element]] = field(default_factory=dict)
    timers: set[tuple[int, int]] = field(default_factory=set)

    def start(self, program: Program) -> None:
        for element in (element for found in self.elements.values() for element in found):
            if program.ttl and element.in_event_time is not program.in_event_time:
                element.expiry = None
            if not program.has_note:
                element.note = None

    def write(self, program: Program, key: int, action: str, number: int, now: int) -> None:
        if action == "timer":
            self.timers.add((number, key))
        elif action == "clear":
            for name in ("v", "l", *FIELDS):
                self.elements.pop((key, name), None)
        else:
            note = f"note {number}" if program.has_note else None
            element = self._touched(program, Element(number, note), now)
            kept = self.elements.get((key, action), []) if action == "l" else []
            self.elements[key, action] = [*kept, element]

    def shown(self, program: Program, key: int, now: int) -> tuple[Any, ...]:
        value, *fields = (self._read(program, key, name, now) for name in ("v", *FIELDS))
        elements = self._read(program, key, "l", now)
        return [*(value or [None])], elements, [found[0] if found else None for found in fields]

    def fire(self, now: int) -> list[tuple[int, int]]:
        due = sorted(timer for timer in self.timers if timer[0] <= now)
        self.timers.difference_update(due)
        return [(key, time) for time, key in due]

    def _read(self, program: Program, key: int, name: str, now: int) -> list[Any]:
        time = now if program.in_event_time else now + AHEAD
        alive = [
            element
            for element in self.elements.get((key, name), [])
            if not program.ttl or element.expiry is None or element.expiry > time
        ]
        if program.ttl and program.on_read:
            alive = [self._touched(program, element, now) for element in alive]
        self.elements[key, name] = alive
        width = 2 if program.has_note else 1
        return [(element.number, element.note)[:width] for element in alive]

    def _touched(self, program: Program, element: Element, now: int) -> Element:
        if not program.ttl:
            return element
        time = now if program.in_event_time else now + AHEAD
        return replace(element, expiry=time + program.ttl, in_event_time=program.in_event_time)


class Chain:
    """One chain.

    Args:
        seed: what is drawn depends on it alone.
        root: where savepoints are made.
    """

    def __init__(self, seed: int, root: Path) -> None:
        self.chance, self.root = random.Random(seed), root
        self.model, self.now, self.told = Model(), 1000, list[str]()
        self.program: Program | None = None
        self.jobs: list[JobHarness] = []
        self.originals: list[str] = []
        self.number = 0

    def run(self) -> None:
        """All starts, one after the other."""
        start: dict[str, Any] = {"is_free": True}
        for _ in range(STARTS):
            job = self.start(**start)
            for _ in range(self.chance.randint(1, 3)):
                self.epoch(job)
            start = self.left(job)
            job._manager.close()
        for original in self.originals:
            verify(open_job(original, {}))

    def start(self, *, is_free: bool, restore: Any = None, settings: dict[str, str] | None = None) -> JobHarness:
        """Start another program where the last one has ended."""
        last, self.program = self.program, Program.drawn(self.chance, self.program, is_free=is_free)
        self.told.append(f"{self.program} {settings}")
        job = JobHarness(
            self.program.build,
            parallelism=self.program.parallelism,
            restore=restore,
            processing_time=self.now + AHEAD,
            configuration=self.program.settings(last) | (settings or {}),
            fresh_functions=False,
        )
        self.jobs.append(job)
        self.model.start(self.program)
        return job

    def epoch(self, job: JobHarness) -> None:
        """Some records at one time, then a look at all keys."""
        assert self.program is not None
        self.now += self.chance.choice([1, 7, 30, 60, 500])
        job.set_processing_time(self.now + AHEAD)
        job.advance_watermark("in", self.now)
        expected: list[Any] = self.model.fire(self.now)
        for key in self.chance.sample(KEYS, self.chance.randint(0, 5)):
            action = self.chance.choice(["v", "v", "l", "l", *FIELDS, "timer", "clear"])
            self.number += 1
            number = self.now + self.chance.randint(1, 900) if action == "timer" else self.number
            job.push("in", (key, action, number), self.now + 1)
            self.model.write(self.program, key, action, number, self.now)
        for key in KEYS:
            job.push("in", (key, "show", 0), self.now + 1)
            expected.append((key, self.model.shown(self.program, key, self.now)))
        job.run_epoch()
        assert sorted(map(repr, job.take("out"))) == sorted(map(repr, expected)), "\n".join(self.told)

    def left(self, job: JobHarness) -> dict[str, Any]:
        """What the next start goes on from."""
        kind = self.chance.choice(["canonical", "native", "native", "directory"])
        if kind == "directory":
            return {"is_free": False, "restore": job.checkpoint()}
        place, known = self.savepoint(job, kind), copy.deepcopy(self.model)
        if kind == "native" and self.chance.random() < 0.5:
            place = self.copied(place)
        if self.chance.random() < 0.5:  # the job goes on, and removes what nobody needs any more
            for _ in range(2):
                self.epoch(job)
        self.model = known
        settings = {"execution.state-recovery.path": place, "execution.checkpointing.dir": str(self.root / "unused")}
        claims = self.chance.choice(["CLAIM", "NO_CLAIM"])
        settings["execution.state-recovery.claim-mode"] = claims
        if claims == "NO_CLAIM" or place.endswith(COPY):
            self.originals.append(place.removesuffix(COPY))
        return {"is_free": kind == "canonical", "settings": settings}

    def savepoint(self, job: JobHarness, kind: str) -> str:
        """Take a savepoint, which takes a few looks of the job at it."""
        manager = job._manager
        outcome = manager.take_savepoint(SavepointRequest(str(self.root), savepoint_format(kind)))
        manager._commands.run_all()
        while not outcome.done():
            manager._savepoints.look(manager._running())
        return outcome.result()

    def copied(self, original: str) -> str:
        """A copy of a savepoint from which to go on, or the original, of which a copy was removed."""
        shutil.copytree(original, original + COPY)
        if self.chance.random() < 0.5:
            return original + COPY
        dispose(open_storage(original + COPY), open_storage)
        return original


@pytest.fixture
def small_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """State of a few rows is merged, and is kept, as large state is."""
    small = RocksDBSettings(local_dir=str(tmp_path / "tables"), smallest_table=0, largest_columns=0)
    monkeypatch.setattr(RocksDBSettings, "of", lambda _: small)
    monkeypatch.setattr(merging, "CHUNK_ROWS", 4)
    monkeypatch.setattr("headrace.state.compaction.INLINE_ROWS", 0)
    monkeypatch.setattr("headrace.state.runs.merging.INLINE_ROWS", 4)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(CHAINS))
def test_what_each_start_shows_is_as_the_model(seed: int, tmp_path: Path, small_tables: None) -> None:
    Chain(seed, tmp_path).run()
