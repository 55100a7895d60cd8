"""Runs a case through the operator, with its state: as a task does, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.cep import EventComparator, PatternProcessFunction, TimedOutPartialMatchHandler
from headrace.cep.compiler import compile_pattern
from headrace.cep.rules import compiled
from headrace.common.batch import Batch
from headrace.common.call_site import UNKNOWN_CALL_SITE
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import TypeInformation, Types
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext
from headrace.operators.pattern.automaton import Automaton
from headrace.operators.pattern.match_results import PatternFunction
from headrace.operators.pattern.pattern_operator import PatternOperator, PatternSettings
from headrace.operators.pattern.patterns_at_work import FixedPattern
from headrace.state.hashmap_backend import HashMapOperatorStates
from headrace.state.keys import KeyCodec
from headrace.state.runs import ALL_HASHES, RunStore
from tests.cep.conformance.patterns import KINDS, Event, expression, pattern, skip_strategy

MIN, MAX = -(1 << 63), (1 << 63) - 1
TYPE = Types.PICKLED_BYTE_ARRAY()


class _Told(PatternProcessFunction, TimedOutPartialMatchHandler):
    def __init__(self, driver: OperatorDriver) -> None:
        self._driver = driver

    def process_match(self, match: Mapping[str, list[Event]], ctx: PatternProcessFunction.Context) -> Iterator[str]:
        self._note("m", match, ctx)
        yield "match"

    def process_timed_out_match(
        self, match: Mapping[str, list[Event]], ctx: PatternProcessFunction.Context
    ) -> list[tuple[OutputTag, Any]]:
        self._note("t", match, ctx)
        return []

    def _note(self, kind: str, match: Mapping[str, list[Event]], ctx: PatternProcessFunction.Context) -> None:
        key = next(iter(match.values()))[0].key
        stages = {stage: [event.id for event in events] for stage, events in match.items()}
        self._driver.out.append([kind, self._driver.step, key, ctx.timestamp(), stages])


class _Compare(EventComparator):
    def __init__(self, told: str) -> None:
        self._field, self._sign = told.removeprefix("-"), -1 if told.startswith("-") else 1

    def compare(self, first: Event, second: Event) -> int:
        one, other = getattr(first, self._field), getattr(second, self._field)
        return self._sign * ((one > other) - (one < other))


class OperatorDriver:
    """The operator of one subtask and its state.

    Attributes:
        out: what came out, as in ``expected``.

    Args:
        case: the case.
        cut: after so many items another epoch begins, with another instance of the operator.
    """

    type: TypeInformation = TYPE

    def __init__(self, case: dict[str, Any], cut: int = 1 << 30) -> None:
        self.case = case
        self._cut = cut
        self.out: list[list[Any]] = []
        self.step = self._now = self._epoch = 0
        self._watermark = MIN
        self._keys: dict[str, None] = {}
        self._runs: dict[str, Any] = {}
        self._codec = KeyCodec.for_type(Types.STRING())
        self.automaton = self._compiled()

    def _compiled(self) -> Automaton:
        return compile_pattern(pattern(self.case["pattern"], skip_strategy(self.case.get("skip"))))

    def run(self) -> None:
        self._begin()
        for step, item in enumerate(self.case["input"]):
            self.step = step
            told = MIN if item[0] == "s" else MAX if item[1:] == ["max"] else item[1]
            if (step and step % self._cut == 0) or item[0] in "ps" or (item[0] == "w" and told < self._watermark):
                self._end()
                if item[0] == "p":
                    self._now = told
                elif item[0] in "sw":  # an operator that goes on from a checkpoint may be behind, no other one
                    self._watermark = min(told, self._watermark)
                self._begin()
            if item[0] == "e":
                self._add(*item[1:])
            elif item[0] == "w":
                self._watermark = told
            self._operator.advance_watermark(self._watermark)
        self._end()

    def left(self) -> dict[str, list[int]]:
        self._begin()
        found = {key: [0, 0, 0] for key in self._keys}
        (matcher,) = self._operator._patterns.matchers
        keys, matches = matcher.matches.all()
        names = self._codec.decode(keys.values)
        for position, state in matches.all_states().items():
            found[names[position]][:2] = len(state.partial), len(state.finished)
        for batch in self._operator._waiting.take(MAX):
            for event in batch.rows:
                found[event.key][2] += 1
        return found

    def _begin(self) -> None:
        self._stores = {name: RunStore(name, ALL_HASHES, runs) for name, runs in self._runs.items()}
        self._states = HashMapOperatorStates("c", self._store)
        self._states.bind_key_codec(self._codec)
        is_processing_time = self.case.get("time") == "processing"
        told, compare = _Told(self), self.case.get("comparator")
        function = PatternFunction(told, Types.STRING(), {}, handles_timeout=True, has_timestamps=True)
        self._operator = PatternOperator(
            FixedPattern(self.automaton, self.type),
            function,
            (told,),
            self.type,
            PatternSettings(
                None if compare is None else _Compare(compare).compare, "late", in_processing_time=is_processing_time
            ),
        )
        context = OperatorContext("c", "c", 0, 1, 128, UNKNOWN_CALL_SITE, optional_state=self._states)
        self._operator.open(context, self)
        self._states.begin_epoch(self._watermark, self._now)
        self._operator.begin_epoch(EpochScope(self._epoch, self._now, self._watermark))

    def _end(self) -> None:
        self._operator.end_epoch()
        self._states.end_epoch()
        self._runs = {name: store.runs for name, store in self._stores.items()}
        self._epoch += 1

    def _store(self, name: str) -> RunStore:
        return self._stores.setdefault(name, RunStore(name, ALL_HASHES))

    def _add(self, key: str, name: str, timestamp: int, *rest: Any) -> None:
        self._keys[key] = None
        kind = KINDS.get(rest[2], Event) if len(rest) > 2 else Event
        batch = Batch.of_rows(self.type, [kind(key, name, rest[0], rest[1])], [timestamp], [self._watermark])
        self._operator.process(0, KeyedBatch.of(batch, self._codec.encode([key])))

    def emit(self, batch: Batch) -> None:
        assert set(batch.rows) == {"match"}

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        assert tag_id == "late"
        for event, timestamp in zip(batch.rows, batch.timestamps.tolist(), strict=True):
            self.out.append(["l", self.step, event.key, timestamp, {"late": [event.id]}])

    def advance_watermark(self, watermark: int) -> None:
        assert watermark == self._watermark


class ExpressionDriver(OperatorDriver):
    """The operator with conditions that are expressions; events are columns."""

    type = Types.of(Event)

    def _compiled(self) -> Automaton:
        return compiled(pattern(self.case["pattern"], skip_strategy(self.case.get("skip")), expression), self.type)
