"""How fast patterns are on one core: ``python -m benchmarks.micro_patterns``.

Prints events for each CPU second of the operator alone: three patterns of 300,000 events with 1,000 and with 1,000,000
keys, with conditions as expressions and as functions, one whose first condition is rare, and 1, 10 and 100 rules that
are looked for together. ``pattern`` of the suite has the same ones in whole jobs, beside Flink's library.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.patterns import EXPRESSIONS, FUNCTIONS, PricedEvent
from headrace.cep import Pattern, PatternProcessFunction, PatternRule
from headrace.cep.rules import PatternRuleReader, compiled
from headrace.common.batch import Batch
from headrace.common.call_site import UNKNOWN_CALL_SITE
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.garbage import gc_relaxed
from headrace.common.typeinfo import Types
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext
from headrace.operators.pattern.match_results import PatternFunction
from headrace.operators.pattern.pattern_operator import PatternOperator, PatternSettings
from headrace.operators.pattern.patterns_at_work import RULES, ChangingPatterns, FixedPattern, PatternsAtWork
from headrace.state.hashmap_backend import HashMapOperatorStates
from headrace.state.keys import KeyCodec
from headrace.state.protocols import KEYED, StateKind
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

    def __init__(self, events: int, keys: int) -> None:
        random = np.random.default_rng(7)
        self.count = events
        self.times = 1_000_000 + np.arange(events)
        columns = [random.integers(0, keys, events), random.random(events) * 100, random.random(events) >= 0.3]
        self.columns = pa.record_batch(list(map(pa.array, columns)), [*Event._fields])

    def batch(self, start: int, stop: int, codec: KeyCodec) -> KeyedBatch:
        """Some of them."""
        marks = np.arange(start, stop) // STAMPED * STAMPED + 1_000_000 - 1
        columns = self.columns.slice(start, stop - start)
        batch = Batch(EVENT, self.times[start:stop], marks, columns=columns)
        return KeyedBatch.of(batch, codec.from_array(columns.column("key")))


def rule(number: int) -> PatternRule:
    """One of many rules: what is small and large differs, one event in a hundred begins a match."""
    small, large = f"price < {1 + number / 1000} and ok", f"price > {90 - number / 100}"
    return PatternRule(f"rule {number}", "small followed_by large within 10 s", {"small": small, "large": large})


def measure(name: str, pattern: Pattern[PricedEvent] | Sequence[PatternRule], given: Input) -> None:
    """Print how many events a CPU second an operator takes, epoch by epoch."""
    stores: dict[str, RunStore] = {}
    states = HashMapOperatorStates(
        "pattern", lambda name: stores.setdefault(name, RunStore(name, ALL_HASHES)), KEYED | {StateKind.BROADCAST}
    )
    codec = KeyCodec.for_type(Types.LONG())
    states.bind_key_codec(codec)
    count = Count()
    function = PatternFunction(count, Types.LONG(), {}, handles_timeout=False, has_timestamps=True)
    patterns: PatternsAtWork
    if isinstance(pattern, Pattern):
        patterns = FixedPattern(compiled(pattern, EVENT), EVENT)
    else:
        patterns = ChangingPatterns(PatternRuleReader(EVENT), Types.STRING(), EVENT)
    operator = PatternOperator(patterns, function, (), EVENT, PatternSettings())
    context = OperatorContext("pattern", "pattern", 0, 1, 128, UNKNOWN_CALL_SITE, optional_state=states)
    operator.open(context, Discard())
    reached, began = MIN_WATERMARK, time.process_time()
    for epoch, start in enumerate(range(0, given.count, EPOCH)):
        states.begin_epoch(reached, 0)
        operator.begin_epoch(EpochScope(epoch, 0, reached))
        if not isinstance(pattern, Pattern) and not epoch:
            texts = [each.to_json() for each in pattern]
            zeros = np.zeros(len(texts), np.int64)
            operator.process(RULES, Batch.of_rows(Types.STRING(), texts, zeros, zeros + MIN_WATERMARK))
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
    with gc_relaxed():
        print_figures()


def print_figures() -> None:
    """Print them, as a task would measure them."""
    print(f"{'':<62} {'events/CPU s':>12} {'matches':>9}")
    for keys in (1_000, 1_000_000):
        given = Input(EVENTS, keys)
        for kind, patterns in (("expressions", EXPRESSIONS), ("functions", FUNCTIONS)):
            for name in (each for each in patterns if each != "rare"):
                with gc_relaxed():  # as in a task
                    measure(f"{keys:>9,} keys: {name}, {kind}", patterns[name](), given)
    measure("    1,000 keys: rare, expressions", EXPRESSIONS["rare"](), Input(RARE_EVENTS, 1_000))
    given = Input(EVENTS, 1_000)
    for count in (1, 10, 100):
        measure(f"    1,000 keys: {count} rules", [rule(number) for number in range(count)], given)


if __name__ == "__main__":
    main()
