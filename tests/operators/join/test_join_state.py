"""What joins keep in the files of a checkpoint: what can still match, and little else."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from headrace.common import Row, Types
from headrace.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from headrace.expressions import left, right
from headrace.testing import JobHarness

RECORD = Types.ROW_NAMED(["id", "text"], [Types.LONG(), Types.STRING()])
TEXT = "x" * 60
RAW = 2 * 8 + 8 + 4 + len(TEXT)
"""Bytes of a record in columns: key and time, the number, and the text with its length."""

STEP, EACH, EPOCHS, KEPT = 150, 40, 40, 3_000


def near(how: str) -> Callable[[Any, Any], Any]:
    return lambda a, b: a.key_by("id").interval_join(b.key_by("id"), how).between(-KEPT, KEPT)


def in_windows(assigner: Any) -> Callable[[Any, Any], Any]:
    return lambda a, b: a.join(b).where("id").equal_to("id").window(assigner)


def end_of_interval(time: int) -> int:
    return time + KEPT


def end_of_window(time: int) -> int:
    return time - time % KEPT + KEPT - 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("join", "end", "copies", "limit"),
    [
        pytest.param(near("inner"), end_of_interval, 1, 2.0, id="interval", marks=pytest.mark.slow),
        # Of a record without a partner it is noted besides when it is over: time, hash and key.
        pytest.param(near("outer"), end_of_interval, 1, 3.0, id="interval, outer, nobody has a partner"),
        pytest.param(
            in_windows(TumblingEventTimeWindows.of(KEPT)), end_of_window, 1, 2.0, id="windows", marks=pytest.mark.slow
        ),
        # A record is kept for each window that it is in.
        pytest.param(in_windows(SlidingEventTimeWindows.of(KEPT, KEPT // 2)), end_of_interval, 2, 2.0, id="sliding"),
    ],
)
def test_what_can_match_no_more_is_gone(
    join: Callable[[Any, Any], Any], end: Callable[[int], int], copies: int, limit: float
) -> None:
    """All files of the checkpoint, its manifests and what older runs keep there included."""

    def build(job: JobHarness) -> None:
        streams = [job.add_source(name, RECORD) for name in ("left", "right")]
        job.add_sink("out", join(*streams).select(left("id").alias("l"), right("id").alias("r")))

    chance, times, checked = random.Random(1), list[int](), 0
    with JobHarness(build) as job:
        for epoch in range(EPOCHS):
            for name in ("left", "right"):
                for _ in range(EACH):
                    times.append(epoch * STEP + chance.randrange(STEP))
                    job.push(name, Row(id=chance.randrange(10**9), text=TEXT), times[-1])
                job.advance_watermark(name, (epoch + 1) * STEP)
            job.run_epoch()
            alive = sum(end(time) > (epoch + 1) * STEP for time in times)
            if alive > 16 * EACH and epoch % 3 == 0:
                checked += 1
                assert bytes_of_state(job) <= limit * copies * RAW * alive
    assert checked > 5


def bytes_of_state(job: JobHarness) -> int:
    checkpoint = job.checkpoint()
    files = [path for path in checkpoint.directory.rglob("*") if path.is_file()]
    assert any(file.parent.name == "state" for file in files)
    return sum(file.stat().st_size for file in files)
