"""TPC-H by headrace in batch mode on Spark. Options: ``scale``, and that the sizes of epochs are the default ones."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.outcome import Assignment, Outcome
from benchmarks.programs.headrace_job import configuration_of
from benchmarks.tpch import definitions, timed
from headrace.table import EnvironmentSettings, TableEnvironment


def run(assignment: Assignment) -> Outcome:
    """Run all queries."""
    configuration = configuration_of(assignment)
    configuration.remove_config("execution.checkpointing.dir")  # queries need none, and their rivals keep nothing
    settings = EnvironmentSettings.new_instance().in_batch_mode().with_configuration(configuration)
    tables = TableEnvironment.create(settings.build())
    for statement in definitions(assignment.input):
        tables.execute_sql(statement)

    def rows(text: str) -> Sequence[Sequence[object]]:
        found = tables.execute_sql(text).to_arrow()
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    return timed(rows, assignment.options["scale"])
