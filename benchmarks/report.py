"""Results for people and for programs: a table, a file of JSON, a section of Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from rich.console import Console

    from benchmarks.findings import Finding, Findings, Measured

_HEADER = """# Results

Written by `python -m benchmarks`; the newest run is at the end. How it is measured is in `docs/benchmarks.md`.
"""


def show(findings: Findings, console: Console) -> None:
    """Print everything as tables."""
    table = Table()
    for column in ("benchmark", "case", "measured"):
        table.add_column(column)
    for column in ("figure", "target", "met"):
        table.add_column(column, justify="right")
    for finding in findings.found:
        table.add_row(
            finding.benchmark,
            finding.case,
            "\n".join(_lines(finding)) or finding.note,
            _figure(finding),
            str(finding.target),
            "[green]yes[/]" if finding.is_met else "[red]no[/]",
        )
    console.print(table)
    for finding in findings.found:
        for name, parts in breakdowns(finding).items():
            console.print(f"\n[bold]{finding.case}: where the time of an epoch goes, {name}[/]")
            console.print(_breakdown_table(parts))
    for failure in findings.failures:
        console.print(f"failed: {failure}", style="red", markup=False)


def write_json(path: Path, findings: Findings, machine: Mapping[str, str], options: Mapping[str, Any]) -> None:
    """Write everything to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "machine": dict(machine),
        "options": dict(options),
        "findings": [finding.to_json() for finding in findings.found],
        "failures": findings.failures,
    }
    path.write_text(json.dumps(content, indent=2) + "\n")


def append_section(path: Path, section: str) -> None:
    """Add a section to a file of results, which is made when there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text() if path.exists() else _HEADER
    path.write_text(before.rstrip("\n") + "\n\n" + section)


def markdown(findings: Findings, machine: Mapping[str, str]) -> str:
    """A section with date and versions, the figures, and where the time of small epochs goes."""
    lines = [f"## {machine['date']}", "", on_what(machine), ""]
    rows = [
        (
            finding.benchmark,
            finding.case,
            "<br>".join(_lines(finding)) or finding.note,
            _figure(finding),
            str(finding.target),
            "yes" if finding.is_met else "**no**",
        )
        for finding in findings.found
    ]
    lines += markdown_table(("benchmark", "case", "median of steady epochs", "figure", "target", "met"), rows)
    for finding in findings.found:
        for name, parts in breakdowns(finding).items():
            lines += ["", f"Where the time of an epoch goes ({finding.case}, {name}), milliseconds:", ""]
            lines += markdown_table(
                ("part", "ms"), [(part, f"{seconds * 1000:.1f}") for part, seconds in parts.items()]
            )
    lines += [f"\nFailed: {failure}" for failure in findings.failures]
    return "\n".join(lines) + "\n"


def on_what(machine: Mapping[str, str]) -> str:
    """The machine and the versions in a line."""
    versions = ", ".join(f"{name} {value}" for name, value in machine.items() if name not in ("date", "machine"))
    return f"{machine['machine']}; {versions}."


def breakdowns(finding: Finding) -> dict[str, dict[str, float]]:
    """Where the time of an epoch goes, by contestant, for findings in which that is the question."""
    if finding.benchmark not in ("small-epoch", "latency", "kafka-latency", "log-latency"):
        return {}
    found = {}
    for name, measured in finding.measured.items():
        found[name] = dict(measured.details.get("seconds", {}))
        for prefix, what in (("(part of running) Catalyst: ", "catalyst"), ("(of a record) ", "of a record")):
            found[name] |= {prefix + part: seconds for part, seconds in measured.details.get(what, {}).items()}
    return found


def _lines(finding: Finding) -> Iterator[str]:
    for name, measured in finding.measured.items():
        yield f"{name}: {measured.seconds:.3f} s ({_rate(measured)})"


def _rate(measured: Measured) -> str:
    rate = measured.records_per_second
    return f"{rate / 1000:,.0f} k/s" if rate >= 10_000 else f"{rate:,.0f}/s"


def _figure(finding: Finding) -> str:
    return f"{finding.value:.2f}x" if finding.unit == "x" else f"{finding.value:,.0f} {finding.unit}"


def _breakdown_table(parts: Mapping[str, float]) -> Table:
    table = Table()
    table.add_column("part")
    table.add_column("ms", justify="right")
    for part, seconds in parts.items():
        table.add_row(part, f"{seconds * 1000:.1f}")
    return table


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown."""
    return [_markdown_row(header), _markdown_row(["---"] * len(header)), *map(_markdown_row, rows)]


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
