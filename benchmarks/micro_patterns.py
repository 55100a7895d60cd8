"""How fast patterns are on one core: ``python benchmarks/micro_patterns.py``.

Prints events for each CPU second of the operator alone: three patterns of 300,000 events with 1,000 and with 1,000,000
keys, with conditions as expressions and as functions, and one whose first condition is rare. The first three are also
what Flink's library is measured by, in Java.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.cep import AfterMatchSkipStrategy, Pattern, PatternProcessFunction
from headrace.cep.compiler import compile_pattern
from headrace.common.batch import Batch
from headrace.common.call_site import UNKNOWN_CALL_SITE
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.typeinfo import Types
from headrace.expressions import col
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext
from headrace.operators.pattern.match_results import PatternFunction
from headrace.operators.pattern.pattern_operator import PatternOperator, PatternSettings
from headrace.state.hashmap_backend import HashMapOperatorStates
from headrace.state.keys import KeyCodec
from headrace.state.runs import ALL_HASHES, RunStore

EVENTS = 300_000
RARE_EVENTS = 2_000_000
BATCH = 1 << 16
EPOCH = 1 << 18
STAMPED = 1_000
"""After so many events the watermark rises."""


class Event(NamedTuple):
    """What patterns are looked for in."""

    key: int
    price: float
    ok: bool


EVENT = Types.of(Event)

SMALL, LARGE, OK = col("price") < 10.0, col("price") >= 90.0, col("ok")


def is_small(event: Event) -> bool:
    """``SMALL`` as a function."""
    return event.price < 10.0


def is_large(event: Event) -> bool:
    """``LARGE`` as a function."""
    return event.price >= 90.0


def is_ok(event: Event) -> bool:
    """``OK`` as a function."""
    return event.ok


def is_not_ok(event: Event) -> bool:
    """The opposite."""
    return not event.ok


def falls(event: Event, context: Any) -> bool:
    """Return whether the price is below the one that was taken last."""
    return bool(event.price < (context.events("down") or context.events("start"))[-1].price)


def rises(event: Event, context: Any) -> bool:
    """Return whether the price is above the one that was taken last."""
    down = context.events("down")
    return bool(down) and event.price > down[-1].price


def small_then_large(small: Any, large: Any) -> Pattern[Event]:
    """A small price, then a large one within ten seconds."""
    begun: Pattern[Event] = Pattern.begin("small").where(small)
    return begun.followed_by("large").where(large).within(10_000)


def falling_then_rising() -> Pattern[Event]:
    """Prices that fall, and then rise."""
    begun: Pattern[Event] = Pattern.begin("start", AfterMatchSkipStrategy.skip_past_last_event())
    return begun.next("down").where(falls).one_or_more().consecutive().next("up").where(rises)


def failures_then_success(fails: Any, succeeds: Any) -> Pattern[Event]:
    """Three failures, then a success within ten seconds."""
    begun: Pattern[Event] = Pattern.begin("fail").where(fails).times(3)
    return begun.followed_by("success").where(succeeds).within(10_000)


PATTERNS: list[tuple[str, Callable[[], Pattern[Event]]]] = [
    ("small, then large; expressions", lambda: small_then_large(SMALL, LARGE)),
    ("small, then large; functions", lambda: small_then_large(is_small, is_large)),
    ("falling, then rising; iterative functions", falling_then_rising),
    ("three failures, then a success; expressions", lambda: failures_then_success(~OK, OK)),
    ("three failures, then a success; functions", lambda: failures_then_success(is_not_ok, is_ok)),
]


class Count(PatternProcessFunction[Event, int]):
    """Counts matches."""

    def __init__(self) -> None:
        self.matches = 0

    def process_match(self, match: Mapping[str, list[Event]], ctx: PatternProcessFunction.Context) -> Iterator[int]:
        self.matches += 1
        yield ctx.timestamp()


class Discard:
    """An output that takes everything."""

    def emit(self, batch: Batch) -> None:
        """Take a batch."""

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        """Take a batch of a side output."""

    def advance_watermark(self, watermark: int) -> None:
        """Take a watermark."""


class Input:
    """Events a millisecond apart, of random keys and prices."""

    def __init__(self, events: int, keys: int, *, whole_prices: bool) -> None:
        random = np.random.default_rng(7)
        self.count = events
        self.times = 1_000_000 + np.arange(events)
        prices = random.integers(0, 100, events).astype(float) if whole_prices else random.random(events) * 100
        columns = [random.integers(0, keys, events), prices, random.random(events) >= 0.3]
        self.columns = pa.record_batch(list(map(pa.array, columns)), [*Event._fields])

    def batch(self, start: int, stop: int, codec: KeyCodec) -> KeyedBatch:
        """Some of them."""
        marks = np.arange(start, stop) // STAMPED * STAMPED + 1_000_000 - 1
        columns = self.columns.slice(start, stop - start)
        batch = Batch(EVENT, self.times[start:stop], marks, columns=columns)
        return KeyedBatch.of(batch, codec.from_array(columns.column("key")))


def measure(name: str, pattern: Pattern[Event], given: Input) -> None:
    """Print how many events a CPU second an operator takes, epoch by epoch."""
    stores: dict[str, RunStore] = {}
    states = HashMapOperatorStates("pattern", lambda name: stores.setdefault(name, RunStore(name, ALL_HASHES)))
    codec = KeyCodec.for_type(Types.LONG())
    states.bind_key_codec(codec)
    count = Count()
    function = PatternFunction(count, Types.LONG(), {}, handles_timeout=False, has_timestamps=True)
    operator = PatternOperator(compile_pattern(pattern), function, (), EVENT, PatternSettings())
    context = OperatorContext("pattern", "pattern", 0, 1, 128, UNKNOWN_CALL_SITE, optional_state=states)
    operator.open(context, Discard())
    reached, began = MIN_WATERMARK, time.process_time()
    for epoch, start in enumerate(range(0, given.count, EPOCH)):
        states.begin_epoch(reached, 0)
        operator.begin_epoch(EpochScope(epoch, 0, reached))
        end = min(start + EPOCH, given.count)
        for first in range(start, end, BATCH):
            batch = given.batch(first, min(first + BATCH, end), codec)
            operator.process(0, batch)
            reached = batch.last_watermark
        reached = MAX_WATERMARK if end == given.count else reached
        operator.advance_watermark(reached)
        operator.end_epoch()
        states.end_epoch()
    seconds = time.process_time() - began
    print(f"{name:<62} {given.count / seconds:>12,.0f} {count.matches:>9,}", flush=True)


def main() -> None:
    """All figures."""
    pa.set_cpu_count(1)
    print(f"{'':<62} {'events/CPU s':>12} {'matches':>9}")
    for keys in (1_000, 1_000_000):
        given = Input(EVENTS, keys, whole_prices=True)
        for name, pattern in PATTERNS:
            measure(f"{keys:>9,} keys: {name}", pattern(), given)
    rare = small_then_large(col("price") < 0.1, LARGE)
    given = Input(RARE_EVENTS, 1_000, whole_prices=False)
    measure("    1,000 keys: a first condition that is rare (1 in 1,000)", rare, given)


if __name__ == "__main__":
    main()
