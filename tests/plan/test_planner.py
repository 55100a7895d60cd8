"""From graphs to stages."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.common import Row
from headrace.common.errors import InvalidProgramError
from headrace.common.typeinfo import Types
from headrace.connectors.driver_sink import CollectSink
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.aggregates import count, first
from headrace.datastream.streams.data_stream import DataStream
from headrace.expressions import col
from headrace.graph.partitioning import FORWARD, HASH, REBALANCE
from headrace.plan.job_plan import JobPlan, PlannedEdge, PlanSettings, has_to_be_read_whole
from headrace.plan.planner import plan_job
from headrace.time.watermark_strategy import WatermarkStrategy
from headrace.windowing.assigners import TumblingEventTimeWindows
from headrace.windowing.session_assigners import ProcessingTimeSessionWindows

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


def pairs(env: StreamExecutionEnvironment, name: str = "pairs") -> DataStream:
    return env.from_collection([("a", 1)], PAIR).name(name)


def timed_pairs(env: StreamExecutionEnvironment) -> DataStream:
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("f1")
    return pairs(env).assign_timestamps_and_watermarks(times).name("times")


def end(stream: DataStream, name: str) -> None:
    stream.sink_to(CollectSink(list)).name(name)


def plan(env: StreamExecutionEnvironment, **settings: Any) -> JobPlan:
    settings = {"name": "job", "parallelism": 3, "max_parallelism": 128, **settings}
    return plan_job(env.transformations.next_job(), PlanSettings(**settings))


def names(job: JobPlan) -> list[list[str]]:
    return [[operator.node.name for operator in stage.operators] for stage in job.stages]


def edge(job: JobPlan, source: str, target: str) -> PlannedEdge:
    by_name = {operator.node.name: operator for operator in job.operators()}
    ids = by_name[source].node.id, by_name[target].node.id
    return next(edge for edge in by_name[source].outputs if (edge.source, edge.target) == ids)


def test_what_needs_no_shuffle_is_chained(env: StreamExecutionEnvironment) -> None:
    end(pairs(env).map(lambda pair: pair, PAIR).name("map").filter(bool).name("filter"), "sink")
    job = plan(env)
    assert names(job) == [["pairs", "map", "filter", "sink"]]
    assert not any(edge.is_exchange for operator in job.operators() for edge in operator.outputs)


def test_a_stage_for_each_shuffle_of_the_deepest_path(env: StreamExecutionEnvironment) -> None:
    stream = pairs(env)
    once = stream.key_by("f0").sum("f1").name("once")
    twice = once.key_by("f1").sum("f1").name("twice")
    for name, depth in (("flat", stream), ("one", once), ("two", twice)):
        end(depth, name)
    end(stream.union(twice), "union")
    job = plan(env)
    assert names(job) == [["pairs", "flat"], ["once", "one"], ["twice", "two", "union"]]
    skips = edge(job, "pairs", "union")
    assert (skips.is_exchange, skips.partitioning, skips.target_stage) == (True, FORWARD, 2)
    assert edge(job, "once", "twice").partitioning == HASH
    assert not edge(job, "twice", "two").is_exchange


def test_unions_behind_a_shuffle_are_merged_by_another_one(env: StreamExecutionEnvironment) -> None:
    """Unless event time does not matter behind them, or all records set out together."""
    stream = pairs(env)
    keyed = stream.key_by("f0")
    one, two = keyed.sum("f1").name("one"), keyed.max("f1").name("two")
    end(one.union(two), "sink")
    end(one.union(two, stream).map(lambda pair: pair, PAIR).name("map"), "mapped")
    process = one.union(two).process(Splitter(), PAIR).name("process")
    end(process, "processed")
    together = process.filter(bool).name("filter").union(process).map(lambda pair: pair, PAIR).name("together")
    end(together.key_by("f0").sum("f1").name("sum"), "summed")
    job = plan(env)
    assert names(job) == [
        ["pairs"],
        ["one", "two", "sink", "map", "mapped"],
        ["process", "processed", "filter", "together"],
        ["sum", "summed"],
    ]
    assert edge(job, "one", "process").partitioning == FORWARD
    assert names(plan(env, is_batch=True))[1] == [
        *["one", "two", "sink", "map", "mapped", "process", "processed", "filter", "together"]
    ]


def test_sub_graphs_that_have_nothing_in_common_share_stages(env: StreamExecutionEnvironment) -> None:
    end(pairs(env, "left").key_by("f0").sum("f1").name("left sum"), "left sink")
    end(pairs(env, "right"), "right sink")
    assert names(plan(env)) == [["left", "right", "right sink"], ["left sum", "left sink"]]


def test_parallelism(env: StreamExecutionEnvironment) -> None:
    stream = pairs(env).set_parallelism(2)
    summed = stream.key_by("f0").sum("f1").name("sum")
    end(summed, "sink")
    narrow = summed.map(lambda pair: pair, PAIR).name("narrow").set_parallelism(1)
    end(narrow.key_by("f0").max("f1").name("max").set_parallelism(5), "max sink")
    job = plan(env)
    parallelism = {operator.node.name: operator.parallelism for operator in job.operators()}
    assert parallelism == {"pairs": 2, "sum": 3, "sink": 3, "narrow": 1, "max": 5, "max sink": 5}
    assert edge(job, "sum", "narrow").partitioning == REBALANCE
    assert [stage.parallelism for stage in job.stages] == [2, 3, 1, 5]


@pytest.mark.parametrize(("parallelism", "inline"), [(1, 20_480), (12, 20_480), (64, 4_096), (512, 512)])
def test_states_inside_a_manifest_have_a_bound_together(
    env: StreamExecutionEnvironment, parallelism: int, inline: int
) -> None:
    end(pairs(env).key_by(lambda pair: pair[0]).sum(1), "sums")
    settings = {"parallelism": parallelism, "max_parallelism": 512}
    assert plan(env, **settings).inline_bytes == inline
    assert plan(env, **settings, inline_threshold=100).inline_bytes == 100


def test_a_union_of_different_parallelism_is_as_wide_as_the_widest(env: StreamExecutionEnvironment) -> None:
    union = pairs(env, "one").set_parallelism(1).union(pairs(env, "four").set_parallelism(4))
    end(union.map(lambda pair: pair, PAIR).name("map"), "sink")
    job = plan(env)
    assert names(job) == [["one", "four", "map", "sink"]]
    assert {operator.parallelism for operator in job.operators() if operator.node.inputs} == {4}


def test_side_outputs_have_edges_of_their_own(env: StreamExecutionEnvironment) -> None:
    from headrace.common.output_tag import OutputTag

    tag = OutputTag("other", Types.STRING())
    split = pairs(env).process(Splitter(), PAIR).name("split")
    end(split, "main")
    end(split.get_side_output(tag), "side")
    job = plan(env)
    assert edge(job, "split", "main").side_output is None
    assert edge(job, "split", "side").side_output == "other"
    assert edge(job, "split", "side").record_type == Types.STRING()


class Splitter:
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


def test_windows_are_summed_up_before_the_shuffle_where_that_changes_nothing(env: StreamExecutionEnvironment) -> None:
    windows = timed_pairs(env).key_by("f0").window(TumblingEventTimeWindows.of(10))
    end(windows.aggregate(count()).name("count"), "sink")
    assert names(plan(env))[0] == ["pairs", "times", "Local count"]

    for changed in (windows.allowed_lateness(1).aggregate(count()), windows.aggregate(first("f1"))):
        env.transformations.discard()
        end(changed, "sink")
        assert names(plan(env))[0] == ["pairs", "times"]


@pytest.mark.parametrize(
    ("changelog", "is_keyed", "whole"), [(False, False, False), (True, False, True), (True, True, False)]
)
def test_one_task_reads_a_split_whose_changes_no_shuffle_brings_into_order(
    env: StreamExecutionEnvironment, changelog: bool, is_keyed: bool, whole: bool
) -> None:
    kind = Types.ROW_NAMED(["id", "n"], [Types.STRING(), Types.LONG()], changelog=changelog)
    rows = env.from_collection([Row("a", 1)], kind).name("rows").filter(col("n") > 0)
    end(rows.key_by("id").aggregate(count()) if is_keyed else rows, "end")
    job = plan(env)
    source = next(operator for operator in job.operators() if operator.node.name == "rows")
    assert has_to_be_read_whole(job, source) is whole


def test_uids(env: StreamExecutionEnvironment) -> None:
    stream = pairs(env).uid("source")
    end(stream.key_by("f0").sum("f1").name("a"), "sink a")
    end(stream.key_by("f0").sum("f1").name("b"), "sink b")
    job, again = plan(env), plan(env)
    uids = [operator.uid for operator in job.operators()]
    assert len(set(uids)) == len(uids)
    assert uids == [operator.uid for operator in again.operators()]
    explicit = {operator.node.name for operator in job.operators() if operator.has_explicit_uid}
    assert explicit == {"pairs"}


def test_derived_uids_do_not_depend_on_what_stands_elsewhere(env: StreamExecutionEnvironment) -> None:
    end(pairs(env).key_by("f0").sum("f1").name("sum"), "sink")
    before = {operator.node.name: operator.uid for operator in plan(env).operators()}
    end(pairs(env, "more").map(lambda pair: pair, PAIR), "another sink")
    after = {operator.node.name: operator.uid for operator in plan(env).operators()}
    assert before.items() <= after.items()


def test_a_uid_that_is_given_twice(env: StreamExecutionEnvironment) -> None:
    end(pairs(env).uid("same").key_by("f0").sum("f1").uid("same"), "sink")
    with pytest.raises(InvalidProgramError, match=r"two operators have the uid 'same'.*test_planner\.py"):
        plan(env)


@pytest.mark.parametrize(
    ("settings", "message"), [({"max_parallelism": 0}, "max parallelism"), ({"max_parallelism": 2}, "lie between")]
)
def test_parallelism_that_does_not_fit(env: StreamExecutionEnvironment, settings: Any, message: str) -> None:
    end(pairs(env).key_by("f0").sum("f1").set_parallelism(3), "sink")
    with pytest.raises(InvalidProgramError, match=message):
        plan(env, **settings)


def test_a_job_without_a_sink(env: StreamExecutionEnvironment) -> None:
    pairs(env).map(lambda pair: pair, PAIR)
    with pytest.raises(InvalidProgramError, match="no sink"):
        plan(env)


def test_windows_of_processing_time_are_refused_in_batch_mode(env: StreamExecutionEnvironment) -> None:
    windows = pairs(env).key_by("f0").window(ProcessingTimeSessionWindows.with_gap(10))
    end(windows.reduce(lambda a, b: (a[0], a[1] + b[1])).name("sessions"), "sink")
    plan(env)
    with pytest.raises(
        InvalidProgramError, match=r"'sessions': ProcessingTimeSessionWindows.* ends windows by the clock"
    ):
        plan(env, is_batch=True)
