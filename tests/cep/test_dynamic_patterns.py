"""``CEP.dynamic_patterns``: rules that are added, changed and withdrawn while a job runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from headrace.cep import (
    CEP,
    IterativeCondition,
    Pattern,
    PatternProcessFunction,
    PatternRule,
    TimedOutPartialMatchHandler,
)
from headrace.common import Configuration, Row, Types
from headrace.common.errors import InvalidProgramError, InvalidTypeError, StateMigrationError, UserFunctionError
from headrace.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from headrace.datastream.state import MapStateDescriptor
from headrace.expressions import col
from headrace.testing import JobHarness

Payment = tuple[str, float]
PAYMENT = Types.TUPLE([Types.STRING(), Types.DOUBLE()])
REJECTED, LATE, TIMED_OUT = OutputTag("rejected"), OutputTag("late"), OutputTag("timed-out", str)

SMALL_LARGE = "small followed_by large within 10 s"
CONDITIONS = {"small": "f1 < 1.0", "large": col("f1") > 500.0}
RULE = PatternRule("fraud", SMALL_LARGE, CONDITIONS)


class Told(PatternProcessFunction[Payment, str], TimedOutPartialMatchHandler[Payment]):
    def process_match(self, match: Mapping[str, list[Payment]], ctx: PatternProcessFunction.Context) -> Iterator[str]:
        events = [payment for payments in match.values() for payment in payments]
        yield f"{ctx.rule_id()} {ctx.rule_version()} {events[0][0]} {[amount for _, amount in events]}"

    def process_timed_out_match(
        self, match: Mapping[str, list[Payment]], ctx: PatternProcessFunction.Context
    ) -> Iterator[tuple[OutputTag, str]]:
        yield TIMED_OUT, f"{ctx.rule_id()} {ctx.rule_version()} {[*match]} {ctx.timestamp()}"


def job(rule_type: Any = str, *, is_keyed: bool = True, event_type: Any = PAYMENT) -> Any:
    def build(harness: JobHarness) -> None:
        payments = harness.add_source("payments", event_type)
        rules = harness.add_source("rules", rule_type)
        stream = payments.key_by(0) if is_keyed else payments
        patterns = CEP.dynamic_patterns(stream, rules).side_output_rejected_rules(REJECTED)
        found: DataStream = patterns.side_output_late_data(LATE).process(Told(), str).uid("patterns")
        harness.add_sink("found", found)
        for tag in (REJECTED, LATE, TIMED_OUT):
            harness.add_sink(tag.tag_id, found.get_side_output(tag))

    return build


def ran(rules: list[tuple[Any, int]], events: list[tuple[Payment, int]], **about: Any) -> JobHarness:
    """A harness of a job that has ended."""
    with JobHarness(job(**about)) as harness:
        for rule, time in rules:
            harness.push("rules", rule, timestamp=time)
        for event, time in events:
            harness.push("payments", event, timestamp=time)
        harness.finish()
        return harness


def pay(*amounts: float, card: str = "ann", since: int = 1_000) -> list[tuple[Payment, int]]:
    return [((card, amount), since + 1_000 * number) for number, amount in enumerate(amounts)]


def test_a_rule_holds_from_its_own_time_on_until_that_of_the_next() -> None:
    harness = ran(
        [
            (RULE.to_json(), 2_000),
            (PatternRule("fraud", "large", {"large": "f1 > 800"}).to_json(), 5_000),
            (PatternRule.withdrawn("fraud").to_json(), 7_000),
        ],
        pay(0.5, 0.7, 900.0, 0.6, 700.0, 801.0, 802.0),  # at 1,000 to 7,000
    )
    assert harness.results("found") == ["fraud 1 ann [0.7, 900.0]", "fraud 2 ann [801.0]"]
    assert harness.results("rejected") == []


def test_partial_matches_end_with_their_version_and_those_of_others_stay() -> None:
    rules = [(RULE.to_json(), 0), (PatternRule("other", SMALL_LARGE, CONDITIONS).to_json(), 0)]
    again = (PatternRule("fraud", SMALL_LARGE, CONDITIONS, version=2).to_json(), 1_500)
    harness = ran([*rules, again], [*pay(0.5), *pay(600.0, since=2_000)])
    assert harness.results("found") == ["other 1 ann [0.5, 600.0]"], "a new version begins anew, though it is the same"


def test_a_rule_that_says_what_holds_already_changes_nothing() -> None:
    same = RULE.to_json(), PatternRule("fraud", Pattern.parse(SMALL_LARGE, CONDITIONS), version=1).to_json()
    harness = ran([(RULE.to_json(), 0), (same[0], 1_200), (same[1], 1_500)], pay(0.5, 600.0))
    assert harness.results("found") == ["fraud 1 ann [0.5, 600.0]"]


def test_partial_matches_time_out_until_their_rule_is_withdrawn() -> None:
    withdrawn = PatternRule.withdrawn("fraud").to_json()
    events = [*pay(0.5, card="ann"), *pay(0.5, card="bob", since=3_000)]
    assert ran([(RULE.to_json(), 0), (withdrawn, 12_000)], events).results("timed-out") == ["fraud 1 ['small'] 11000"]
    assert ran([(RULE.to_json(), 0)], events).results("timed-out") == [
        "fraud 1 ['small'] 11000",
        "fraud 1 ['small'] 13000",
    ]


def test_rules_find_what_they_find_event_by_event() -> None:
    rules = [(PatternRule(id_, "any", {"any": "f1 > 0"}).to_json(), 0) for id_ in ("b", "a")]
    assert ran(rules, pay(1.0, 2.0)).results("found") == [
        "a 1 ann [1.0]",
        "b 1 ann [1.0]",
        "a 1 ann [2.0]",
        "b 1 ann [2.0]",
    ]


def test_rules_come_as_text_json_rows_and_objects() -> None:
    stages = [{"name": "small", "calls": [["where", "f1 < 1"]]}, {"op": "followedBy", "name": "large"}]
    with_json = PatternRule("json", {"stages": stages}).to_json()
    functions = Pattern.begin("small").where(lambda payment: payment[1] < 1).next("large")
    anything = Types.PICKLED_BYTE_ARRAY()
    rules = [RULE, with_json, {"id": "dict", "pattern": "a next b"}, PatternRule("lambdas", functions)]
    rules.append(Row(id="row", pattern="a", version=7))
    found = ran([(rule, 0) for rule in rules], pay(0.5, 600.0), rule_type=anything).results("found")
    assert found == [
        "row 7 ann [0.5]",
        "dict 1 ann [0.5, 600.0]",
        "fraud 1 ann [0.5, 600.0]",
        "json 1 ann [0.5, 600.0]",
        "lambdas 1 ann [0.5, 600.0]",
        "row 7 ann [600.0]",
    ]


WRONG = [
    ("{", "a rule is JSON"),
    ("[]", "a rule is an object with id, pattern"),
    ('{"id": "x"}', "needs an id and a pattern"),
    ('{"id": "", "pattern": "a"}', "not empty"),
    ('{"id": "x", "pattern": "a", "verson": 1}', "no field 'verson': did you mean version"),
    ('{"id": "x", "pattern": "a", "version": 0}', "a whole number from 1 on"),
    ('{"id": "x", "pattern": "a followed b"}', "in the pattern: expected next, followed_by"),
    ('{"id": "x", "pattern": "a", "conditions": {"a": "f1 <"}}', "in the expression: invalid syntax: f1 <"),
    ('{"id": "x", "pattern": "a", "conditions": {"a": "f9 < 1"}}', "f9"),
    ('{"id": "x", "pattern": "a", "conditions": {"a": "f1 + 1"}}', "takes a condition"),
    ('{"id": "x", "pattern": "a", "conditions": {"a": "__import__(\'os\')"}}', "there is no function '__import__'"),
    ('{"id": "x", "pattern": {"stages": [{"name": "a", "calls": [["wher", "f1 < 1"]]}]}}', "did you mean where"),
    ('{"id": "x", "pattern": "a next a"}', "Duplicate pattern name"),
    ('{"id": "x", "pattern": null}', "there is no rule 'x' to be withdrawn"),
    ('{"id": "fraud", "pattern": "a", "version": 1}', "version 1 is not above"),
]


def test_a_wrong_rule_goes_to_a_side_output_with_its_reason_and_the_one_before_holds() -> None:
    harness = ran([(RULE.to_json(), 0), *((text, 1_500) for text, _ in WRONG)], pay(0.5, 600.0))
    rejected = harness.results("rejected")
    assert [row[1] for row in rejected] == [text for text, _ in WRONG]
    assert {row[0] for row in rejected} == {"the rules of DynamicCepOperator (uid patterns), from 1500 on"}
    for (_, reason), row in zip(WRONG, rejected, strict=True):
        assert reason in row[2]
        assert "  at " not in row[2], "a rule has no line in the program"
    assert harness.results("found") == ["fraud 1 ann [0.5, 600.0]"]


def test_a_wrong_rule_is_counted_where_there_is_no_side_output(caplog: pytest.LogCaptureFixture) -> None:
    def build(harness: JobHarness) -> None:
        patterns = CEP.dynamic_patterns(harness.add_source("payments", PAYMENT), harness.add_source("rules", str))
        harness.add_sink("found", patterns.process(Told(), str).name("patterns"))

    with JobHarness(build) as harness:
        harness.push("rules", "no rule")
        harness.finish()
        assert harness.metrics()["patterns.numRulesRejected"] == 1
    assert "from the beginning on: no rule was rejected: a rule is JSON" in caplog.text


def test_a_rule_that_comes_late_holds_from_the_watermark_on() -> None:
    with JobHarness(job()) as harness:
        for event, time in pay(0.5, 600.0):
            harness.push("payments", event, timestamp=time)
        for source in ("payments", "rules"):
            harness.advance_watermark(source, 2_000)
        harness.run_epoch()
        harness.push("rules", PatternRule("all", "any", {"any": "f1 > 0"}).to_json(), timestamp=0)
        harness.push("payments", ("ann", 3.0), timestamp=2_001)
        harness.finish()
        assert harness.results("found") == ["all 1 ann [3.0]"]


def test_events_are_late_as_for_one_pattern() -> None:
    with JobHarness(job()) as harness:
        for source in ("payments", "rules"):
            harness.advance_watermark(source, 2_000)
        harness.push("payments", ("ann", 3.0), timestamp=2_000)
        harness.finish()
        assert harness.results("late") == [("ann", 3.0)]


def test_without_keys_one_subtask_looks_at_all_events() -> None:
    harness = ran([(RULE.to_json(), 0)], [*pay(0.5), *pay(600.0, card="bob", since=2_000)], is_keyed=False)
    assert harness.results("found") == ["fraud 1 ann [0.5, 600.0]"]


class Opened(IterativeCondition):
    """Is opened with a rule and closed with it."""

    def open(self, runtime_context: Any) -> None:
        self.least = 3.0

    def filter(self, value: Payment, ctx: Any) -> bool:
        return value[1] >= self.least


def test_conditions_are_opened_when_their_rule_comes() -> None:
    rule = PatternRule("high", Pattern.begin("high").where(Opened()))
    found = ran([(rule, 0)], pay(1.0, 2.0, 3.0, 4.0), rule_type=Types.PICKLED_BYTE_ARRAY()).results("found")
    assert found == ["high 1 ann [3.0]", "high 1 ann [4.0]"]


def test_a_condition_that_fails_names_the_rule() -> None:
    rule = PatternRule("broken", Pattern.begin("a").where(lambda payment: payment[7]))
    with pytest.raises(UserFunctionError, match=r"(?s)rule 'broken', version 1.*tuple index out of range"):
        ran([(rule, 0)], pay(1.0), rule_type=Types.PICKLED_BYTE_ARRAY())


def test_rules_and_partial_matches_survive_a_restart_at_another_parallelism() -> None:
    functions = PatternRule("lambdas", Pattern.begin("s").where(lambda payment: payment[1] < 1).next("any"))
    cards = [f"card {number}" for number in range(20)]
    with JobHarness(job(Types.PICKLED_BYTE_ARRAY()), parallelism=1) as harness:
        for rule in (RULE, functions):
            harness.push("rules", rule, timestamp=0)
        harness.push("rules", PatternRule.withdrawn("lambdas"), timestamp=3_000)  # waits
        for card in cards:
            harness.push("payments", (card, 0.5), timestamp=1_000)
        for source in ("payments", "rules"):
            harness.advance_watermark(source, 1_500)
        harness.run_epoch()
        held = harness.partial_matches("patterns")
        assert {(match.rule, match.waits_for) for match in held} == {("fraud", "large"), ("lambdas", "any")}
        assert len(held) == 40
        checkpoint = harness.checkpoint()
    with JobHarness(job(Types.PICKLED_BYTE_ARRAY()), restore=checkpoint, parallelism=3) as harness:
        for card in cards:
            harness.push("payments", (card, 600.0), timestamp=2_000)
            harness.push("payments", (card, 0.1), timestamp=4_000)
        harness.finish()
        assert sorted(harness.results("found")) == sorted(
            f"{rule} 1 {card} [0.5, 600.0]" for card in cards for rule in ("fraud", "lambdas")
        )


def begun() -> Any:
    """A rule with a partial match."""
    with JobHarness(job()) as harness:
        harness.push("rules", RULE.to_json(), timestamp=0)
        harness.push("payments", ("ann", 0.5), timestamp=1_000)
        for source in ("payments", "rules"):
            harness.advance_watermark(source, 1_500)
        harness.run_epoch()
        return harness.checkpoint()


def test_a_rule_that_does_not_fit_the_events_of_a_changed_program_is_rejected() -> None:
    named = Types.ROW_NAMED(["card", "f1"], [str, float])
    with (
        pytest.raises(StateMigrationError, match="partial matches of a pattern"),
        JobHarness(job(event_type=named), restore=begun()) as harness,
    ):
        harness.run_epoch()
    with JobHarness(job(), restore=begun()) as harness:
        harness.push("payments", ("ann", 600.0), timestamp=2_000)
        harness.finish()
        assert harness.results("found") == ["fraud 1 ann [0.5, 600.0]"]


def test_nothing_is_left_of_rules_that_are_withdrawn() -> None:
    with JobHarness(job()) as harness:
        for number in range(30):
            harness.push(
                "rules",
                PatternRule(f"r{number % 3}", SMALL_LARGE, CONDITIONS, version=number + 1).to_json(),
                timestamp=number * 10,
            )
            harness.push("payments", (f"card {number}", 0.5), timestamp=number * 10 + 5)
            for source in ("payments", "rules"):
                harness.advance_watermark(source, number * 10 + 5)
            harness.run_epoch()
        assert len(harness.partial_matches("patterns")) == 3 + 2 + 1
        for number in range(3):
            harness.push("rules", PatternRule.withdrawn(f"r{number}").to_json(), timestamp=400)
        for source in ("payments", "rules"):
            harness.advance_watermark(source, 400)
        harness.run_epoch()
        assert harness.partial_matches("patterns") == []


def test_what_cannot_be_rules_is_refused() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers, texts = env.from_collection([1]), env.from_collection(["x"], Types.STRING())
    with pytest.raises(InvalidTypeError, match=r"CEP.dynamic_patterns\(stream, rules\)"):
        CEP.pattern(numbers, texts)  # type: ignore[arg-type]
    rules = texts.broadcast(MapStateDescriptor("rules", Types.STRING(), Types.STRING()))
    with pytest.raises(InvalidTypeError, match="leave broadcast"):
        CEP.dynamic_patterns(numbers, rules)  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="or of texts that are JSON of one, not one of Long"):
        CEP.dynamic_patterns(numbers, numbers)
    with pytest.raises(InvalidProgramError, match="leave out the comparator"):
        CEP.dynamic_patterns(numbers, texts, lambda one, other: one - other).in_processing_time()
    with pytest.raises(InvalidProgramError, match="there are no rules"):
        CEP.pattern(numbers, Pattern.begin("a")).side_output_rejected_rules(REJECTED)
    with pytest.raises(InvalidProgramError, match="dynamic_patterns wants event time"):
        CEP.dynamic_patterns(numbers, env.socket_text_stream("localhost", 9999)).process(Told(), str)


def test_in_processing_time_a_rule_holds_from_its_epoch_on() -> None:
    def build(harness: JobHarness) -> None:
        payments = harness.add_source("payments", PAYMENT).key_by(0)
        patterns = CEP.dynamic_patterns(payments, harness.add_source("rules", str)).in_processing_time()
        found = patterns.side_output_rejected_rules(REJECTED).process(Told(), str).uid("patterns")
        harness.add_sink("found", found)
        for tag in (REJECTED, TIMED_OUT):
            harness.add_sink(tag.tag_id, found.get_side_output(tag))

    with JobHarness(build, processing_time=1_000, parallelism=2) as harness:
        harness.push("payments", ("ann", 900.0))
        harness.push_all("payments", [("ann", 0.5), ("bob", 0.5)])
        harness.run_epoch()
        harness.advance_processing_time(1_000)
        harness.push("payments", ("ann", 0.25))
        harness.push_all("rules", [RULE.to_json(), "no rule"])
        harness.run_epoch()
        assert [held.events for held in harness.partial_matches("patterns")] == [{"small": [("ann", 0.25)]}]
        checkpoint = harness.checkpoint()
    with JobHarness(build, restore=checkpoint, processing_time=3_000) as harness:
        harness.push_all("payments", [("ann", 600.0), ("bob", 0.75), ("ann", 0.5)])
        harness.run_epoch()
        assert harness.results("found") == ["fraud 1 ann [0.25, 600.0]"]
        harness.advance_processing_time(10_001)
        harness.run_epoch()
        assert sorted(harness.results("timed-out")) == ["fraud 1 ['small'] 13000"] * 2
        harness.push("rules", PatternRule.withdrawn("fraud").to_json())
        harness.push("payments", ("ann", 0.5))
        harness.run_epoch()
        assert harness.partial_matches("patterns") == []


def test_the_context_of_one_pattern_knows_no_rule() -> None:
    def build(harness: JobHarness) -> None:
        payments = harness.add_source("payments", PAYMENT)
        harness.add_sink("found", CEP.pattern(payments, Pattern.begin("a")).process(Told(), str))

    with JobHarness(build) as harness:
        harness.push("payments", ("ann", 1.0), timestamp=1)
        with pytest.raises(UserFunctionError, match=r"rule_id\(\) is for CEP.dynamic_patterns"):
            harness.finish()


def test_rules_of_a_collection_hold_from_the_beginning() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"headrace.runtime": "local"}))
    payments = env.from_collection([("ann", 0.5), ("ann", 600.0)], PAYMENT)
    timed = payments.assign_timestamps_and_watermarks(_by_amount())
    rules = env.from_collection([RULE, PatternRule("all", Pattern.begin("any"))])
    found = CEP.dynamic_patterns(timed.key_by(0), rules).process(Told(), str)
    assert found.execute_and_collect(limit=10) == [
        "all 1 ann [0.5]",
        "all 1 ann [600.0]",
        "fraud 1 ann [0.5, 600.0]",
    ]


def _by_amount() -> Any:
    from headrace.common import WatermarkStrategy

    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda payment, _: int(payment[1] * 10)
    )
