"""The topics that a job reads and writes, where they are, and their readers.

Those of a job of this process are looked at while there are requests, by threads that no answer waits for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.common.configuration import Configuration
from headrace.common.logs import get_logger
from headrace.common.masking import without_secrets
from headrace.connectors.source import Source
from headrace.connectors.topic_builders import TopicSink, TopicSource
from headrace.connectors.topic_state import (
    GroupReport,
    TopicMonitor,
    TopicReport,
    TopicsPlace,
    TopicsState,
    group_reports,
    topic_reports,
)
from headrace.graph.specs import SinkSpec, SourceSpec
from headrace.plan.job_plan import JobPlan
from headrace.server.wire import model

logger = get_logger(__name__)


@model
class TopicInfo:
    """A topic.

    Attributes:
        name: its name.
        partitions: the number of its partitions.
        records: the number of records that it keeps.
        rate: records that were appended in a second; None before there were two looks.
        bytes: its size; None where that cannot be known.
        settings: how long it keeps records, by Kafka's names.
        is_used: whether the job reads or writes it.
    """

    name: str
    partitions: int
    records: int
    rate: float | None
    bytes: int | None
    settings: Mapping[str, str]
    is_used: bool


@model
class GroupInfo:
    """A consumer group on a topic.

    Attributes:
        group: its id.
        topic: the topic.
        members: the number of its members, which may read other topics.
        lag: the records that it has not read.
        health: ``ok``, ``falls behind``, ``stands still`` or ``has lost records``.
        is_own: whether the job commits offsets to it; such a group has no members.
    """

    group: str
    topic: str
    members: int
    lag: int
    health: str
    is_own: bool


@model
class TopicsInfo:
    """The topics in one place.

    Attributes:
        kind: ``Kafka`` or ``embedded log``.
        place: the servers, or the location.
        looked_at: when that was last seen, in milliseconds since 1970; None for not yet.
        error: what went wrong with the last look; empty for nothing.
        topics: the topics.
        groups: the consumer groups on them.
    """

    kind: str
    place: str
    looked_at: int | None
    error: str
    topics: Sequence[TopicInfo]
    groups: Sequence[GroupInfo]


@model
class JobTopics:
    """The topics of a job, place by place."""

    places: Sequence[TopicsInfo]


def read_topics(document: Mapping[str, Any]) -> JobTopics:
    """The topics that another process reports."""
    return JobTopics(
        [
            TopicsInfo(
                **{
                    **place,
                    "topics": [TopicInfo(**each) for each in place["topics"]],
                    "groups": [GroupInfo(**each) for each in place["groups"]],
                }
            )
            for place in document["places"]
        ]
    )


_APART_SECONDS: Final = 5.0
_APART_PER_SECOND: Final = 10.0
_MOST_APART_SECONDS: Final = 60.0
"""The time between two looks: at least, for each second that the last one has taken, and at most."""

_WAITED_SECONDS: Final = 1.0
"""The time that an answer waits for the look that it has requested; after that it has the one before."""

_MOST_TOPICS: Final = 500
_MOST_GROUPS: Final = 500


class TopicsWatch:
    """Looks at the topics of one place.

    Args:
        place: the place.
        storage_options: how storages are reached.
    """

    def __init__(self, place: TopicsPlace, storage_options: Mapping[str, str]) -> None:
        self._place = place
        self._options = storage_options
        self._lock = threading.Lock()
        self._monitor: TopicMonitor | None = None
        self._states: tuple[TopicsState, ...] = ()
        self._error = ""
        self._looked_at: int | None = None
        self._next = 0.0
        self._looking: threading.Thread | None = None

    def report(self, used: Collection[str], own: Collection[str]) -> TopicsInfo:
        """The report of the last two looks.

        Args:
            used: the topics that come first.
            own: the groups of the job, which have no members though it reads.
        """
        self._look_again().join(_WAITED_SECONDS)
        states, error = self._states, self._error
        topics = [] if not states else topic_reports(states[0], states[-1])
        has_rates = len(states) > 1
        read = own if has_rates or not states else states[0].groups  # one look cannot show that a group stands still
        groups = [] if not states else group_reports(states[0], states[-1], read)
        listed = sorted((_topic(each, used, has_rate=has_rates) for each in topics), key=lambda each: not each.is_used)
        return TopicsInfo(
            self._place.kind,
            without_secrets(self._place.name),
            self._looked_at,
            without_secrets(error),
            listed[:_MOST_TOPICS],
            [_group(each, own) for each in groups[:_MOST_GROUPS]],
        )

    def _look_again(self) -> threading.Thread:
        """The thread of the last look; a new one where that is long ago."""
        with self._lock:
            thread = self._looking
            if thread is None or (not thread.is_alive() and time.monotonic() >= self._next):
                thread = threading.Thread(target=self._look, name="headrace-topics", daemon=True)
                thread.start()
                self._looking = thread
            return thread

    def _look(self) -> None:
        begun = time.monotonic()
        try:
            if self._monitor is None:
                self._monitor = self._place.monitor(self._options)
            state = self._monitor.look()
        except Exception as error:  # whatever it is, the job goes on, and the page shows it
            logger.debug("the topics of %s cannot be looked at", without_secrets(self._place.name), exc_info=True)
            self._error = f"{type(error).__name__}: {error}"
            self._monitor = None
        else:
            self._states, self._error = (*self._states[-1:], state), ""
            self._looked_at = time.time_ns() // 1_000_000
        end = time.monotonic()
        self._next = end + min(_MOST_APART_SECONDS, max(_APART_SECONDS, (end - begun) * _APART_PER_SECOND))


def _topic(report: TopicReport, used: Collection[str], *, has_rate: bool) -> TopicInfo:
    state = report.state
    return TopicInfo(
        report.name,
        len(state.ends),
        state.records,
        report.rate if has_rate else None,
        state.size,
        dict(sorted(state.settings.items())),
        report.name in used,
    )


def _group(report: GroupReport, own: Collection[str]) -> GroupInfo:
    is_own = report.group in own
    return GroupInfo(report.group, report.topic, report.members, report.lag, report.health.value, is_own)


class TopicsOfJob:
    """The topics that a job reads and writes.

    Args:
        configuration: says how storages are reached.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._options = configuration.storage_options()
        self._lock = threading.Lock()
        self._watches: dict[TopicsPlace, TopicsWatch] = {}

    def report(self, plan: JobPlan) -> JobTopics:
        """The report of them; a place that was never looked at is looked at now."""
        places = _places(plan)
        with self._lock:
            known = {place: self._watches.get(place) or TopicsWatch(place, self._options) for place in places}
            self._watches = known
        return JobTopics([watch.report(places[place].topics, places[place].groups) for place, watch in known.items()])


