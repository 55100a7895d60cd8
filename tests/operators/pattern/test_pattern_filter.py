"""Events that are left out before the shuffle, and make no difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cep import CEP, AfterMatchSkipStrategy, Pattern, PatternProcessFunction, WithinType
from headrace.cep.compiler import compile_pattern
from headrace.common import Duration, Row, Types
from headrace.common.errors import UserFunctionError
from headrace.datastream import OutputTag
from headrace.expressions import col
from headrace.graph.pattern_specs import PatternFilterSpec, PatternSpec
from headrace.operators.pattern.pattern_filter import can_be_filtered
from headrace.testing import JobHarness

EVENT = Types.ROW_NAMED(["key", "kind", "n"], [Types.INT(), Types.STRING(), Types.INT()])
FOUND = Types.TUPLE([Types.INT(), Types.STRING()])
TEN = Duration.of_millis(10)


def is_(kind: str) -> Any:
    return col("kind") == kind


A, B, C = is_("a"), is_("b"), is_("c")
BEGUN: Pattern[Row] = Pattern.begin("a")
ONCE: Pattern[Row] = Pattern.begin("a", AfterMatchSkipStrategy.skip_past_last_event())

FILTERED: dict[str, Pattern[Row]] = {
    "relaxed": BEGUN.where(A).followed_by("b").where(B).within(TEN),
    "any": BEGUN.where(A).followed_by_any("b").where(B).followed_by("c").where(C),
    "times": BEGUN.where(A).times(2).followed_by("b").where(B & (col("n") > 1)),
    "not": BEGUN.where(A).not_followed_by("b").where(B).followed_by("c").where(C).within(TEN),
    "negated": BEGUN.where(A).followed_by("b").where(~B),
}
UNFILTERED: dict[str, Pattern[Row]] = {
    "optional": BEGUN.where(A).followed_by("b").where(B).optional().followed_by("c").where(C).within(TEN),
    "loop": BEGUN.where(A).one_or_more().followed_by("b").where(B).within(TEN),
    "strict": BEGUN.where(A).next("b").where(B),
    "function": BEGUN.where(lambda event: event.kind == "a").followed_by("b").where(B),
    "iterative": BEGUN.where(A).followed_by("b").where(lambda event, context: event.n > context.events("a")[0].n),
    "absent": BEGUN.where(A).not_followed_by("b").where(B).within(TEN),
    "skips": ONCE.where(A).followed_by("b").where(B).within(TEN),
    "gap": BEGUN.where(A).followed_by("b").where(B).within(TEN, WithinType.PREVIOUS_AND_CURRENT),
}


class Matches(PatternProcessFunction[Row, tuple[int, str]]):
    def process_match(
        self, match: Mapping[str, list[Row]], ctx: PatternProcessFunction.Context
    ) -> Iterator[tuple[int, str]]:
        yield ctx.timestamp() or 0, str({stage: [event.n for event in events] for stage, events in match.items()})


def found(pattern: Pattern[Row], events: list[tuple[int, str | None, int]], epochs: int) -> list[Any]:
    def job(harness: JobHarness) -> None:
        stream = harness.add_source("events", EVENT).key_by("key")
        harness.add_sink("found", CEP.pattern(stream, pattern).process(Matches(), FOUND))

    with JobHarness(job, parallelism=2) as harness:
        for number, event in enumerate(events):
            harness.push("events", event, number * 3)
            if epochs and number % epochs == 0:
                harness.run_epoch()
        harness.finish()
        return sorted(harness.results("found"))


EVENTS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["a", "b", "c", "x", "y", None]), st.integers(0, 3)), max_size=25
)


@given(name=st.sampled_from(sorted(FILTERED)), events=EVENTS, epochs=st.integers(0, 5))
def test_matches_are_the_same(name: str, events: list[tuple[int, str | None, int]], epochs: int) -> None:
    pattern = FILTERED[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PatternSpec, "can_be_filtered", False)
        expected = found(pattern, events, epochs)
    assert found(pattern, events, epochs) == expected


@pytest.mark.parametrize("name", FILTERED)
def test_patterns_whose_events_are_filtered(name: str) -> None:
    assert can_be_filtered(compile_pattern(FILTERED[name]))


@pytest.mark.parametrize("name", UNFILTERED)
def test_patterns_for_which_every_event_matters(name: str) -> None:
    assert not can_be_filtered(compile_pattern(UNFILTERED[name]))


def test_late_events_are_all_kept_where_they_are_wanted() -> None:
    specs: list[type] = []

    def job(harness: JobHarness) -> None:
        stream = harness.add_source("events", EVENT).key_by("key")
        matches = CEP.pattern(stream, FILTERED["relaxed"]).side_output_late_data(OutputTag("late"))
        harness.add_sink("found", matches.process(Matches(), FOUND))

    with JobHarness(job) as harness:
        harness.run_epoch()
        specs += [type(operator.node.spec) for operator in harness._manager.plan.operators()]
    assert PatternFilterSpec not in specs


def test_a_condition_that_fails_still_fails_where_something_depends_on_it() -> None:
    pattern = BEGUN.where(10 // col("n") > 5).followed_by("b").where(B)
    assert can_be_filtered(compile_pattern(pattern))
    with pytest.raises(UserFunctionError, match="zero"):
        found(pattern, [(1, "a", 1), (1, "b", 0)], 0)


def count_of_kept(events: int, share: float) -> int:
    """The number of events that reach the pattern, when a share of them matters."""
    harness_counters: dict[str, int] = {}

    def job(harness: JobHarness) -> None:
        stream = harness.add_source("events", EVENT).key_by("key")
        matches = CEP.pattern(stream, FILTERED["relaxed"])
        harness.add_sink("found", matches.process(Matches(), FOUND).uid("pattern"))

    with JobHarness(job) as harness:
        rows = [(0, "a" if number < events * share else "x", number) for number in range(events)]
        harness.push_all("events", rows, range(events))
        harness.finish()
        manifest = harness._manager.manifest
        assert manifest is not None
        harness_counters = {name: sum(values) for name, values in manifest.operator_counters["pattern"].items()}
    return harness_counters["numRecordsIn"]


@pytest.mark.parametrize(("share", "kept"), [(0.1, 10), (1.0, 100)])
def test_few_events_are_left(share: float, kept: int) -> None:
    assert count_of_kept(100, share) == kept
