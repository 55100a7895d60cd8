"""What a cluster of Kafka tells of its topics and consumer groups."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("confluent_kafka")

from typer.testing import CliRunner

from headrace.cli.main import app
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
    assert (report.lag, report.members, report.health) == (3, 0, GroupHealth.STILL)
    topic.commit_offset(group, 2)
    (report,) = (each for each in group_reports(before, monitor.look()) if each.group == group)
    assert (report.lag, report.members, report.health) == (2, 0, GroupHealth.OK)


def test_markers_of_sinks_are_no_groups_and_commands_show_the_rest(kafka: KafkaCluster, topic: Topic) -> None:
    topic.put(["1", "2", "3"])
    reader, marker = f"reader-of-{topic.name}", f"marker-of-{topic.name}"
    topic.commit_offset(reader, 1)
    topic.commit_offset(marker, 0, "job 00ff, sink print")
    command = ["topics", "--kafka", kafka.bootstrap_servers, "--interval", "0.1"]
    shown = CliRunner().invoke(app, [*command, "--json"])
    assert shown.exit_code == 0, shown.output
    groups = {each["group"]: each for each in json.loads(shown.stdout)["groups"]}
    assert marker not in groups
    assert (groups[reader]["lag"], groups[reader]["health"]) == (2, "stands still")
    assert reader in CliRunner().invoke(app, command, env={"COLUMNS": "200"}).stdout


def test_the_topics_page_of_a_job_on_a_cluster(kafka: KafkaCluster, topic: Topic) -> None:
    from headrace.connectors.kafka.source import kafka_place
    from headrace.server.topics import TopicsWatch

    topic.put(["1", "2", "3"])
    own = f"job-of-{topic.name}"
    topic.commit_offset(own, 1)
    watch = TopicsWatch(kafka_place(ClientSettings({"bootstrap.servers": kafka.bootstrap_servers})), {})
    told = watch.report({topic.name}, {own})
    while told.looked_at is None:
        assert not told.error
        told = watch.report({topic.name}, {own})
    first = told.topics[0]
    assert (told.kind, first.name, first.is_used, first.records) == ("Kafka", topic.name, True, 3)
    (group,) = (each for each in told.groups if each.group == own)
    assert (group.lag, group.health, group.is_own) == (2, "ok", True)
