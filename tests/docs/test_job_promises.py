"""What the list of features promises of jobs and no test elsewhere shows; each job runs on the local runtime."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from headrace.common import Configuration, JobStatus, Types, WatermarkStrategy
from headrace.common.errors import (
    InvalidProgramError,
    StateMigrationError,
)
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream import (
    KeyedProcessFunction,
    RuntimeContext,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from headrace.datastream.state import ValueStateDescriptor
from headrace.testing import JobHarness
from tests.waiting import PATIENCE

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
TEXT = Types.STRING()


@pytest.fixture
def local() -> StreamExecutionEnvironment:
    configuration = Configuration().set_string("headrace.runtime", "local")
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)


@pytest.mark.parametrize(
    ("mode", "sums"),
    [
        (RuntimeExecutionMode.STREAMING, [1, 3, 6]),
        (RuntimeExecutionMode.BATCH, [6]),
        (RuntimeExecutionMode.AUTOMATIC, [6]),
    ],
)
def test_runtime_mode(local: StreamExecutionEnvironment, mode: RuntimeExecutionMode, sums: list[int]) -> None:
    local.set_runtime_mode(mode)
    stream = local.from_sequence(1, 3).key_by(lambda number: 0, Types.INT()).sum()
    assert list(stream.execute_and_collect()) == sums


def test_the_client_of_a_job_that_ends(local: StreamExecutionEnvironment) -> None:
    local.from_sequence(1, 3).map(lambda number: number, Types.LONG()).name("same").print()
    client = local.execute_async("numbers")
    result = client.get_job_execution_result().result(timeout=PATIENCE)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert client.get_job_id() == result.get_job_id()
    counters = client.get_accumulators().result()
    assert counters == result.get_all_accumulator_results()
    assert (counters["numRecordsRead"], counters["same.numRecordsIn"]) == (3, 3)


@pytest.mark.parametrize(("way", "status"), [("cancel", JobStatus.CANCELED), ("stop", JobStatus.SUSPENDED)])
def test_the_client_of_a_job_that_would_not_end(local: StreamExecutionEnvironment, way: str, status: JobStatus) -> None:
    source = DataGeneratorSource(lambda number: number, None, RateLimiterStrategy.per_second(50), Types.LONG())
    local.from_source(source, WatermarkStrategy.no_watermarks(), "endless").filter(lambda number: False).print()
    client = local.execute_async()
    client.get_job_id()  # waits until the job has looked into its directory
    assert client.get_job_status().result() in (JobStatus.CREATED, JobStatus.RUNNING)
    getattr(client, way)().result(timeout=PATIENCE)
    assert client.get_job_status().result() is status


class Counts(KeyedProcessFunction):
    """How many records there were for the key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        self.count.update((self.count.value() or 0) + 1)
        yield f"{value[0]}{self.count.value()}"


def counting(*uids: str, max_parallelism: int = 128) -> Any:
    """A job that counts once for each uid."""

    def build(job: JobHarness) -> None:
        job.env.set_max_parallelism(max_parallelism)
        keyed = job.add_source("in", PAIR).key_by(0)
        for uid in uids:
            job.add_sink(f"{uid}-out", keyed.process(Counts(), TEXT).uid(uid))

    return build


def feed(build: Any, records: Iterable[str], **settings: Any) -> tuple[dict[str, list[str]], Any]:
    """One epoch of a counting job, and a checkpoint of it."""
    with JobHarness(build, **settings) as job:
        job.push_all("in", [(key, 0) for key in records])
        checkpoint = job.checkpoint()
        return {name: sorted(job.take(name)) for name in job._sinks}, checkpoint


def test_state_is_found_by_uid_in_a_program_that_has_changed() -> None:
    _, checkpoint = feed(counting("counter"), "aab")
    found, _ = feed(counting("new", "counter"), "ab", restore=checkpoint, parallelism=3)
    assert found == {"new-out": ["a1", "b1"], "counter-out": ["a3", "b2"]}


def test_state_that_nobody_takes_is_an_error() -> None:
    _, checkpoint = feed(counting("counter"), "aab")
    with pytest.raises(StateMigrationError, match="uid counter, which no operator of the program"):
        feed(counting("other"), "a", restore=checkpoint)


def test_max_parallelism_is_fixed() -> None:
    _, checkpoint = feed(counting("counter"), "aab")
    with pytest.raises(StateMigrationError, match="128 key groups, the program asks for 64"):
        feed(counting("counter", max_parallelism=64), "a", restore=checkpoint)


def counting_apart(job: JobHarness) -> None:
    """One counter with the job's key groups, one with six of its own."""
    keyed = job.add_source("in", PAIR).key_by(0)
    for uid in ("many", "few"):
        counted = keyed.process(Counts(), TEXT).uid(uid)
        job.add_sink(f"{uid}-out", counted if uid == "many" else counted.set_max_parallelism(6))


def test_an_operator_may_have_key_groups_of_its_own() -> None:
    keys = [f"{number:02}" for number in range(40)]
    restore = None
    for seen, parallelism in enumerate((4, 1, 6, 5), start=1):
        found, restore = feed(counting_apart, keys, parallelism=parallelism, restore=restore)
        expected = [f"{key}{seen}" for key in keys]
        assert found == {"many-out": expected, "few-out": expected}, f"at parallelism {parallelism}"


def test_the_key_groups_of_an_operator_are_fixed() -> None:
    def other(job: JobHarness) -> None:
        job.add_sink("out", job.add_source("in", PAIR).key_by(0).process(Counts(), TEXT).uid("few"))
        job.add_sink("rest", job.add_source("more", PAIR).key_by(0).process(Counts(), TEXT).uid("many"))

    _, checkpoint = feed(counting_apart, "aab")
    with pytest.raises(StateMigrationError, match=r"uid few\): its state has 6 key groups, the program asks for 128"):
        feed(other, "a", restore=checkpoint)


def test_an_operator_has_no_more_subtasks_than_key_groups() -> None:
    with pytest.raises(
        InvalidProgramError, match="has parallelism 7; it must lie between 1 and the max parallelism, 6"
    ):
        JobHarness(counting_apart, parallelism=7)


def test_two_operators_with_one_uid_are_refused() -> None:
    def build(job: JobHarness) -> None:
        job.add_sink("out", job.add_source("in", PAIR).map(str, TEXT).uid("one").map(str, TEXT).uid("one"))

    with pytest.raises(InvalidProgramError, match="two operators have the uid 'one'"):
        JobHarness(build)
