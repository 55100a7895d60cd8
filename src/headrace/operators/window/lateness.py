"""Finds records that are late for windows of event time, and drops them or sends them to a side output."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK, NO_TIMESTAMP
from headrace.common.errors import InvalidProgramError
from headrace.metrics.registry import LATE_DROPPED
from headrace.operators.base import Operator, OperatorContext
from headrace.operators.user_code import record_text
from headrace.windowing.intervals import Assignment

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def check_timestamps(
    batch: Batch,
    context: OperatorContext,
    reach: int,
    met: str = "an event-time window",
    beyond: str = "the windows of a record begin or end at a time",
) -> None:
    """Refuse records that cannot be put into windows, or be joined.

    Args:
        batch: the records.
        context: the operator.
        reach: how far from a timestamp its windows may lie: beyond 64 bits there are none. (In Flink they begin anew at
            the other end of time, so that the record is late for them, or never shown.)
        met: what needs a timestamp, as errors call it.
        beyond: what has no 64 bits then, as errors begin.

    Raises:
        InvalidProgramError: when a record has no timestamp, or one whose windows do not fit; it names the operator and
            the record.
    """
    if not len(batch):
        return
    first, last = batch.timestamps.min(), batch.timestamps.max()
    if first > NO_TIMESTAMP + reach and last <= MAX_WATERMARK - reach:
        return
    row = int(np.argmax(batch.timestamps) if first > NO_TIMESTAMP + reach else np.argmin(batch.timestamps))
    if first == NO_TIMESTAMP:
        said = f"a record without timestamp met {met}: {_ASSIGNER}"
    else:
        time = batch.timestamps[row]
        said = f"{beyond} that has no 64 bits: its timestamp is {time}"
    raise InvalidProgramError(
        f"operator {context.name!r} (uid {context.uid}, subtask {context.subtask}): {said}\n"
        f"  record: {record_text(batch.slice(row, row + 1).rows[0])}\n"
        f"  operator defined at {context.call_site}"
    )


_ASSIGNER: Final = (
    'the WatermarkStrategy before it needs a timestamp assigner, such as .with_timestamp_assigner("time"). A strategy '
    "is given to from_source(...), or to assign_timestamps_and_watermarks(...) before key_by. What an on_timer() emits "
    "for a timer of processing time has no timestamp either, as in Flink: use timers of event time there, or "
    "assign_timestamps_and_watermarks(...) behind that function. In a test, JobHarness.push(...) takes a timestamp"
)


def cleanup_times(ends: Longs, lateness: int) -> Longs:
    """The watermark at which the contents of a window go: its largest timestamp and the lateness; never above the last.

    A window is late for a record from this watermark on.
    """
    last = ends - 1
    if not lateness:
        return last
    return np.where(last > MAX_WATERMARK - lateness, MAX_WATERMARK, last + lateness)


def passed_end(watermark: int) -> int:
    """The end of the last window whose largest timestamp the watermark has passed: it and all before fire, or have."""
    return min(watermark + 1, MAX_WATERMARK)


def cleaned_end(watermark: int, lateness: int) -> int:
    """The end of the last window whose contents are not needed any more; see :func:`cleanup_times`."""
    return MAX_WATERMARK if watermark == MAX_WATERMARK else watermark + 1 - lateness


def is_too_late(timestamps: Longs, watermarks: Longs, lateness: int) -> Mask:
    """Return whether a record that no window took is late by itself (one between two windows need not be)."""
    return cleanup_times(timestamps + 1, lateness) <= watermarks


@dataclass(eq=False, slots=True)
class LateRecords:
    """The output of records that are too late for every window.

    Attributes:
        operator: whose output and counters are used.
        lateness: the allowed lateness in milliseconds.
        tag: the id of the side output; None drops and counts.
    """

    operator: Operator
    lateness: int
    tag: str | None

    def refuse(self, batch: Batch, taken: Assignment) -> None:
        """Sends away the records without any window among ``taken``, unless they are merely between two windows."""
        if taken.is_identity:
            return
        is_left = np.ones(len(batch), np.bool_)
        is_left[taken.records] = False
        if not is_left.any():
            return
        self.send_away(batch, is_left & is_too_late(batch.timestamps, batch.watermarks, self.lateness))

    def send_away(self, batch: Batch, is_refused: Mask) -> None:
        """Drop the late records of a batch, or send them to the side output."""
        if self.tag is None:
            self.drop(int(np.count_nonzero(is_refused)))
        elif is_refused.any():
            self.operator.output.emit_side(self.tag, batch.filter(is_refused))

    def drop(self, records: int) -> None:
        """Counts records that are dropped."""
        self.operator.count(LATE_DROPPED, records)