@dataclass(frozen=True, slots=True)
class _Used:
    """The topics that a job uses in a place, and the groups to which it commits offsets."""

    topics: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)


def _places(plan: JobPlan) -> dict[TopicsPlace, _Used]:
    """The places of topics, and what of each the job uses."""
    found: dict[TopicsPlace, _Used] = {}
    for end in _ends(plan):
        names = {dataset.name.rpartition("/")[2] for dataset in end.datasets}
        for place in end.places:
            used = found.setdefault(place, _Used())
            used.topics.update(names)
            if isinstance(end, TopicSource) and end.group is not None:
                used.groups.add(end.group)
    return found


def _ends(plan: JobPlan) -> Iterator[TopicSource[Any] | TopicSink[Any]]:
    """The sources and sinks of topics, those that others pass the records of on included."""
    for operator in plan.operators():
        spec = operator.node.spec
        if isinstance(spec, SourceSpec):
            yield from _topic_sources(spec.source)
        elif isinstance(spec, SinkSpec) and isinstance(spec.sink, TopicSink):
            yield spec.sink


def _topic_sources(source: Source[Any]) -> Iterator[TopicSource[Any]]:
    if isinstance(source, TopicSource):
        yield source
    for inner in source.inner:
        yield from _topic_sources(inner)
