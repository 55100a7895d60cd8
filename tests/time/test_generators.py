"""Watermark generators of users: what they may emit and keep, and how misuse is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.checkpoint.manifest import (
    Manifest,
    OperatorProgress,
    OperatorSnapshot,
    PartitionSnapshot,
    SourceSnapshot,
    SplitSnapshot,
    StageSnapshot,
)
from headrace.common import WatermarkGenerator, WatermarkOutput, WatermarkStrategy
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import HeadraceError, InvalidProgramError, InvalidTypeError
from headrace.testing import JobHarness


class Newest(WatermarkGenerator):
    """Emits what a record is, whatever that is, and keeps ``kept``."""

    def __init__(self, kept: Any = None) -> None:
        self.kept = kept

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(event)


def test_a_watermark_never_goes_back() -> None:
    output = WatermarkOutput()
    assert output.watermark == MIN_WATERMARK
    for emitted, reached in ((5, 5), (3, 5), (np.int64(7), 7), (MIN_WATERMARK, 7), (MAX_WATERMARK, MAX_WATERMARK)):
        output.emit_watermark(emitted)
        assert output.watermark == reached
        assert type(output.watermark) is int


@pytest.mark.parametrize("wrong", [None, 1.5, "5", 2**63])
def test_what_is_no_watermark_is_told_with_its_record(wrong: Any) -> None:
    with pytest.raises(InvalidTypeError, match="a watermark is an int"):
        WatermarkOutput().emit_watermark(wrong)
    strategy = WatermarkStrategy.for_generator(Newest)
    with JobHarness(lambda job: job.add_sink("out", job.add_source("in", Any, watermarks=strategy))) as job:
        job.push("in", 1)
        job.push("in", wrong)
        with pytest.raises(HeadraceError, match=r"'in Watermarks'(.|\n)*milliseconds since 1970(.|\n)*record: "):
            job.run_epoch()


def test_what_cannot_be_stored_is_told() -> None:
    strategy = WatermarkStrategy.for_generator(lambda: Newest(kept={1, 2}))
    with JobHarness(lambda job: job.add_sink("out", job.add_source("in", int, watermarks=strategy))) as job:
        job.push("in", 1)
        with pytest.raises(HeadraceError, match=r"state of Newest cannot be stored.*override snapshot_state"):
            job.run_epoch()


def test_what_makes_something_else_is_told() -> None:
    wrong: Any = object
    strategy = WatermarkStrategy.for_generator(wrong)
    with JobHarness(lambda job: job.add_sink("out", job.add_source("in", int, watermarks=strategy))) as job:
        job.push("in", 1)
        with pytest.raises(HeadraceError, match="given what makes a WatermarkGenerator"):
            job.run_epoch()


@pytest.mark.parametrize("wrong", [Newest(), None, 5])
def test_a_generator_itself_is_refused_since_splits_would_share_it(wrong: Any) -> None:
    with pytest.raises(InvalidProgramError, match="each split has one of its own"):
        WatermarkStrategy.for_generator(wrong)


def test_each_split_has_its_own() -> None:
    strategy = WatermarkStrategy.for_generator(Newest)
    with JobHarness(lambda job: job.add_sink("out", job.add_source("in", int, watermarks=strategy, splits=2))) as job:
        job.push_all("in", [10, 20], split=0)
        job.run_epoch()
        assert job.watermark("in") == MIN_WATERMARK
        job.push("in", 7, split=1)
        job.run_epoch()
        assert job.watermark("in") == 7


def test_manifests_keep_the_memory_of_generators() -> None:
    split = SplitSnapshot("a", 0, 1, {"times": 5}, generators={"times": {"newest": 7}})
    progress = {"with": OperatorProgress(1, 2, [3]), "without": OperatorProgress(4, 5)}
    stage = StageSnapshot({"with": OperatorSnapshot(1, 128)}, (PartitionSnapshot(None, progress),))
    known = Manifest(1, 1, "id", "job", 128, 0, {"in": SourceSnapshot(None, (split,))}, (StageSnapshot(), stage))
    read = Manifest.from_bytes(known.to_bytes(), "1")
    assert read.sources == known.sources
    assert read.stages == known.stages


class Seconds(WatermarkGenerator):
    """Emits every second timestamp; fields under ``fields``."""

    def __init__(self, **fields: Any) -> None:
        self.seen = 0
        vars(self).update(fields)

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        self.seen += 1
        if self.seen % 2 == 0:
            output.emit_watermark(event)


def test_a_job_goes_on_with_the_memory_of_its_generators_and_without_when_they_are_gone() -> None:
    def of(strategy: WatermarkStrategy) -> Any:
        return lambda job: job.add_sink("out", job.add_source("in", int, watermarks=strategy))

    with JobHarness(of(WatermarkStrategy.for_generator(Seconds))) as job:
        job.push("in", 10)
        checkpoint = job.checkpoint()
    with JobHarness(of(WatermarkStrategy.for_generator(Seconds)), restore=checkpoint) as job:
        job.push("in", 20)
        job.run_epoch()
        assert job.watermark("in") == 20
        checkpoint = job.checkpoint()
    columnar = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    with JobHarness(of(columnar), restore=checkpoint) as job:
        job.push("in", 31)
        job.run_epoch()
        assert job.watermark("in") == 30
        checkpoint = job.checkpoint()
    with JobHarness(of(WatermarkStrategy.for_generator(lambda: Seconds(seen=1))), restore=checkpoint) as job:
        job.push("in", 40)
        job.run_epoch()
        assert job.watermark("in") == 40, "it begins afresh"
