"""The log where nothing can be appended to a file, and everything takes its time: on object stores and HDFS."""

from __future__ import annotations

import threading

import pyarrow as pa

from headrace.log.consumer import Consumer
from headrace.log.log import Log
from headrace.log.producer import Producer
from tests.storage.stores import Store, on


@on()
def test_producers_and_consumers_on_a_store(store: Store) -> None:
    place, options = store.new_place(), store.options()
    log = Log.open(place, create=True, options=options)
    log.create_topic("numbers", 2)

    def produce(first: int) -> None:
        with Producer(Log.open(place, options=options)) as producer:
            for number in range(first, first + 5):
                producer.send("numbers", b"%d" % number, partition=0)
                producer.flush()

    threads = [threading.Thread(target=produce, args=(first,)) for first in (0, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Producer(log, "large") as producer:
        producer.begin_transaction()
        producer.append("numbers", pa.table({"value": [b"%09d" % number for number in range(200_000)]}), partition=1)
        producer.commit_transaction()
    log.maintain(fully=True)
    with Consumer(Log.open(place, options=options), "readers", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["numbers"])
        found: dict[int, list[int]] = {0: [], 1: []}
        while (batch := consumer.poll_batch(timeout=0.1)).num_rows:
            for number in found:
                mine = batch.filter(pa.compute.equal(batch.column("partition"), number))
                found[number] += [int(value) for value in mine.column("value").to_pylist()]
    small = found[0]
    assert [number for number in small if number < 100] == list(range(5))
    assert [number for number in small if number >= 100] == list(range(100, 105))
    assert found[1] == list(range(200_000))
    assert {tp.partition: each for tp, each in log.committed("readers").items()} == {0: 10, 1: 200_000}
