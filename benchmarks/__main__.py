"""``python -m benchmarks``: runs the benchmarks, or one long endurance run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from benchmarks import endurance, report
from benchmarks.findings import Findings
from benchmarks.lab import Lab
from benchmarks.launch import ProgramFailedError
from benchmarks.machine import description
from benchmarks.suite import BENCHMARKS
from benchmarks.suite.base import EVENTS, Benchmark, Scale
from benchmarks.truth import WrongResultError

_HERE = Path(__file__).resolve().parent
_WORK = _HERE / "work"
_QUICK_EVENTS = 40_000
_WIDTH = 160
"""Of tables that go into a file."""


def main() -> int:
    """The exit code: 1 when a contestant failed or computed something wrong; missed targets are no error."""
    arguments = parse_arguments()
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    if arguments.command == "endurance":
        return endure(arguments, console)
    scale = Scale(arguments.events or (_QUICK_EVENTS if arguments.quick else EVENTS), arguments.quick)
    chosen = [each for each in BENCHMARKS if arguments.only is None or each.name in arguments.only]
    findings = Findings()
    try:
        run_all(chosen, scale, Lab(_WORK, console), findings, console)
    finally:  # what is there when somebody loses patience is worth keeping, too
        if findings.found or findings.failures:
            report.show(findings, console)
            write(findings, arguments)
    return 1 if findings.failures else 0


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    names = [benchmark.name for benchmark in BENCHMARKS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="headrace beside Spark's own streaming")
    parser.add_argument("--only", action="append", choices=names, help="run this one; may be repeated")
    parser.add_argument("--events", type=int, help=f"records of the large inputs ({EVENTS:,} when left out)")
    parser.add_argument("--out", type=Path, help="folder for latest.json and RESULTS.md, instead of benchmarks/")
    parser.add_argument("--quick", action="store_true", help="only try that everything works; the figures mean nothing")
    commands = parser.add_subparsers(dest="command", metavar="endurance")
    long_run = commands.add_parser("endurance", help="very many small epochs in one driver")
    long_run.add_argument("--epochs", type=int, default=20_000, help="how many")
    long_run.add_argument("--samples", type=int, default=20, help="how often memory and disk are looked at")
    return parser.parse_args()


def run_all(chosen: list[Benchmark], scale: Scale, lab: Lab, findings: Findings, console: Console) -> None:
    """Run benchmarks; one that fails does not keep the others from running."""
    for benchmark in chosen:
        console.print(f"[bold]{benchmark.title}[/]")
        try:
            for finding in benchmark.run(lab, scale):
                findings.found.append(finding)
                verdict = "[green]met[/]" if finding.is_met else "[red]not met[/]"
                value = f"{finding.value:.2f}" if finding.unit == "x" else f"{finding.value:,.0f} {finding.unit}"
                console.print(f"  {finding.case}: {value} {finding.note} (target {finding.target}: {verdict})")
        except (ProgramFailedError, WrongResultError) as error:
            findings.failures.append(f"{benchmark.name}: {error}")
            console.print(f"  failed: {error}", style="red", markup=False)


def endure(arguments: argparse.Namespace, console: Console) -> int:
    """The endurance run; the exit code."""
    try:
        samples = endurance.run(arguments.epochs, arguments.samples, _WORK)
    except (ProgramFailedError, WrongResultError) as error:
        console.print(f"failed: {error}", style="red", markup=False)
        return 1
    endurance.show(samples, console)
    machine = description()
    out = arguments.out or _HERE
    report.append_section(out / "RESULTS.md", endurance.markdown(samples, machine))
    return 0


def write(findings: Findings, arguments: argparse.Namespace) -> None:
    """Write the files of results; a quick try leaves none among the real ones."""
    machine = description()
    options = {"events": arguments.events, "only": arguments.only, "quick": arguments.quick}
    out = arguments.out or (_WORK / "quick" if arguments.quick else None)
    report.write_json((out or _HERE / "results") / "latest.json", findings, machine, options)
    report.append_section((out or _HERE) / "RESULTS.md", report.markdown(findings, machine))


if __name__ == "__main__":
    sys.exit(main())
