"""Patterns of events by headrace.

Options: ``pattern``, its name in :mod:`benchmarks.patterns`; ``functions``, to state conditions as Python functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from benchmarks.outcome import Assignment, Outcome
from benchmarks.patterns import EXPRESSIONS, FUNCTIONS
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, open_environment, read_files, run_job, whole_runs
from headrace.cep import CEP, PatternProcessFunction
from headrace.common import Row, Types
from headrace.common.watermark_strategy import WatermarkStrategy

_RESULT = Types.ROW_NAMED(["millis"], [Types.LONG()])


class _MatchTimes(PatternProcessFunction[Row, Row]):
    """Emits the timestamp of each match."""

    def process_match(self, match: Mapping[str, list[Row]], ctx: PatternProcessFunction.Context) -> Iterator[Row]:
        yield Row(ctx.timestamp())


def run(assignment: Assignment) -> Outcome:
    """Run the job over all input, several times."""
    sink = CountingSink((("sum", "millis", "sum"),))
    found = whole_runs(assignment, lambda times: _run(assignment, sink, times), {})
    return replace(found, totals={name: sink.totals.get(name, 0.0) / len(found.epochs) for name in ("rows", "sum")})


def _run(assignment: Assignment, sink: CountingSink, times: EpochTimes) -> None:
    environment = open_environment(assignment)
    patterns = FUNCTIONS if assignment.options["functions"] else EXPRESSIONS
    rising = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("ts")
    events = read_files(environment, assignment, rising).key_by("key")
    found = CEP.pattern(events, patterns[assignment.options["pattern"]]())
    found.process(_MatchTimes(), _RESULT).uid("matches").sink_to(sink)
    run_job(environment, times)
