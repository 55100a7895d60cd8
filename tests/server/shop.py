"""Orders of a shop, in a topic with four partitions, and a job that sums them up: healthy, or with something wrong.

``python -m tests.server.shop WRONG FOLDER [headrace run's options]`` runs it by itself until it is stopped.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.common import Configuration, Duration, JsonRowDeserializationSchema, Types, WatermarkStrategy
from headrace.datastream import KeyedProcessFunction, MapFunction, OutputTag, RuntimeContext, StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSink
from headrace.datastream.connectors.log import LogSource
from headrace.datastream.formats.json import JsonLinesEncoder
from headrace.datastream.state import ValueStateDescriptor
from headrace.datastream.window import Time, TumblingEventTimeWindows
from headrace.log import Log, Producer
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.client.job_client import JobClient

WRONG = ("nothing", "record", "skew", "idle", "slow", "state")
"""What may be wrong with the job; ``nothing`` is healthy."""

PARTITIONS = 4
ORDER = Types.ROW_NAMED(["id", "customer", "country", "amount", "time"], [int, str, str, float, int])
UNREADABLE = OutputTag("unreadable")

_COUNTRIES = ("DE", "FR", "IT", "PL", "SE", "NL", "ES", "PT")


class Orders:
    """Puts orders into the topic, from a thread of its own, until it is closed.

    Args:
        folder: where the log is made.
        wrong: as in ``WRONG``.
        rate: orders in a second.
    """

    def __init__(self, folder: Path, wrong: str, rate: int = 400) -> None:
        self.log = folder / "shop.log"
        self._wrong = wrong
        self._rate = rate
        self._random = random.Random(7)
        self._number = 0
        self._closed = threading.Event()
        log = Log.open(str(self.log), create=True)
        if "orders" not in log.topics():
            log.create_topic("orders", partitions=PARTITIONS)
        self._thread = threading.Thread(target=self._produce, args=(log,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join(PATIENCE)

    def _produce(self, log: Log) -> None:
        with Producer(log) as producer:
            if self._wrong == "idle":
                now = int(time.time() * 1000)
                producer.send("orders", self._order(now), partition=PARTITIONS - 1)
            while not self._closed.wait(0.1):
                now = int(time.time() * 1000)
                for _ in range(self._rate // 10):
                    producer.send("orders", self._order(now), partition=self._partition())

    def _partition(self) -> int:
        return self._number % (PARTITIONS - 1 if self._wrong == "idle" else PARTITIONS)

    def _order(self, now: int) -> bytes:
        self._number += 1
        chance = self._random.random()
        if self._wrong == "nothing" and self._number % 997 == 0:
            return b'{"id": "no order'
        country = "DE" if self._wrong == "skew" and chance < 0.9 else self._random.choice(_COUNTRIES)
        amount = -1.0 if self._wrong == "record" and self._number % 2_000 == 1_999 else round(5 + 90 * chance, 2)
        late = 30_000 if self._wrong == "nothing" and self._number % 503 == 0 else 0
        order = {
            "id": self._number,
            "customer": f"customer {self._random.randrange(100_000 if self._wrong == 'state' else 2_000)}",
            "country": country,
            "amount": amount,
            "time": now - late - int(300 * self._random.random()),
        }
        return json.dumps(order).encode()


class Vat(MapFunction):
    """Adds the tax; it takes its time where that is asked for."""

    def __init__(self, wrong: str) -> None:
        self._wrong = wrong

    def map(self, value: Any) -> Any:
        if self._wrong == "record" and value.amount < 0:
            raise ValueError(f"order {value.id} has a negative amount")
        if self._wrong == "slow":
            time.sleep(0.004)
        value.amount = round(value.amount * 1.19, 2)
        return value


class Loyalty(KeyedProcessFunction):
    """Counts the orders of each customer, and gives every tenth."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.orders = runtime_context.get_state(ValueStateDescriptor("orders", Types.LONG()))
        self.last = runtime_context.get_state(ValueStateDescriptor("last order", ORDER))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        orders = (self.orders.value() or 0) + 1
        self.orders.update(orders)
        self.last.update(value)
        if orders % 10 == 0:
            yield f"{value.customer}: {orders}"


def submit(folder: Path, log: Path, wrong: str, settings: dict[str, str], name: str = "shop") -> JobClient:
    """Submit the job.

    Args:
        folder: where its results go.
        log: the log with the topic.
        wrong: as in ``WRONG``.
        settings: its configuration.
        name: its name.
    """
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    source = (
        LogSource.builder()
        .set_log(str(log))
        .set_topics("orders")
        .set_value_only_deserializer(JsonRowDeserializationSchema(ORDER))
        .set_dead_letter(UNREADABLE)
        .build()
    )
    times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner("time")
    orders = env.from_source(source, times, "orders").uid("orders")
    orders.get_side_output(UNREADABLE).map(str, Types.STRING()).name("as text").uid("letters").sink_to(
        FileSink.for_row_format(str(folder / "dead-letters"), JsonLinesEncoder()).build()
    ).name("dead letters").uid("dead-letters")
    with_tax = orders.map(Vat(wrong), ORDER).name("add tax").uid("tax")
    loyal = with_tax.key_by("customer").process(Loyalty(), Types.STRING()).name("loyalty").uid("loyalty")
    sales = (
        with_tax.key_by("country")
        .window(TumblingEventTimeWindows.of(Time.seconds(5)))
        .reduce(lambda one, other: other)
        .name("sales by country")
        .uid("sales")
        .map(str, Types.STRING())
        .name("as a line")
        .uid("lines")
    )
    for output, stream in (("loyal customers", loyal), ("sales", sales)):
        sink = FileSink.for_row_format(str(folder / output), JsonLinesEncoder()).build()
        stream.sink_to(sink).name(output).uid(f"{output}-out")
    return env.execute_async(name)


def settings_of(folder: Path, **more: str) -> dict[str, str]:
    """The configuration of the job."""
    return {
        "headrace.runtime": "local",
        "parallelism.default": "4",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
        "execution.checkpointing.interval": "1 s",
        "web.refresh-interval": "1 s",
        "warehouse.password": "never-to-be-shown",
        **more,
    }


def main() -> None:
    wrong, folder, port = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    folder.mkdir(parents=True, exist_ok=True)
    orders = Orders(folder, wrong)
    restarts = (
        {}
        if wrong != "record"
        else {
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "50",
            "restart-strategy.fixed-delay.delay": "4 s",
        }
    )
    client = submit(folder, orders.log, wrong, settings_of(folder, **restarts, **{"rest.port": port}), f"shop, {wrong}")
    client.get_job_execution_result().result()


if __name__ == "__main__":
    main()
