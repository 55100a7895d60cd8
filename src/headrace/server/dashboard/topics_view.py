"""The topics that the jobs of a server read and write, place by place: what is in them, and their readers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.common import wording
from headrace.common.errors import HeadraceError
from headrace.server.dashboard.job_view import JobView
from headrace.server.jobs import ServedJob
from headrace.server.topics import GroupInfo, JobTopics, TopicInfo, TopicsInfo

_REQUESTS_AT_ONCE: Final = 8

_FOR_EVER: Final = "-1"


@dataclass(frozen=True, slots=True)
class TopicUser:
    """A job that reads or writes a topic."""

    job_id: str
    job: str
    verb: str


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic, and the jobs that read or write it."""

    info: TopicInfo
    users: tuple[TopicUser, ...]

    @property
    def retention(self) -> str:
        """Its retention, in words."""
        return retention(self.info.settings)


@dataclass(frozen=True, slots=True)
class ReaderView:
    """A job as a reader of topics: which source of it reads what, and the records that it has not read."""

    job_id: str
    job: str
    source: str
    topics: tuple[str, ...]
    pending: int | None


@dataclass(slots=True)
class PlaceView:
    """A log or a cluster.

    Attributes:
        info: what was seen of it.
        users: by the name of a topic, the jobs that read or write it.
        own_groups: the groups of jobs here, as these tell of them, by group and topic.
        readers: the jobs that read there.
    """

    info: TopicsInfo
    users: dict[str, list[TopicUser]] = field(default_factory=dict)
    own_groups: dict[tuple[str, str], GroupInfo] = field(default_factory=dict)
    readers: list[ReaderView] = field(default_factory=list)

    @property
    def topics(self) -> Sequence[TopicView]:
        """Return its topics, those first that jobs use."""
        found = [TopicView(info, tuple(self.users.get(info.name, ()))) for info in self.info.topics]
        return sorted(found, key=lambda topic: (not topic.users, topic.info.name))

    @property
    def groups(self) -> Sequence[GroupInfo]:
        """Return the consumer groups, those first that something is wrong with."""
        known = [self.own_groups.get((group.group, group.topic), group) for group in self.info.groups]
        return sorted(known, key=lambda group: (group.health == "ok", -group.lag, group.group))


@dataclass(frozen=True, slots=True)
class TopicsView:
    """All places.

    Attributes:
        places: the logs and clusters.
        silent: the names of jobs that do not tell at the moment, each with the reason.
        running: the number of jobs that run.
    """

    places: tuple[PlaceView, ...]
    silent: tuple[tuple[str, str], ...]
    running: int


def topics_view(jobs: Sequence[tuple[ServedJob, JobView]]) -> TopicsView:
    """Ask all jobs that run."""
    running = [(served, view) for served, view in jobs if not view.is_over]
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE, thread_name_prefix="headrace-topics-page") as pool:
        answers = list(pool.map(lambda each: _topics_of(each[0]), running))
    places: dict[tuple[str, str], PlaceView] = {}
    silent = []
    for (served, view), answer in zip(running, answers, strict=True):
        if isinstance(answer, str):
            silent.append((view.name, answer))
            continue
        for info in answer.places:
            known = places.setdefault((info.kind, info.place), PlaceView(info))
            if (info.looked_at or 0) > (known.info.looked_at or 0):
                known.info = info
            _add_job(known, info, view, served.lineage())
    return TopicsView(tuple(places.values()), tuple(silent), len(running))


def _topics_of(job: ServedJob) -> JobTopics | str:
    try:
        return job.topics()
    except HeadraceError as error:
        return str(error)


def _add_job(place: PlaceView, info: TopicsInfo, job: JobView, lineage: Mapping[str, Any] | None) -> None:
    """Tell which of the topics a job reads and writes, and how far it has come."""
    used = {topic.name for topic in info.topics if topic.is_used}
    place.own_groups |= {(group.group, group.topic): group for group in info.groups if group.is_own}
    for ends, verb in (("sources", "reads"), ("sinks", "writes")):
        for end in () if lineage is None else lineage[ends]:
            topics = sorted(_names(end) & used)
            for name in topics:
                users = place.users.setdefault(name, [])
                user = TopicUser(job.id, job.name, verb)
                if user not in users:
                    users.append(user)
            if topics and verb == "reads":
                pending = _pending(split.pending_records for split in job.splits if split.uid == end["uid"])
                place.readers.append(ReaderView(job.id, job.name, end["name"], tuple(topics), pending))


def _names(end: Mapping[str, Any]) -> set[str]:
    return {dataset["name"].rpartition("/")[2] for dataset in end["datasets"]}


def _pending(records: Iterable[int | None]) -> int | None:
    known = list(records)
    return None if not known or None in known else sum(number or 0 for number in known)


def retention(settings: Mapping[str, str]) -> str:
    """The retention of a topic by its settings, in words."""
    millis, most = settings.get("retention.ms", ""), settings.get("retention.bytes", "")
    is_compacted = "compact" in settings.get("cleanup.policy", "")
    found = ["the last record of each key"] if is_compacted else []
    if millis.isdecimal():
        found.append(wording.span(int(millis) / 1000))
    if most.isdecimal():
        found.append(f"{wording.size(int(most))} of a partition")
    if not found:
        found.append("for ever" if millis in (_FOR_EVER, "") else millis)
    return ", ".join(found)
