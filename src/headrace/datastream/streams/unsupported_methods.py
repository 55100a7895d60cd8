"""What Flink's streams offer and headrace's do not, with what to do instead."""

from __future__ import annotations

from typing import Final

_SPREAD: Final = (
    "the planner decides where records go; remove the call, or use set_parallelism(...) on the operator that should be "
    "spread more widely"
)
_ONE_PLACE: Final = "use set_parallelism(1) on the operator"
_CHAINING: Final = "what runs chained follows from the shuffles; remove the call"
_BROADCAST: Final = "give the shared data to the function itself, or key both sides alike and union() them"

DATA_STREAM: Final = {
    "shuffle": _SPREAD,
    "rebalance": _SPREAD,
    "rescale": _SPREAD,
    "forward": _SPREAD,
    "partition_custom": "use key_by(...) with a function that gives the partition as the key",
    "global_": _ONE_PLACE,
    "force_non_parallel": _ONE_PLACE,
    "broadcast": _BROADCAST,
    "connect": "bring both streams to one type with map(...), union() them, and process() the result by key",
    "window_all": "use key_by(lambda _: 0) before window(...); it has one subtask in Flink, too",
    "cache": "write the stream to files and read those in the next job",
    "add_sink": "use sink_to(sink)",
    "set_uid_hash": "give the operator a uid() instead",
    "set_buffer_timeout": "records travel at the end of an epoch; set headrace.epoch.target-duration instead",
    "start_new_chain": _CHAINING,
    "disable_chaining": _CHAINING,
    "slot_sharing_group": "Spark places the tasks; remove the call",
}

KEYED_STREAM: Final = {
    "count_window": "count in a KeyedProcessFunction with a ValueState, and emit when the count is reached",
    "interval_join": "union() both streams, and match records in a KeyedProcessFunction with MapState and timers",
}

WINDOWED_STREAM: Final = {
    "trigger": "windows fire when the watermark passes their end; otherwise use a KeyedProcessFunction with timers",
    "evictor": "leave elements out in the function given to process(...)",
}
