"""What a window that fires again has to do with what it has shown before."""

from __future__ import annotations

from enum import Enum


class AccumulationMode(Enum):
    """What a window shows when it fires again, for a late record or because its trigger says so; not in Flink.

    The names are those of Beam and of the Dataflow model.

    Examples:
        >>> from headrace.common import Row, Time, Types
        >>> from headrace.datastream.aggregates import count
        >>> from headrace.datastream.window import AccumulationMode, TumblingEventTimeWindows
        >>> from headrace.testing import JobHarness
        >>> def job(harness):
        ...     clicks = harness.add_source("clicks", Types.ROW_NAMED(["page"], [str]))
        ...     minutes = clicks.key_by("page").window(TumblingEventTimeWindows.of(Time.minutes(1)))
        ...     minutes.allowed_lateness(Time.minutes(1))
        ...     minutes.accumulation_mode(AccumulationMode.ACCUMULATING_AND_RETRACTING)
        ...     harness.add_sink("counts", minutes.aggregate(count()))
        >>> with JobHarness(job) as harness:
        ...     harness.push("clicks", Row(page="a"), 1_000)
        ...     harness.advance_watermark("clicks", 60_000)
        ...     harness.push("clicks", Row(page="a"), 2_000)
        ...     harness.finish()
        ...     for row in harness.results("counts"):
        ...         print(row.get_row_kind(), row.window_end, row.count)
        +I 60000 1
        -U 60000 1
        +U 60000 2
    """

    DISCARDING = "discarding"
    """What has come since it fired last."""
    ACCUMULATING = "accumulating"
    """All that it holds: a result takes the place of the one before. This is what Flink does."""
    ACCUMULATING_AND_RETRACTING = "accumulating and retracting"
    """The same, and it takes the former result back: with the kind ``-U``, and the new one has ``+U``."""

    @property
    def retracts(self) -> bool:
        """Whether former results are taken back."""
        return self is AccumulationMode.ACCUMULATING_AND_RETRACTING
