"""A job with a pattern, for both runtimes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.cep import (
    CEP,
    AfterMatchSkipStrategy,
    Pattern,
    PatternProcessFunction,
    PatternRule,
    TimedOutPartialMatchHandler,
)
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import Types
from headrace.datastream import StreamExecutionEnvironment
from headrace.expressions import col
from tests.differential.events import EVENT, Event, Streams, events

NUMBERS = Types.TUPLE([Types.STRING(), Types.LIST(Types.LONG())])
OF_RULES = Types.TUPLE([Types.STRING(), Types.LIST(Types.LONG())])
LATE = OutputTag("late", EVENT)
REJECTED = OutputTag("rejected")
TIMED_OUT = OutputTag("timed-out", NUMBERS)


class Told(PatternProcessFunction[Event, Any], TimedOutPartialMatchHandler[Event]):
    def process_match(self, match: Mapping[str, list[Event]], ctx: PatternProcessFunction.Context) -> Iterator[Any]:
        yield self.numbers(match)

    def process_timed_out_match(
        self, match: Mapping[str, list[Event]], ctx: PatternProcessFunction.Context
    ) -> Iterator[tuple[OutputTag, Any]]:
        yield TIMED_OUT, self.numbers(match)

    def numbers(self, match: Mapping[str, list[Event]]) -> tuple[str, list[int]]:
        taken = [event for events_of_stage in match.values() for event in events_of_stage]
        return taken[0][0], [event[1] for event in taken]


class ToldOfRules(PatternProcessFunction[Event, Any]):
    def process_match(self, match: Mapping[str, list[Event]], ctx: PatternProcessFunction.Context) -> Iterator[Any]:
        taken = [event for events_of_stage in match.values() for event in events_of_stage]
        yield f"{ctx.rule_id()} {ctx.rule_version()}", [event[1] for event in taken]


RULES = [
    PatternRule("fall", "high next low within 2 s", {"high": "f3 > 25.0", "low": "f3 < 10.0"}),
    PatternRule("wrong", "high", {"high": "f99 > 25.0"}),
    PatternRule("low", "low{2} consecutive", {"low": "f3 < 10.0"}),
]


def dearer(event: Event, context: Any) -> bool:
    return bool(event[3] > sum(one[3] for one in context.events("small")))


def patterns(env: StreamExecutionEnvironment) -> Streams:
    """Expressions, functions and iterative conditions; late events and timeouts as side outputs."""
    pattern: Pattern[Event] = (
        Pattern.begin("small", AfterMatchSkipStrategy.skip_past_last_event())
        .where(col("f3") < 30.0)
        .times(1, 3)
        .followed_by("dearer")
        .where(lambda event: event[3] > 25.0)
        .where(dearer)
        .within(2_500)
    )
    stream = CEP.pattern(events(env).key_by("f0"), pattern).side_output_late_data(LATE)
    matches = stream.process(Told(), NUMBERS).uid("pattern")
    of_rules = CEP.dynamic_patterns(
        events(env).key_by("f0"), env.from_collection([*map(PatternRule.to_json, RULES)], str)
    )
    found = of_rules.side_output_rejected_rules(REJECTED).process(ToldOfRules(), OF_RULES).uid("rules")
    return {
        "matches": matches,
        "late": matches.get_side_output(LATE),
        "timed out": matches.get_side_output(TIMED_OUT),
        "of rules": found,
        "rejected": found.get_side_output(REJECTED),
    }
