"""A program that no longer has an operator, a source or a sink: refused, unless the user wants to leave it behind."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.checkpoint.manifest import Manifest, PendingCommit
from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.errors import StateMigrationError
from headrace.common.typeinfo import Types
from headrace.datastream.functions import KeyedProcessFunction, RuntimeContext
from headrace.datastream.state import ValueStateDescriptor
from headrace.testing import JobHarness
from headrace.testing.stored_state import Checkpoint

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
FILES_ONLY = {"execution.checkpointing.data-inline-threshold": "0"}
IGNORE = {options.IGNORE_UNCLAIMED_STATE.key: "true"}


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield value[0], self.count.value()


def whole(job: JobHarness) -> None:
    """Two sources; behind the first one, two counts in a stage and a third one behind them."""
    without(job, "")


def without(job: JobHarness, gone: str) -> None:
    numbers = job.add_source("in", PAIR)
    job.add_sink("first", numbers.key_by("f0").process(Count(), PAIR).uid("count-1"))
    if gone != "count-2":
        second = numbers.key_by("f0").process(Count(), PAIR).uid("count-2")
        job.add_sink("second", second)
        if gone != "count-3":
            job.add_sink("third", second.key_by("f1").process(Count(), PAIR).uid("count-3"))
    if gone != "source":
        job.add_sink("rest", job.add_source("others", PAIR).map(lambda pair: pair, PAIR))


def checkpoint(parallelism: int = 2) -> Checkpoint:
    with JobHarness(whole, parallelism=parallelism, configuration=FILES_ONLY) as job:
        push(job)
        job.push("others", ("x", 1))
        return job.checkpoint()


def push(job: JobHarness) -> None:
    job.push_all("in", [(f"key {number}", number) for number in range(50)])


def go_on(gone: str, held: Checkpoint, parallelism: int = 2, **settings: str) -> JobHarness:
    return JobHarness(
        lambda job: without(job, gone), parallelism=parallelism, restore=held, configuration={**FILES_ONLY, **settings}
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("gone", "what"),
    [
        ("count-2", "state of operators with uid count-2, count-3"),
        ("count-3", "state of operators with uid count-3"),
        ("source", "the position of sources with uid others"),
    ],
)
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_it_is_refused_unless_it_may_be_left_behind(
    gone: str, what: str, parallelism: int, caplog: pytest.LogCaptureFixture
) -> None:
    held = checkpoint()
    refused = go_on(gone, held, parallelism)
    with pytest.raises(StateMigrationError, match=f"{what}, which no operator .*--allow-non-restored-state"):
        refused.run_epoch()
    refused.close()
    with (
        caplog.at_level(logging.WARNING, "headrace.jobmanager.recovery"),
        go_on(gone, held, parallelism, **IGNORE) as job,
    ):
        push(job)
        job.run_epoch()
        assert sorted(job.take("first")) == sorted((f"key {number}", 2) for number in range(50))
        assert [record.getMessage() for record in caplog.records if record.name == "headrace.jobmanager.recovery"] == [
            f"{options.IGNORE_UNCLAIMED_STATE.key} is set, so the job leaves behind {what}"
        ]
        later = job.checkpoint()
    with go_on(gone, later, parallelism) as job:  # without the option: nothing is left that nobody takes
        push(job)
        job.run_epoch()
        assert sorted(job.take("first")) == sorted((f"key {number}", 3) for number in range(50))


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_state_files_that_nobody_takes_are_deleted(parallelism: int) -> None:
    held = checkpoint()
    before = {path.name for path in (held.directory / "state").iterdir()}
    with go_on("count-3", held, parallelism, **IGNORE) as job:
        push(job)
        later = job.checkpoint()
    present = {path.name for path in (later.directory / "state").iterdir()}
    of_stage_2 = {name for name in before if name.split("-")[2] == "2"}
    assert of_stage_2
    assert not present & of_stage_2
    assert present == set(manifest_of(later)[1].state_files())


def test_an_operator_that_comes_back_starts_afresh() -> None:
    held = checkpoint()
    with go_on("count-2", held, **IGNORE) as job:
        push(job)
        held = job.checkpoint()
    with go_on("", held) as job:
        push(job)
        job.run_epoch()
        assert {count for _, count in job.take("first")} == {3}
        assert {count for _, count in job.take("second")} == {1}


def test_output_of_a_sink_that_is_gone_is_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    held = checkpoint()
    path, manifest = manifest_of(held)
    pending = tuple(PendingCommit(epoch, "old-sink", 0, ("file",)) for epoch in (1, 2))
    path.write_bytes(replace(manifest, pending=pending).to_bytes())
    what = "what the sink with uid old-sink has yet to publish of epochs 1, 2"
    with pytest.raises(StateMigrationError, match=what):
        go_on("", held).run_epoch()
    with go_on("", held, **IGNORE) as job:
        push(job)
        job.run_epoch()
        assert {count for _, count in job.take("first")} == {2}
        assert f"so the job leaves behind {what}" in caplog.text
        assert manifest_of(job.checkpoint())[1].pending == ()


def test_the_older_key_will_do() -> None:
    settings = Configuration.from_dict({"execution.savepoint.ignore-unclaimed-state": "true"})
    settings.validate()
    assert settings.get(options.IGNORE_UNCLAIMED_STATE)
    settings.set(options.IGNORE_UNCLAIMED_STATE, value=False)
    assert not settings.get(options.IGNORE_UNCLAIMED_STATE), "the newer key wins"
    assert not Configuration().get(options.IGNORE_UNCLAIMED_STATE)


def manifest_of(held: Checkpoint) -> tuple[Path, Manifest]:
    path = max((held.directory / "manifests").glob("*.json"))
    return path, Manifest.from_bytes(path.read_bytes(), str(path))
