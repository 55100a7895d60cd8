"""What a cluster of Kafka tells of its topics and consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("confluent_kafka")

from headrace.common.messages import TopicPartition
from headrace.connectors.kafka.clients import ClientSettings
from headrace.connectors.topic_state import GroupHealth, group_reports, topic_reports

if TYPE_CHECKING:
    from headrace.broker import KafkaCluster
    from tests.connectors.kafka.topics import Topic


pytestmark = pytest.mark.integration


def test_topics_and_groups_of_a_cluster(kafka: KafkaCluster, topic: Topic) -> None:
    from headrace.connectors.kafka.topic_monitor import KafkaTopicMonitor

    topic.put(["1", "2", "3"])
    topic.put(["4"], 1)
    group = f"group-of-{topic.name}"
    topic.commit_offset(group, 1)
    monitor = KafkaTopicMonitor(ClientSettings({"bootstrap.servers": kafka.bootstrap_servers}))
    before = monitor.look()
    topic.put(["5"])
    after = monitor.look()
    found = next(report for report in topic_reports(before, after) if report.name == topic.name)
    assert (found.state.ends, found.state.records, found.state.size) == ((4, 1), 5, None)
    assert found.rate > 0
    assert found.state.settings["cleanup.policy"] == "delete"
    assert after.groups[group].offsets == {TopicPartition(topic.name, 0): 1}
    (report,) = (each for each in group_reports(before, after) if each.group == group)
    assert (report.lag, report.members, report.health) == (3, 0, GroupHealth.ALONE)
