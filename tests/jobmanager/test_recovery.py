"""What tasks start from: the same plan, another parallelism, another program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.checkpoint.manifest import (
    Manifest,
    OperatorProgress,
    OperatorSnapshot,
    PartitionSnapshot,
    SourceSnapshot,
    SplitSnapshot,
    StageSnapshot,
)
from headrace.common.errors import StateMigrationError
from headrace.common.typeinfo import Types
from headrace.connectors.driver_sink import CollectSink
from headrace.datastream import StreamExecutionEnvironment
from headrace.jobmanager.recovery import check_compatible, contexts_after_epoch, partition_contexts
from headrace.plan.job_plan import JobPlan, PlanSettings
from headrace.plan.planner import plan_job
from headrace.state.keys.hashing import range_of_partition
from headrace.state.protocols import KEYED, StateKind
from headrace.state.state_file import VersionRef

MAX = 12


def plan(
    first: int, second: int, *, keyed_uid: str = "first", source_uid: str = "source", first_groups: int = MAX
) -> JobPlan:
    """A source, and two keyed operators in one stage."""
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.LONG()])).uid(source_uid)
    for uid, parallelism in ((keyed_uid, first), ("second", second)):
        summed = stream.key_by("f0").sum("f1").uid(uid).set_parallelism(parallelism)
        summed.set_max_parallelism(first_groups if uid == keyed_uid else MAX)
        summed.sink_to(CollectSink(list)).uid(f"{uid}-sink")
    return plan_job(env.transformations.next_job(), PlanSettings("job", 1, MAX))


def with_key_groups(job: JobPlan, number: int) -> JobPlan:
    return replace(job, settings=replace(job.settings, max_parallelism=number))


def manifest(first: int, second: int, *, first_groups: int = MAX, **changes: Any) -> Manifest:
    """What a job like that has written: in each partition as far as its number says."""
    partitions = []
    for number in range(max(first, second)):
        progress = {
            uid: OperatorProgress(100 + number, 50 + number)
            for uid, parallelism in (("first", first), ("second", second))
            if number < parallelism
        }
        version = VersionRef(1, number, 1, name=f"state-{number}", files=(f"state-{number}",))
        partitions.append(PartitionSnapshot(version, progress))
    operators = {
        "first": OperatorSnapshot(first, first_groups, KEYED),
        "second": OperatorSnapshot(second, MAX, KEYED),
    }
    stage = StageSnapshot(operators, tuple(partitions))
    source = SourceSnapshot(None, (SplitSnapshot("0", 0, 5),))
    return replace(Manifest(1, 0, "id", "job", MAX, 0, {"source": source}, (StageSnapshot(), stage)), **changes)


@pytest.mark.parametrize("held", [SourceSnapshot(None, (), ("0",)), SourceSnapshot({"log": "a"})])
def test_a_source_must_not_be_lost_when_its_splits_have_ended(held: SourceSnapshot) -> None:
    with pytest.raises(StateMigrationError, match="position of sources with uid gone"):
        check_compatible(manifest(2, 2, sources={"gone": held}), plan(2, 2))
    check_compatible(manifest(2, 2, sources={"gone": SourceSnapshot(None)}), plan(2, 2))


def test_the_same_parallelism_reads_its_own_state() -> None:
    contexts = partition_contexts(manifest(3, 3), plan(3, 3))
    for number in range(3):
        context = contexts[1, number]
        assert [ref.name for ref in context.versions] == [f"state-{number}"]
        assert set(context.progress.values()) == {OperatorProgress(100 + number, 50 + number)}


@given(st.integers(1, 6), st.integers(1, 6))
def test_behind_an_epoch_tasks_go_on_from_what_they_have_written(first: int, second: int) -> None:
    written = manifest(first, second)
    assert contexts_after_epoch(written, {}) == partition_contexts(written, plan(first, second))


@given(*(st.integers(1, 6) for _ in range(4)), st.integers(6, 20))
def test_every_key_group_is_read_by_the_task_that_owns_it(
    first: int, second: int, new_first: int, new_second: int, first_groups: int
) -> None:
    job = plan(new_first, new_second, first_groups=first_groups)
    held = manifest(first, second, first_groups=first_groups)
    check_compatible(held, job)
    contexts = partition_contexts(held, job)
    assert len(contexts) == max(new_first, new_second)
    for uid, old, new, groups in (("first", first, new_first, first_groups), ("second", second, new_second, MAX)):
        for number in range(new):
            mine = set(range_of_partition(number, new, groups))
            sources = [n for n in range(old) if mine & set(range_of_partition(n, old, groups))]
            context = contexts[1, number]
            assert {f"state-{n}" for n in sources} <= {ref.name for ref in context.versions}
            assert context.reached(uid).watermark == 100 + min(sources), "the slowest one counts"


@pytest.mark.parametrize(
    ("kind", "before", "now", "at_a_start"),
    [
        (StateKind.LIST, 3, 3, [[0], [1], [2]]),
        (StateKind.LIST, 3, 2, [[0, 1, 2], [0, 1, 2]]),
        (StateKind.UNION, 2, 2, [[0, 1], [0, 1]]),
        (StateKind.BROADCAST, 3, 3, [[0], [1], [2]]),
        (StateKind.BROADCAST, 2, 5, [[0], [1], [0], [1], [0]]),
        (StateKind.BROADCAST, 3, 1, [[0]]),
    ],
)
def test_a_task_is_told_of_no_more_state_without_keys_than_it_may_get(
    kind: StateKind, before: int, now: int, at_a_start: list[list[int]]
) -> None:
    held, job = manifest(before, 1), plan(now, 1)
    stage = replace(held.stages[1], operators={"first": OperatorSnapshot(before, MAX, frozenset({kind}))})
    held = replace(held, stages=(StageSnapshot(), stage))
    contexts = partition_contexts(held, job, is_start=True)
    for number in range(now):
        assert [ref.partition for ref in contexts[1, number].versions] == at_a_start[number]
        assert contexts[1, number].dealt == {"first": before}
    later = partition_contexts(manifest(now, 1), job)
    assert [[ref.partition for ref in later[1, number].versions] for number in range(now)] == [[n] for n in range(now)]
    assert {len(later[1, number].dealt) for number in range(now)} == {0}


def test_a_fresh_job_starts_from_nothing() -> None:
    fresh = replace(manifest(1, 1), stages=(), sources={})
    assert {context.versions for context in partition_contexts(fresh, plan(2, 2)).values()} == {()}


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (plan(1, 1, keyed_uid="renamed"), "state of operators with uid first,"),
        (plan(1, 1, source_uid="renamed"), "position of sources with uid source,"),
        (with_key_groups(plan(1, 1), 64), "12 key groups, the program asks for 64"),
    ],
)
def test_programs_that_do_not_fit(job: JobPlan, message: str) -> None:
    with pytest.raises(StateMigrationError, match=message):
        check_compatible(manifest(1, 1), job)


def test_key_groups_that_have_changed_do_not_fit() -> None:
    with pytest.raises(StateMigrationError, match=r"uid first\): its state has 7 key groups, the program asks for 9"):
        check_compatible(manifest(1, 1, first_groups=7), plan(1, 1, first_groups=9))


def test_key_groups_may_change_while_there_is_no_state() -> None:
    held = manifest(6, 1, first_groups=6)
    partitions = tuple(replace(partition, version=None) for partition in held.stages[1].partitions)
    held = replace(held, stages=(StageSnapshot(), replace(held.stages[1], partitions=partitions)))
    job = plan(3, 1, first_groups=3)
    check_compatible(held, job)
    contexts = partition_contexts(held, job)
    assert [contexts[1, number].reached("first").watermark for number in range(3)] == [100, 102, 104]


def test_operators_without_state_may_come_and_go() -> None:
    stage = manifest(1, 1).stages[1]
    operators = {**stage.operators, "old sink": OperatorSnapshot(1, MAX)}
    check_compatible(manifest(1, 1, stages=(StageSnapshot(), replace(stage, operators=operators))), plan(2, 3))


def test_keyed_state_must_not_be_lost_when_its_operator_has_none_any_more() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.LONG()])).uid("source")
    for uid in ("first", "second"):
        stream.key_by("f0").map(lambda pair: pair).uid(uid).sink_to(CollectSink(list)).uid(f"{uid}-sink")
    job = plan_job(env.transformations.next_job(), PlanSettings("job", 1, MAX))
    with pytest.raises(StateMigrationError, match="keyed state of operators with uid first, second, which no operator"):
        check_compatible(manifest(1, 1), job)
