"""How long a record takes from when it is sent to a topic to when a reader of committed records has its result.

One process sends numbered records at a fixed rate, each with the time at which that was. Each passes a shuffle and a
function with keyed state, and its result goes to another topic, which a third process reads.

Options: ``kafka`` or ``log`` (see :class:`~benchmarks.brokers.Broker`), ``rate`` (records a second), ``seconds`` (how
long), ``warm_up`` (seconds at the beginning that do not count), ``settings`` (of headrace, by name).
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from benchmarks.brokers import PARTITIONS, Broker
from benchmarks.outcome import Assignment, Outcome
from benchmarks.programs.headrace_job import run_job
from benchmarks.programs.headrace_latency import KEYS, latency_environment, percentiles
from benchmarks.programs.phases import Phases
from headrace.common import JsonRowDeserializationSchema, Row, SimpleStringSchema, Types
from headrace.common.watermark_strategy import WatermarkStrategy
from headrace.datastream import KeyedProcessFunction, RuntimeContext
from headrace.datastream.connectors.base import MessageSerializationSchema
from headrace.datastream.state import ValueStateDescriptor

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

_EVENT = Types.ROW_NAMED(["number", "key", "sent"], [Types.LONG(), Types.LONG(), Types.DOUBLE()])
_GIVEN_UP_SECONDS = 60
_LINGER_MILLIS = 5


class _Inbox(Protocol):
    """The end of a queue where things go in."""

    def put(self, obj: Any) -> None:
        """Hand something over."""


class NumberCountAndTime(KeyedProcessFunction):
    """Emits each record's number, how many its key has had so far, and when it was sent."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value[0]} {count} {value[2]!r}"


def run(assignment: Assignment) -> Outcome:
    """Run the job for as long as it is to take."""
    options = assignment.options
    broker = Broker.of(options)
    records, skipped = (options["rate"] * options[name] for name in ("seconds", "warm_up"))
    events, results = broker.new_topic("events"), broker.new_topic("results")
    processes = multiprocessing.get_context("spawn")
    found: multiprocessing.Queue[Any] = processes.Queue()
    sender = processes.Process(target=send, args=(broker.options, events, options["rate"], records), daemon=True)
    reader = processes.Process(target=read, args=(broker.options, results, records, found), daemon=True)
    environment = latency_environment(assignment)
    source = broker.source(events, JsonRowDeserializationSchema(_EVENT), records)
    stream = environment.from_source(source, WatermarkStrategy.no_watermarks(), "events").uid("events")
    counted = stream.key_by("key").process(NumberCountAndTime(), output_type=Types.STRING()).uid("counts")
    counted.sink_to(broker.sink(MessageSerializationSchema(results, SimpleStringSchema()))).uid("results")
    reader.start()
    sender.start()
    epochs = Phases()
    run_job(environment, epochs)
    numbers, counts, sent, seen = found.get(timeout=_GIVEN_UP_SECONDS)
    steady = numbers >= skipped
    details = epochs.summary() | {"latency ms": percentiles((seen[steady] - sent[steady]) * 1000)}
    totals = {"rows": len(numbers), "numbers": int(numbers.sum()), "counts": int(counts.sum())}
    return Outcome(tuple(epochs.epochs), totals, details)


def send(options: Mapping[str, str], topic: str, rate: int, records: int) -> None:
    """Send numbered records at a rate, in a process of its own."""
    Broker.of(options).send(topic, paced(rate, records), _LINGER_MILLIS)


def paced(rate: int, records: int) -> Iterator[tuple[bytes, int]]:
    """Records when they are due, each with its partition."""
    started = time.time()
    for number in range(records):
        wait = started + number / rate - time.time()
        if wait > 0:
            time.sleep(wait)
        value = b'{"number":%d,"key":%d,"sent":%.6f}' % (number, number % KEYS, time.time())
        yield value, number % PARTITIONS


def read(options: Mapping[str, str], topic: str, records: int, found: _Inbox) -> None:
    """Wait for all results, in a process of its own.

    The queue gets their numbers, their counts, when their records were sent and when each came, in seconds.
    """
    parts: list[npt.NDArray[np.float64]] = []
    for values in Broker.of(options).tail(topic):
        now = time.time()
        parts += [np.array([*map(float, value.split()), now]) for value in values]
        if len(parts) >= records:
            break
    table = np.array(parts).T
    found.put((table[0].astype(np.int64), table[1].astype(np.int64), table[2], table[3]))
