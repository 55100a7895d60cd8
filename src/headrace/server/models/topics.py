"""The topics that a job reads and writes, where they are, and who reads them."""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.server.wire import model


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
        is_own: whether the job tells it how far it has come; such a group has no members.
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
    """The topics that another process tells of."""
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
