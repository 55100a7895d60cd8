"""Through savepoints at parallelism 1, 4 and 3, a program that changes keeps all of its state: dumps are the same.

An operator gets another uid, one is added, one removed, and values get a field.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.client.job_client import JobClient
from headrace.common import Configuration, Duration, Time, Types, WatermarkStrategy
from headrace.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSource, StreamFormat
from headrace.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from headrace.state_processor import SavepointReader
from tests.reliability.support.canonical import row_sink
from tests.reliability.support.outputs import lines
from tests.savepoint.jobs import wait_for_records

FROM = "execution.state-recovery.path"
MAP = "execution.state-recovery.uid-mapping"
LEAVES = "execution.state-recovery.ignore-unclaimed-state"
KINDS = {"state": ["value", "brief", "list", "map", "lasting"], "timers": ["event", "processing"]}
LATER = 4_000_000_000_000
"""A processing time that does not come."""


@dataclass(frozen=True)
class First:
    """The value of a key as it was."""

    total: int
    name: str


@dataclass(frozen=True)
class Second:
    """The same with one more field."""

    total: int
    name: str
    more: float = 0.5


class Keeping(KeyedProcessFunction):
    """Keeps something of everything, and shows it when its timer fires."""

    def __init__(self, record: type[Any]) -> None:
        self._record = record

    def open(self, runtime_context: RuntimeContext) -> None:
        long = Types.LONG()
        brief, lasting = ValueStateDescriptor("brief", long), MapStateDescriptor("lasting", long, Types.STRING())
        for descriptor, life in ((brief, Time.days(1)), (lasting, Time.days(100))):
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(life).build())
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.of(self._record)))
        self.brief, self.lasting = runtime_context.get_state(brief), runtime_context.get_map_state(lasting)
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.STRING()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), long))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        before = self.value.value()
        self.value.update(self._record(value + (before.total if before else 0), f"n{value}"))
        self.brief.update(value)
        self.lasting.put(value % 3, str(value))
        self.list.add_all([f"{value}", f"{-value}"])
        self.map.put("a", value)
        self.map.put("b", -value)
        ctx.timer_service().register_event_time_timer(1_000 + value)
        ctx.timer_service().register_processing_time_timer(LATER + value)
        yield from ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        if timestamp >= LATER:
            return
        found = asdict(self.value.value()) | {"more": 0.5}
        kept = [*self.list.get(), *self.map.items(), self.brief.value(), *self.lasting.items()]
        yield f"{ctx.get_current_key()} at {timestamp}: {found} {kept}"


def started(
    root: Path, name: str, parallelism: int, settings: dict[str, str], uids: list[str], record: Any
) -> JobClient:
    known = {
        "headrace.runtime": "local",
        "parallelism.default": str(parallelism),
        "headrace.epoch.max-records": "100000",
        "execution.checkpointing.dir": str(root / name),
        "execution.checkpointing.savepoint-dir": str(root / "savepoints"),
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(known | settings))
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(root / "in"))
    reading = files.monitor_continuously(Duration.of_millis(20)).build()
    numbers = env.from_source(reading, WatermarkStrategy.for_monotonous_timestamps(), "in").uid("in")
    keyed = numbers.map(int, Types.LONG()).uid("numbers").key_by(lambda number: number, Types.LONG())
    for uid in uids:
        kept = keyed.process(Keeping(record), Types.STRING()).uid(uid)
        kept.sink_to(row_sink(str(root / f"out-{name}" / uid))).uid(f"{uid}-files")
    return env.execute_async(name)


def dump(savepoint: str, uid: str) -> dict[str, Any]:
    """All that an operator has, in an order of its own; values without the field that came later."""
    reader = SavepointReader.read(savepoint)
    tables = {
        f"{group}/{name}": reader.read_table(uid, f"{group}/{name}") for group, names in KINDS.items() for name in names
    }
    return {store: _rows(table) for store, table in tables.items()}


def _rows(table: pa.Table) -> list[str]:
    rows = table.to_pylist()
    for row in rows:
        if isinstance(row.get("value"), dict):
            row["value"] = {name: row["value"][name] for name in ("total", "name")}
    return sorted(map(str, rows))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("count", "backend"),
    [
        pytest.param(count, backend, marks=pytest.mark.slow if count > 2_000 else ())
        for count in (2_000, 50_000)
        for backend in ("hashmap", "rocksdb")
    ],
)
def test_all_state_comes_through(count: int, backend: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("".join(f"{number}\n" for number in range(count)))
    settings = {"state.backend.type": backend}
    client = started(tmp_path, "one", 1, settings, ["kept", "gone"], First)
    wait_for_records(client, count)
    first = client.stop_with_savepoint(False).result(600)
    before = dump(first, "kept")
    assert {store: len(rows) for store, rows in before.items()} == {
        "state/value": count,
        "state/brief": count,
        "state/list": 2 * count,
        "state/map": 2 * count,
        "state/lasting": count,
        "timers/event": count,
        "timers/processing": count,
    }
    renamed = settings | {FROM: first, MAP: "kept=renamed", LEAVES: "true"}
    client = started(tmp_path, "four", 4, renamed, ["renamed", "added"], Second)
    second = client.stop_with_savepoint(False).result(600)
    assert dump(second, "renamed") == before
    assert {table.uid for table in SavepointReader.read(second).states()} == {"renamed"}

    client = started(tmp_path, "three", 3, settings | {FROM: second}, ["renamed", "added"], Second)
    third = client.trigger_savepoint(format_type="native").result(600)
    assert dump(third, "renamed") == before
    client.stop_with_savepoint(True).result(600)
    expected = [
        f"{n} at {1_000 + n}: { {'total': n, 'name': f'n{n}', 'more': 0.5} } "
        f"{[str(n), str(-n), ('a', n), ('b', -n), n, (n % 3, str(n))]}"
        for n in range(count)
    ]
    assert sorted(lines(tmp_path / "out-three" / "renamed")) == sorted(expected)
    assert not [*lines(tmp_path / "out-four" / "renamed"), *lines(tmp_path / "out-three" / "added")]
