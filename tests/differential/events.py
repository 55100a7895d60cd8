"""The events that jobs get which must give the same on every runtime."""

from __future__ import annotations

import random

from headrace.common.typeinfo import Types
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.streams.data_stream import DataStream
from headrace.time.watermark_strategy import WatermarkStrategy

RECORDS = 2000

EVENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.DOUBLE()])
"""Key, number, event time, amount."""
RESULT = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()])

Event = tuple[str, int, int, float]
Streams = dict[str, DataStream]


def events(env: StreamExecutionEnvironment, seed: int = 1, *, spread: int = 300, bound: int = 100) -> DataStream:
    """Events in about the order of time, some of them late."""
    chance = random.Random(seed)
    rows = [
        (f"key-{chance.randrange(40)}", number, 10 * number - chance.randrange(spread), round(chance.random() * 100, 2))
        for number in range(RECORDS)
    ]
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(bound).with_timestamp_assigner("f2")
    return env.from_collection(rows, EVENT).assign_timestamps_and_watermarks(strategy)
