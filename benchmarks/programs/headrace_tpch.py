"""TPC-H by headrace in batch mode on Spark. Options: ``scale``, and that the sizes of epochs are the default ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from benchmarks.outcome import Assignment, Outcome
from benchmarks.programs.headrace_job import configuration_of
from benchmarks.tpch import definitions, timed
from headrace.table import EnvironmentSettings, TableEnvironment


def run(assignment: Assignment) -> Outcome:
    """Run all queries."""
    settings = EnvironmentSettings.new_instance().in_batch_mode().with_configuration(configuration_of(assignment))
    tables = TableEnvironment.create(settings.build())
    for statement in definitions(assignment.input):
        tables.execute_sql(statement)

    runs = count()

    def rows(text: str) -> Sequence[Sequence[object]]:
        # Each run is a job of its own, which goes on from no other one's checkpoints.
        tables.get_config().set("execution.checkpointing.dir", str(assignment.work / "checkpoints" / str(next(runs))))
        found = tables.execute_sql(text).to_arrow()
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    return timed(rows, assignment.options["scale"])
