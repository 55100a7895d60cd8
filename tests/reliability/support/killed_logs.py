"""What the program from one topic to another and its test both know: records, and steps at which processes end."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.common import SimpleStringSchema, Types
from headrace.common.serialization import SerializationSchema
from headrace.connectors.messages import MessageSerializationSchema
from headrace.connectors.sink import DeliveryGuarantee
from headrace.datastream import KeyedProcessFunction, RuntimeContext
from headrace.datastream.connectors.log import LogSink
from headrace.datastream.state import ValueStateDescriptor
from headrace.log import Log, Producer
from headrace.storage.folder import Folder
from tests.reliability.support.faults import FaultPlan, die

if TYPE_CHECKING:
    from headrace.connectors.sink import SinkWriter, WriterContext

PARTITIONS = 4
KEYS = 32
COUNT = 3_000

PADDING = "x" * 1_500
"""So the output of a task is a file, and does not lie in the commit."""

DRIVER, TASK = "driver", "task"
KILL, PAUSE = "killed", "paused"
BEFORE, AFTER = "before", "after"


def point(process: str, when: str, what: str) -> str:
    """A place before or after a step of a process that changes a folder of the log or of the checkpoints."""
    return f"{what} {when} a step of a {process}"


def make_logs(folder: Path) -> None:
    """A log with all records in one topic, and another topic for the output."""
    log = Log.open(str(folder / "log"), create=True)
    for topic in ("in", "out"):
        log.create_topic(topic, PARTITIONS, {"compression.type": "none"})
    with Producer(log) as producer:
        for number in range(COUNT):
            producer.send("in", b"%d" % number, partition=number % PARTITIONS)


class Numbering(KeyedProcessFunction):
    """Numbers the records of each key, in keyed state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        seen = (self._seen.value() or 0) + 1
        self._seen.update(seen)
        yield f"{value} {seen} {PADDING}"


class Key(SerializationSchema):
    def serialize(self, element: Any) -> bytes:
        return b"%d" % (int(element.split()[0]) % KEYS)


class DyingLogSink(LogSink[str]):
    """A log sink whose tasks come by the plan's points, where they are processes of their own."""

    def __init__(self, folder: Path, plan: FaultPlan, *, in_tasks: bool) -> None:
        schema = MessageSerializationSchema("out", SimpleStringSchema(), key=Key())
        super().__init__(str(folder / "log"), schema, DeliveryGuarantee.EXACTLY_ONCE)
        self._plan = plan
        self._in_tasks = in_tasks

    def create_writer(self, context: WriterContext) -> SinkWriter:
        if self._in_tasks:
            end_at_steps(self._plan, TASK)
        return super().create_writer(context)


def end_at_steps(plan: FaultPlan, process: str) -> None:
    """Have this process come by the plan's points before and after whatever it changes in a folder."""
    for name in ("create", "write", "remove"):
        change = getattr(Folder, name)
        if not hasattr(change, "__wrapped__"):
            setattr(Folder, name, _with_points(change, plan, process))


def _with_points(change: Callable[..., Any], plan: FaultPlan, process: str) -> Callable[..., Any]:
    @wraps(change)
    def step(*arguments: Any, **more: Any) -> Any:
        _come_by(plan, process, BEFORE)
        result = change(*arguments, **more)
        _come_by(plan, process, AFTER)
        return result

    return step


def _come_by(plan: FaultPlan, process: str, when: str) -> None:
    if plan.strikes(point(process, when, KILL)):
        die()
    if plan.strikes(point(process, when, PAUSE)):
        os.kill(os.getpid(), signal.SIGSTOP)


def check(folder: Path) -> int:
    """See that nothing is in the output twice or out of order; gives how many records there are."""
    log = Log.open(str(folder / "log"))
    of_keys: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in log.read("out").read_all().column("value").to_pylist():
        number, seen = map(int, row.split()[:2])
        of_keys[number % KEYS].append((number, seen))
    for key, found in of_keys.items():
        assert found == list(expected(key, len(found))), f"key {key}"
    return sum(map(len, of_keys.values()))


def expected(key: int, count: int) -> Iterable[tuple[int, int]]:
    """The first records of a key."""
    return ((key + place * KEYS, place + 1) for place in range(count))
