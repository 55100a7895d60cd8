"""SQL by headrace.

Options: ``sql``, the work, and ``lateness_millis``; with ``plans`` the query is only planned, so many times.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from benchmarks.outcome import Assignment, Epoch, Outcome
from benchmarks.programs.headrace_job import EpochTimes, configuration_of, whole_runs
from benchmarks.sql import MINI_BATCH, SqlWork
from headrace.client.running import submission_defaults
from headrace.table import EnvironmentSettings, TableEnvironment


def run(assignment: Assignment) -> Outcome:
    """Run the query."""
    work = SqlWork.of(assignment)
    settings = EnvironmentSettings.new_instance().with_configuration(configuration_of(assignment)).build()
    tables = TableEnvironment.create(settings)
    for statement in work.statements(assignment):
        tables.execute_sql(statement)
    if "plans" in assignment.options:
        return _planned(tables, work, assignment.options["plans"])
    totals = _totals(tables, work)

    def job(times: EpochTimes) -> None:
        with times, submission_defaults({}, times):
            tables.execute_sql(work.insert).wait()

    return whole_runs(assignment, job, totals)


def _planned(tables: TableEnvironment, work: SqlWork, plans: int) -> Outcome:
    epochs = []
    for _ in range(plans):
        started = time.perf_counter()
        tables.explain_sql(work.insert)
        epochs.append(Epoch(1, time.perf_counter() - started))
    return Outcome(tuple(epochs), {"rows": 1})


def _totals(tables: TableEnvironment, work: SqlWork) -> dict[str, float]:
    _set(tables, MINI_BATCH)
    with tables.execute_sql(work.totals_query).collect() as rows:
        *_, last = rows  # a result that is updated again and again
    _set(tables, {"table.exec.mini-batch.enabled": "false"})
    return work.named([last[number] for number in range(len(work.totals))])


def _set(tables: TableEnvironment, settings: Mapping[str, str]) -> None:
    for key, value in settings.items():
        tables.get_config().set(key, value)
