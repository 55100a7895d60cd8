"""The endurance run: very many small epochs in one driver, and what they leave behind in memory and on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from benchmarks.launch import launch
from benchmarks.outcome import Assignment
from benchmarks.report import markdown_table, on_what
from benchmarks.truth import check

if TYPE_CHECKING:
    from rich.console import Console

RECORDS = 200
_SECONDS_PER_EPOCH = 5

Sample = Mapping[str, float]


def run(epochs: int, samples: int, folder: Path) -> Sequence[Sample]:
    """Run the job and look at it now and then.

    Args:
        epochs: how many epochs it has.
        samples: how often to look.
        folder: for what the program writes.

    Raises:
        ProgramFailedError: when it does not come to its end.
        WrongResultError: when the windows do not hold every record once.
    """
    options = {"epochs": epochs, "samples": samples}
    assignment = Assignment(folder, RECORDS, folder.absolute() / "endurance", options)
    outcome, _ = launch("headrace_endurance", assignment, timeout=600 + epochs * _SECONDS_PER_EPOCH)
    check("headrace", outcome.totals, {"count": epochs * RECORDS})
    found: Sequence[Sample] = outcome.details["samples"]
    return found


def show(samples: Sequence[Sample], console: Console) -> None:
    """Print what was seen as a table."""
    shown = Table()
    for name in samples[0]:
        shown.add_column(name, justify="right")
    for sample in samples:
        shown.add_row(*_cells(sample))
    console.print(f"[bold]{_title(samples)}[/]")
    console.print(shown)


def markdown(samples: Sequence[Sample], machine: Mapping[str, str]) -> str:
    """A section for the file of results."""
    lines = [f"## {machine['date']}: endurance", "", on_what(machine), "", f"{_title(samples)}.", ""]
    lines += markdown_table(list(samples[0]), [_cells(sample) for sample in samples])
    return "\n".join(lines) + "\n"


def _title(samples: Sequence[Sample]) -> str:
    return f"{samples[-1]['epochs']:,} epochs of {RECORDS} records in one driver; the heap after a collection"


def _cells(sample: Sample) -> list[str]:
    return [f"{value:,.0f}" for value in sample.values()]
