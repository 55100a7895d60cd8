"""Sessions for the queries of epochs, each of which one job has at a time.

A new session, and the analysis of a query, take Java and the driver longer than a small epoch. So jobs which run one
after the other have the same session, and the same query where the settings of the query can identify its job.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.exchange.envelope import SCHEMA, SORT_COLUMNS
from headrace.runtime.spark.session import session_of_epochs
from headrace.runtime.spark.task_times import LATEST, TimesAccumulator
from headrace.runtime.spark.worker import JobOfQuery, ShippedJob, later_stage, source_stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENVELOPES: Final = from_arrow_schema(SCHEMA)
"""The schema of envelopes in Spark's words; as text it would have to be parsed, a third of a second the first time."""

CONTEXT_KEY: Final = "spark.headrace.context"
"""The setting that gives tasks the place of their epoch's context."""

JOB_KEY: Final = "spark.headrace.job"
"""The setting that gives them the file of their job. Spark logs settings, so the job itself may not be there."""


@dataclass(frozen=True, slots=True)
class EpochSession:
    """A session for the queries of a job.

    Attributes:
        session: the session.
        settings: those that the session had to which it belongs, as text.
        times: is called with the times of tasks.
        shared: queries that are the same for all jobs, by the numbers of tasks of their stages.
    """

    session: SparkSession
    settings: str
    times: TimesAccumulator
    shared: dict[tuple[int, ...], DataFrame] = field(default_factory=dict)

    def query(self, job: ShippedJob, parallelism: tuple[int, ...]) -> DataFrame:
        """The query of the epochs of a job."""
        return self._built(job, parallelism)

    def shared_query(self, parallelism: tuple[int, ...]) -> DataFrame:
        """The query of the epochs of all jobs that are distinguished by :data:`JOB_KEY`."""
        if parallelism not in self.shared:
            self.shared[parallelism] = self._built(JobOfQuery(JOB_KEY), parallelism)
        return self.shared[parallelism]

    def _built(self, job: ShippedJob | JobOfQuery, parallelism: tuple[int, ...]) -> DataFrame:
        stage_0 = partial(source_stage, job, self.times, CONTEXT_KEY)
        query = self.session.range(0, parallelism[0], 1, parallelism[0]).mapInArrow(stage_0, ENVELOPES)
        for stage in range(1, len(parallelism)):
            query = (
                query.repartitionById(parallelism[stage], sql.col("partition"))
                .sortWithinPartitions(*SORT_COLUMNS)
                .mapInArrow(partial(later_stage, job, self.times, stage), ENVELOPES)
            )
        return query

    def forget_job(self) -> None:
        """The job has ended."""
        self.session.conf.unset(CONTEXT_KEY)
        self.session.conf.unset(JOB_KEY)
        self.times.value = {}


class EpochSessions:
    """The sessions of this process."""

    def __init__(self) -> None:
        self._idle: WeakKeyDictionary[SparkSession, list[EpochSession]] = WeakKeyDictionary()
        self._lock = Lock()

    def take(self, session: SparkSession) -> EpochSession:
        """A session beside one of the user's, or of headrace's; another one where that has other settings now."""
        settings = settings_text(session)
        with self._lock:
            found = [each for each in self._idle.pop(session, []) if each.settings == settings]
            taken = found.pop() if found else None
            self._idle[session] = found
        if taken is not None:
            return taken
        own = session_of_epochs(session)
        return EpochSession(own, settings, own.sparkContext.accumulator({}, LATEST))

    def give_back(self, session: SparkSession, taken: EpochSession) -> None:
        """Another job may have it: nothing of the last one runs any more."""
        taken.forget_job()
        with self._lock:
            self._idle.setdefault(session, []).append(taken)


EPOCH_SESSIONS: Final = EpochSessions()


def settings_text(session: SparkSession) -> str:
    """All settings of a session, by one call into Java."""
    text: str = session.conf._jconf.getAllAsJava().toString()
    return text
