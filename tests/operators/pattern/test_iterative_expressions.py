"""Iterative expressions find what functions of the same meaning find, however the input is cut into epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cep import AfterMatchSkipStrategy, Pattern, PatternProcessFunction
from headrace.cep.rules import compiled
from headrace.common.batch import Batch
from headrace.common.call_site import UNKNOWN_CALL_SITE
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import InvalidTypeError, JobExecutionError
from headrace.common.typeinfo import Types
from headrace.expressions import Expression, avg_of, coalesce, col, count_of, first, last, max_of, min_of, sum_of
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext
from headrace.operators.pattern.iterative_conditions import LaggedCondition, RowCondition, with_lags
from headrace.operators.pattern.match_results import PatternFunction
from headrace.operators.pattern.pattern_operator import PatternOperator, PatternSettings
from headrace.operators.pattern.patterns_at_work import FixedPattern
from headrace.state.hashmap_backend import HashMapOperatorStates
from headrace.state.keys import KeyCodec
from headrace.state.runs import ALL_HASHES, Run, RunStore
from tests.draws import draws

EVENT: Final = Types.ROW_NAMED(["key", "price", "number"], [Types.LONG(), Types.LONG(), Types.LONG()])
SKIP: Final = AfterMatchSkipStrategy.skip_past_last_event

Taken = Mapping[str, Sequence[Any]]
Reading = Callable[[Any, Callable[[str], Sequence[int | None]]], bool]
"""What a condition says of a price and of the prices that a stage has taken."""


def function_of(says: Reading) -> Callable[[Any, Any], bool]:
    """The condition as a function of the event and the context; what has no value is not true."""

    def holds(event: Any, context: Any) -> bool:
        try:
            return says(event.price, lambda stage: [each.price for each in context.events(stage)])
        except TypeError:  # None is neither below nor above anything
            return False

    return holds


def at(prices: Sequence[int | None], place: int) -> int | None:
    return prices[place] if -len(prices) <= place < len(prices) else None


def known(prices: Sequence[int | None]) -> list[int]:
    return [price for price in prices if price is not None]


price = col("price")
CONDITIONS: Final[Mapping[str, tuple[Expression, Reading]]] = {
    "falls": (price < last("a", "b").price, lambda now, of: now < at([*of("a"), *of("b")], -1)),
    "falls or starts": (
        price < coalesce(last("b").price, last("a").price),
        lambda now, of: now < next((p for p in (at(of("b"), -1), at(of("a"), -1)) if p is not None), None),
    ),
    "below the last of all": (price < last().price, lambda now, of: now < at([*of("a"), *of("b"), *of("c")], -1)),
    "above the first": (price > first("a").price, lambda now, of: now > at(of("a"), 0)),
    "above the first b": (price > first("b").price, lambda now, of: now > at(of("b"), 0)),
    "above the one before": (price > last("b", offset=1).price, lambda now, of: now > at(of("b"), -2)),
    "below the second": (price <= first("a", offset=1).price, lambda now, of: now <= at(of("a"), 1)),
    "has taken none": (last("b").price.is_null() & (price > 2), lambda now, of: at(of("b"), -1) is None and now > 2),
    "not below": (~(price < last("a").price), lambda now, of: not now < at(of("a"), -1)),
    "small or falls": ((price < 3) | (price < last("a").price), lambda now, of: now < 3 or now < at(of("a"), -1)),
    "few": (count_of("b") < 2, lambda now, of: len(of("b")) < 2),
    "sum": (sum_of("b", "price") + price < 12, lambda now, of: sum(known(of("b"))) + now < 12),
    "doubled": (sum_of("a", price * 2) > price, lambda now, of: sum(2 * p for p in known(of("a"))) > now),
    "average": (price >= avg_of("b", "price"), lambda now, of: bool(known(of("b"))) and now >= fmean(known(of("b")))),
    "between": (
        (price >= min_of("b", "price")) & (price <= max_of("b", "price")),
        lambda now, of: min(known(of("b")), default=None) <= now <= max(known(of("b")), default=None),
    ),
}

Make = Callable[[Any, Any], Pattern[Any]]
PATTERNS: Final[Mapping[str, Make]] = {
    "strict loop": lambda b, c: start().next("b").where(b).one_or_more().consecutive().next("c").where(c),
    "strict loop, past the last": lambda b, c: (
        start(SKIP()).next("b").where(b).one_or_more().consecutive().next("c").where(c)
    ),
    "greedy loop": lambda b, c: start().next("b").where(b).one_or_more().greedy().next("c").where(c),
    "relaxed": lambda b, c: start().followed_by("b").where(b).followed_by("c").where(c).within(9),
    "any": lambda b, c: start(SKIP()).followed_by_any("b").where(b).times(1, 3).followed_by_any("c").where(c).within(6),
    "optional": lambda b, c: start().next("b").where(b).optional().next("c").where(c),
    "until": lambda b, c: start().followed_by("b").one_or_more().until(b).next("c").where(c).within(8),
    "loop first": lambda b, c: (
        Pattern.begin("a", SKIP()).where(b).times_or_more(2).consecutive().next("b").where(price > 3).next("c").where(c)
    ),
    "negation": lambda b, c: start().not_next("b").where(b).followed_by("c").where(c).within(5),
}


def start(skip: Any = None) -> Pattern[Any]:
    return Pattern.begin("a", skip).where("price >= 2")


class Told(PatternProcessFunction):
    """Notes the numbers of the events of each match."""

    def __init__(self) -> None:
        self.matches: list[dict[str, list[int]]] = []

    def process_match(self, match: Mapping[str, list[Any]], ctx: PatternProcessFunction.Context) -> Iterator[int]:
        self.matches.append({stage: [event.number for event in events] for stage, events in match.items()})
        yield 1


class Nowhere:
    """An output that takes everything."""

    def emit(self, batch: Batch) -> None:
        """Take a batch."""

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        """Take a batch of a side output."""

    def advance_watermark(self, watermark: int) -> None:
        """Take a watermark."""


def _store(stores: dict[str, RunStore], name: str) -> RunStore:
    return stores.setdefault(name, RunStore(name, ALL_HASHES))


def matches_of(pattern: Pattern[Any], events: Sequence[tuple[int, int | None]], cuts: Sequence[int]) -> Any:
    """What a pattern finds among events of keys, a millisecond apart, an epoch for each cut."""
    automaton, codec, told = compiled(pattern, EVENT), KeyCodec.for_type(Types.LONG()), Told()
    runs: dict[str, Sequence[Run]] = {}
    reached = MIN_WATERMARK
    for begin, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
        stores = {name: RunStore(name, ALL_HASHES, own) for name, own in runs.items()}
        states = HashMapOperatorStates("c", partial(_store, stores))
        states.bind_key_codec(codec)
        function = PatternFunction(told, Types.LONG(), {}, handles_timeout=False, has_timestamps=True)
        operator = PatternOperator(FixedPattern(automaton, EVENT), function, (), EVENT, PatternSettings())
        operator.open(OperatorContext("c", "c", 0, 1, 128, UNKNOWN_CALL_SITE, optional_state=states), Nowhere())
        states.begin_epoch(reached, 0)
        operator.begin_epoch(EpochScope(0, 0, reached))
        if begin < end:
            times = np.arange(begin, end) + 1
            rows = [(key, value, number) for number, (key, value) in enumerate(events[begin:end], begin)]
            batch = Batch.of_rows(EVENT, rows, times, np.full(len(rows), reached))
            operator.process(0, KeyedBatch.of(batch, codec.from_array(batch.columns.column("key"))))
        reached = MAX_WATERMARK if end == len(events) else max(reached, end)
        operator.advance_watermark(reached)
        operator.end_epoch()
        states.end_epoch()
        runs = {name: store.runs for name, store in stores.items()}
    by_key: dict[int, list[Any]] = {}
    for match in told.matches:
        by_key.setdefault(events[next(iter(match.values()))[0]][0], []).append(match)
    return by_key


@settings(max_examples=draws(150), deadline=None)
@given(
    name=st.sampled_from([*PATTERNS]),
    conditions=st.tuples(st.sampled_from([*CONDITIONS]), st.sampled_from([*CONDITIONS])),
    events=st.lists(st.tuples(st.integers(0, 1), st.none() | st.integers(0, 7)), max_size=24),
    cuts=st.lists(st.integers(0, 24), max_size=3),
)
def test_expressions_find_what_functions_find(
    name: str, conditions: tuple[str, str], events: list[tuple[int, int | None]], cuts: list[int]
) -> None:
    cuts = sorted(min(cut, len(events)) for cut in cuts)
    expressions = [CONDITIONS[each][0] for each in conditions]
    functions = [function_of(CONDITIONS[each][1]) for each in conditions]
    found = matches_of(PATTERNS[name](*expressions), events, cuts)
    assert found == matches_of(PATTERNS[name](*functions), events, [])


def lagged_in(pattern: Pattern[Any]) -> tuple[int, int]:
    """The number of conditions that are known before an event meets a partial match, and of those that are asked."""
    automaton = with_lags(compiled(pattern, EVENT))
    asked = [leaf for leaf in automaton.leaves() if isinstance(leaf, RowCondition)]
    return sum(isinstance(each, LaggedCondition) for each in automaton.event_conditions), len(asked)


@pytest.mark.parametrize(
    ("name", "condition", "lagged"),
    [
        ("strict loop", "falls", (2, 0)),
        ("strict loop", "falls or starts", (1, 2)),
        ("loop first", "not below", (2, 1)),
        ("relaxed", "falls", (0, 2)),
        ("strict loop", "sum", (1, 2)),
    ],
)
def test_what_reads_the_event_before_is_known_before_partial_matches_are_met(
    name: str, condition: str, lagged: tuple[int, int]
) -> None:
    expression = CONDITIONS[condition][0]
    assert lagged_in(PATTERNS[name](expression, expression)) == lagged


def test_a_condition_without_a_value_fails_where_a_match_depends_on_it() -> None:
    quotient = 12 // (price - last("a").price) > 1
    pattern: Pattern[Any] = Pattern.begin("a").where(price > 2).next("b").where(quotient)
    events = [(1, 3), (1, 5), (2, 1), (2, 1), (1, 4)]
    assert matches_of(pattern, events, []) == {1: [{"a": [0], "b": [1]}]}
    with pytest.raises(JobExecutionError, match="division by zero"):
        matches_of(pattern, [*events, (1, 4)], [])


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        (price < last("d").price, r"last\(\"d\"\).price: the pattern has no stage 'd'"),
        (price < last("a").prize, r"last\(\"a\"\).prize: .* has no field 'prize'"),
        (last("a").price, r"last\(\"a\"\).price is of type Long: compare it"),
        (price < sum_of("a", "key").upper(), "upper takes text"),
    ],
)
def test_what_does_not_fit_the_pattern_or_its_events_is_refused(condition: Expression, told: str) -> None:
    with pytest.raises(InvalidTypeError, match=told):
        compiled(start().next("b").where(condition), EVENT)
