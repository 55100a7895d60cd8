"""``CEP.pattern``: streams in which a pattern is looked for, and what functions make of matches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from headrace.cep import (
    CEP,
    AfterMatchSkipStrategy,
    EventComparator,
    IterativeCondition,
    Pattern,
    PatternFlatSelectFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternStream,
    PatternTimeoutFunction,
    SimpleCondition,
    TimedOutPartialMatchHandler,
)
from headrace.common import Types
from headrace.common.errors import InvalidProgramError, InvalidTypeError, UserFunctionError
from headrace.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from headrace.datastream.state import ValueStateDescriptor
from headrace.expressions import col
from headrace.testing import JobHarness

Payment = tuple[str, float]
PAYMENT = Types.TUPLE([Types.STRING(), Types.DOUBLE()])
UNPAID = OutputTag("unpaid", str)

SMALL_THEN_LARGE: Pattern[Payment] = (
    Pattern.begin("small").where(col("f1") < 1.0).followed_by("large").where(col("f1") > 500.0).within(10_000)
)
PAYMENTS = [
    (("ann", 0.5), 1_000),
    (("bob", 0.1), 2_000),
    (("ann", 20.0), 3_000),
    (("ann", 900.0), 4_000),
    (("bob", 800.0), 12_000),
]


class Told(PatternProcessFunction[Payment, str], TimedOutPartialMatchHandler[Payment]):
    def process_match(self, match: Mapping[str, list[Payment]], ctx: PatternProcessFunction.Context) -> Iterator[str]:
        yield f"{match['small']} {match['large']} {ctx.timestamp()}"

    def process_timed_out_match(
        self, match: Mapping[str, list[Payment]], ctx: PatternProcessFunction.Context
    ) -> Iterator[tuple[OutputTag, str]]:
        yield UNPAID, f"{match['small']} {ctx.timestamp()}"


def ran(
    build: Callable[[PatternStream[Payment]], DataStream],
    events: list[tuple[Any, int]] | None = None,
    *,
    pattern: Pattern[Payment] = SMALL_THEN_LARGE,
    **settings: Any,
) -> dict[str, list[Any]]:
    """What comes out, in the order of keys."""

    def job(harness: JobHarness) -> None:
        payments = harness.add_source("payments", PAYMENT).key_by(0)
        found = build(CEP.pattern(payments, pattern))
        harness.add_sink("found", found.uid("pattern"))
        harness.add_sink("unpaid", found.get_side_output(UNPAID))

    with JobHarness(job, **settings) as harness:
        for event, time in PAYMENTS if events is None else events:
            harness.push("payments", event, timestamp=time)
            harness.run_epoch()
        harness.finish()
        return {name: sorted(harness.results(name)) for name in ("found", "unpaid")}


def test_process_with_a_handler_of_timeouts() -> None:
    assert ran(lambda stream: stream.process(Told())) == {
        "found": ["[('ann', 0.5)] [('ann', 900.0)] 4000"],
        "unpaid": ["[('bob', 0.1)] 12000"],
    }


def test_select_and_flat_select_take_functions_and_objects() -> None:
    class Large(PatternSelectFunction[Payment, float]):
        def select(self, pattern: Mapping[str, list[Payment]]) -> float:
            return pattern["large"][0][1]

    class Both(PatternFlatSelectFunction[Payment, float]):
        def flat_select(self, pattern: Mapping[str, list[Payment]]) -> Iterator[float]:
            yield from (payment[1] for payments in pattern.values() for payment in payments)

    assert ran(lambda stream: stream.select(Large()))["found"] == [900.0]
    assert ran(lambda stream: stream.select(lambda match: match["large"][0][1], float))["found"] == [900.0]
    assert ran(lambda stream: stream.flat_select(Both()))["found"] == [0.5, 900.0]
    assert ran(lambda stream: stream.flat_select(lambda match: [*match], output_type=str))["found"] == [
        "large",
        "small",
    ]
    stream = CEP.pattern(
        StreamExecutionEnvironment.get_execution_environment().from_collection([1]), Pattern.begin("a")
    )
    assert [stream.select(Large()).get_type(), stream.flat_select(Both()).get_type()] == [Types.DOUBLE()] * 2


def test_timeouts_go_to_a_side_output() -> None:
    class Unpaid(PatternTimeoutFunction[Payment, str]):
        def open(self, runtime_context: Any) -> None:
            self.word = "unpaid"

        def timeout(self, pattern: Mapping[str, list[Payment]], timeout_timestamp: int) -> str:
            return f"{self.word}: {pattern['small'][0][0]} by {timeout_timestamp}"

    expected = {"found": ["ann"], "unpaid": ["unpaid: bob by 12000"]}
    assert ran(lambda stream: stream.select(UNPAID, Unpaid(), lambda match: match["large"][0][0], str)) == expected

    def unpaid(pattern: Mapping[str, list[Payment]], timestamp: int) -> Iterator[str]:
        yield f"unpaid: {pattern['small'][0][0]} by {timestamp}"

    found = ran(lambda stream: stream.flat_select(UNPAID, unpaid, lambda match: [match["large"][0][0]], str))
    assert found == expected


def test_late_events() -> None:
    late = OutputTag("late")

    def job(harness: JobHarness, *, has_tag: bool) -> None:
        payments = harness.add_source("payments", PAYMENT).key_by(0)
        stream = CEP.pattern(payments, SMALL_THEN_LARGE)
        found = (stream.side_output_late_data(late) if has_tag else stream).process(Told())
        harness.add_sink("found", found)
        if has_tag:
            harness.add_sink("late", found.get_side_output(late))

    for has_tag in (True, False):
        with JobHarness(lambda harness, has_tag=has_tag: job(harness, has_tag=has_tag)) as harness:
            harness.push("payments", ("ann", 0.5), timestamp=1_000)
            harness.advance_watermark("payments", 1_200)
            harness.push("payments", ("ann", 900.0), timestamp=1_200)
            harness.finish()
            assert harness.results("found") == []
            if has_tag:
                assert harness.results("late") == [("ann", 900.0)]
            else:
                assert harness.counters()["numLateRecordsDropped"] == 1


def test_without_keys_one_subtask_looks_at_all_events() -> None:
    def job(harness: JobHarness) -> None:
        numbers = harness.add_source("numbers", int)
        rising = Pattern.begin("one").where(col("value") == 1).next("two").where(lambda number: number == 2)
        harness.add_sink("found", CEP.pattern(numbers, rising).select(lambda match: [*match.values()]))

    with JobHarness(job, parallelism=3) as harness:
        harness.push_all("numbers", [1, 2, 1, 3, 2], [1, 2, 3, 4, 5])
        harness.finish()
        assert harness.results("found") == [[[1], [2]]]


def test_the_comparator_orders_events_with_one_timestamp() -> None:
    class DearestFirst(EventComparator[Payment]):
        def compare(self, first: Payment, second: Payment) -> int:
            return int(first[1] < second[1]) - int(first[1] > second[1])

    def job(harness: JobHarness, *, in_processing_time: bool) -> None:
        payments = harness.add_source("payments", PAYMENT).key_by(0)
        any_two = Pattern.begin("one").next("two")
        stream = CEP.pattern(payments, any_two, DearestFirst())
        stream = stream.in_processing_time() if in_processing_time else stream.in_event_time()
        harness.add_sink("found", stream.select(lambda match: (match["one"][0][1], match["two"][0][1])))

    for in_processing_time in (False, True):
        build = lambda harness, told=in_processing_time: job(harness, in_processing_time=told)  # noqa: E731
        with JobHarness(build, processing_time=1_000) as harness:
            harness.push_all("payments", [("ann", 1.0), ("ann", 3.0), ("ann", 2.0)], [7, 7, 7])
            harness.run_epoch()
            assert harness.results("found") == []
            harness.advance_processing_time(1)
            harness.run_epoch()
            harness.finish()
            assert harness.results("found") == [(3.0, 2.0), (2.0, 1.0)]


def test_processing_time() -> None:
    def job(harness: JobHarness) -> None:
        payments = harness.add_source("payments", PAYMENT).key_by(0)
        found = CEP.pattern(payments, SMALL_THEN_LARGE).in_processing_time().process(Told())
        harness.add_sink("found", found)
        harness.add_sink("unpaid", found.get_side_output(UNPAID))

    with JobHarness(job, processing_time=1_000) as harness:
        harness.push_all("payments", [("ann", 0.5), ("bob", 0.1)])
        harness.run_epoch()
        harness.advance_processing_time(2_000)
        harness.push("payments", ("ann", 900.0))
        harness.run_epoch()
        assert harness.results("found") == ["[('ann', 0.5)] [('ann', 900.0)] 3000"]
        harness.advance_processing_time(8_000)
        harness.run_epoch()
        assert harness.results("unpaid") == []  # the timer is one millisecond behind the window, as in Flink
        harness.advance_processing_time(1)
        harness.run_epoch()
        assert harness.results("unpaid") == ["[('bob', 0.1)] 11000"]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_partial_matches_survive_a_restart_at_another_parallelism(parallelism: int) -> None:
    def job(harness: JobHarness) -> None:
        payments = harness.add_source("payments", PAYMENT).key_by(0)
        found = CEP.pattern(payments, SMALL_THEN_LARGE).process(Told())
        harness.add_sink("found", found.uid("pattern"))
        harness.add_sink("unpaid", found.get_side_output(UNPAID))

    names = [f"user {number}" for number in range(20)]
    with JobHarness(job, parallelism=2) as harness:
        harness.push_all("payments", [(name, 0.5) for name in names], [1_000] * 20)
        harness.push("payments", ("eve", 5.0), timestamp=2_000)
        harness.push("payments", ("ann", 0.25), timestamp=5_000)  # waits for the watermark
        harness.run_epoch()
        checkpoint = harness.checkpoint()

    with JobHarness(job, parallelism=parallelism, restore=checkpoint) as harness:
        harness.push_all("payments", [(name, 600.0) for name in names[:10]] + [("ann", 700.0)], [6_000] * 11)
        harness.finish()
        assert len(harness.results("found")) == 11
        assert len(harness.results("unpaid")) == 10


def test_iterative_conditions_see_the_events_that_were_taken() -> None:
    class Dearer(IterativeCondition[Payment]):
        def filter(self, value: Payment, ctx: Any) -> bool:
            return value[1] > sum(one[1] for one in ctx.get_events_for_pattern("first"))

    class IsFirst(SimpleCondition[Payment]):
        def open(self, runtime_context: Any) -> None:
            self.most = 10.0

        def filter(self, value: Payment) -> bool:
            return value[1] < self.most

    pattern: Pattern[Payment] = Pattern.begin("first").where(IsFirst()).times(2).followed_by("dearer").where(Dearer())
    events = [(("ann", price), time) for time, price in enumerate([5.0, 6.0, 10.5, 11.5], 1)]
    found = ran(lambda stream: stream.select(lambda match: [*match.values()]), events, pattern=pattern)["found"]
    assert found == [[[("ann", 5.0), ("ann", 6.0)], [("ann", 11.5)]]]


def test_what_is_refused() -> None:
    class Dearest(EventComparator[Payment]):
        def compare(self, first: Payment, second: Payment) -> int:
            return int(second[1] - first[1])

    env = StreamExecutionEnvironment.get_execution_environment()
    payments = env.from_collection([("ann", 1.0)], PAYMENT)
    stream = CEP.pattern(payments, SMALL_THEN_LARGE)
    with pytest.raises(InvalidTypeError, match="pattern takes a Pattern"):
        CEP.pattern(payments, "small then large")  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="expected a PatternProcessFunction"):
        stream.process(lambda match: match)  # type: ignore[call-overload]
    with pytest.raises(InvalidProgramError, match="select takes a function and an output_type"):
        stream.select()  # type: ignore[call-overload]
    with pytest.raises(InvalidTypeError, match="does not take what compare is called with"):
        CEP.pattern(payments, SMALL_THEN_LARGE, lambda payment: 0)  # type: ignore[arg-type, misc]
    with pytest.raises(InvalidTypeError, match=r"two events, not <.*Dearest'>: make one, Dearest\(...\)"):
        CEP.pattern(payments, SMALL_THEN_LARGE, Dearest)  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match=r"where takes a condition, but col\(\"f1\"\) is of type Double"):
        CEP.pattern(payments, Pattern.begin("a").where(col("f1"))).select(len)
    with pytest.raises(InvalidTypeError, match="no field"):
        CEP.pattern(payments, Pattern.begin("a").where(col("price") > 1)).select(len)


@dataclass
class Order:
    price: float


@dataclass
class Express(Order):
    hours: int


def test_a_class_that_no_event_has_is_refused() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    express: Pattern[Any] = Pattern.begin("a").subtype(Express)
    with pytest.raises(InvalidTypeError, match=r"that of Order itself, and none is a Express: declare Types\.PICKLED"):
        CEP.pattern(env.from_collection([Order(1.0)], Order), express).select(len, int)
    CEP.pattern(env.from_collection([Express(1.0, 2)], Express), express.next("b").subtype(Order)).select(len, int)

    def job(harness: JobHarness) -> None:
        orders = harness.add_source("orders", Types.PICKLED_BYTE_ARRAY())
        harness.add_sink("hours", CEP.pattern(orders, express).select(lambda match: match["a"][0].hours, int))

    with JobHarness(job) as harness:
        harness.push_all("orders", [Order(1.0), Express(2.0, 3)], [1, 2])
        harness.finish()
        assert harness.results("hours") == [3]


def test_functions_of_a_pattern_have_no_state() -> None:
    class Counted(Told):
        def open(self, runtime_context: Any) -> None:
            runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    with pytest.raises(UserFunctionError, match="functions of a pattern have no state"):
        ran(lambda stream: stream.process(Counted()))


def test_failures_name_the_operator_and_the_event() -> None:
    failing: Pattern[Payment] = Pattern.begin("a").where(lambda payment: 1 / (payment[1] - 20.0) > 0)
    with pytest.raises(UserFunctionError, match=r"ZeroDivisionError(.|\n)*record: \('ann', 20.0\)"):
        ran(lambda stream: stream.select(len, int), pattern=failing)

    ported: Pattern[Payment] = Pattern.begin("a").where(lambda event, context: context.getEventsForPattern("a"))
    with pytest.raises(UserFunctionError, match=r"ConditionContext has no .*: did you mean get_events_for_pattern\?"):
        ran(lambda stream: stream.select(len, int), pattern=ported)

    class MainOutput(Told):
        def process_timed_out_match(self, match: Any, ctx: Any) -> Any:
            return ["unpaid"]

    with pytest.raises(UserFunctionError, match="goes to a side output"):
        ran(lambda stream: stream.process(MainOutput()))


def test_partial_matches_are_shown() -> None:
    def job(harness: JobHarness) -> None:
        payments = harness.add_source("payments", PAYMENT).key_by(0)
        pattern: Pattern[Payment] = (
            Pattern.begin("small", AfterMatchSkipStrategy.skip_to_next())
            .where(col("f1") < 1.0)
            .one_or_more()
            .followed_by("large")
            .where(col("f1") > 500.0)
        )
        harness.add_sink("found", CEP.pattern(payments, pattern).select(len, int).uid("pattern"))
        harness.add_sink("users", payments.max(1).uid("largest"))

    with JobHarness(job, parallelism=2) as harness:
        harness.push_all("payments", [("ann", 0.5), ("bob", 0.1), ("ann", 0.25)], [1_000, 2_000, 3_000])
        harness.advance_watermark("payments", 3_000)
        harness.run_epoch()
        held = [(each.key, each.start, each.events, each.waits_for) for each in harness.partial_matches("pattern")]
        assert held[0] == ("ann", 1_000, {"small": [("ann", 0.5), ("ann", 0.25)]}, "small")
        assert ("bob", 2_000, {"small": [("bob", 0.1)]}, "small") in held
        with pytest.raises(InvalidProgramError, match="looks for no pattern"):
            harness.partial_matches("largest")
