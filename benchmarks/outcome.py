"""What a program is told and what it gives back; both cross a process boundary as JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a program is told.

    Attributes:
        input: the folder with the Parquet files to read, in the order of their names.
        records_per_epoch: how many records an epoch is to have; None where that is the program's own affair.
        work: an empty folder of its own, for checkpoints and temporary files.
        options: what else this program wants to know.
    """

    input: Path
    records_per_epoch: int | None
    work: Path
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """For the program's process."""
        return json.dumps(asdict(self), default=str)

    @staticmethod
    def from_json(text: str) -> Assignment:
        """In the program's process."""
        content = json.loads(text)
        return Assignment(
            Path(content["input"]), content["records_per_epoch"], Path(content["work"]), content["options"]
        )


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch of headrace, or one micro-batch of Structured Streaming.

    Attributes:
        records: how many records it read.
        seconds: how long it took.
    """

    records: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a program has to say after its run.

    Attributes:
        epochs: every epoch, in order.
        totals: sums over the results, which tell whether the right thing was computed.
        details: where the time went, and whatever else is worth a look.
    """

    epochs: tuple[Epoch, ...]
    totals: Mapping[str, float]
    details: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """For the benchmark's process."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Outcome:
        """In the benchmark's process."""
        content = json.loads(text)
        return Outcome(tuple(Epoch(**epoch) for epoch in content["epochs"]), content["totals"], content["details"])


def steady_seconds(epochs: Sequence[Epoch], records: int | None, warm_up: int = 1, after: int = 0) -> list[float]:
    """The times of the epochs that count.

    Args:
        epochs: all epochs of a run.
        records: how many records a full epoch has; smaller ones (headrace lets epochs grow, and the input ends) do not
            tell about the steady state. None where epochs of any size count.
        warm_up: how many epochs at the beginning do not count.
        after: only epochs count that begin when so many records have been read.
    """
    begins = accumulate((epoch.records for epoch in epochs), initial=0)
    return [
        epoch.seconds
        for number, (epoch, begin) in enumerate(zip(epochs, begins, strict=False))
        if number >= warm_up and begin >= after and (records is None or epoch.records == records)
    ]


def median(values: Sequence[float]) -> float:
    """The median; not a number when there is nothing."""
    return statistics.median(values) if values else float("nan")


def medians(samples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of every quantity that occurs in the samples; one that a sample lacks counts as zero there."""
    names = dict.fromkeys(name for sample in samples for name in sample)
    return {name: median([sample.get(name, 0.0) for sample in samples]) for name in names}
