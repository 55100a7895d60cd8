"""``headrace topics``: the throughput, size and retention of topics, and the lag and health of consumer groups."""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.text import Text

from headrace.cli.output import new_table, output
from headrace.common import wording
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.connectors.topic_state import GroupReport, TopicMonitor, TopicReport, group_reports, topic_reports


def run_topics(
    log: str | None,
    servers: str | None,
    properties: Mapping[str, str],
    configuration: Configuration,
    seconds: float,
    *,
    as_json: bool,
) -> None:
    """Look twice, and print what there is and what has changed.

    Args:
        log: the location of an embedded log.
        servers: the bootstrap servers of a cluster of Kafka; one of the two.
        properties: other settings of Kafka's client.
        configuration: how storages are reached.
        seconds: the time between the two looks.
        as_json: whether it is for programs.

    Raises:
        ConfigurationError: when neither or both are given.
    """
    monitor = _monitor(log, servers, properties, configuration)
    before = monitor.look()
    time.sleep(seconds)
    after = monitor.look()
    topics, groups = topic_reports(before, after), group_reports(before, after)
    if as_json:
        document = {"topics": [_topic_document(each) for each in topics], "groups": [*map(_group_document, groups)]}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return
    _print_topics(topics)
    if groups:
        _print_groups(groups)


def _monitor(
    log: str | None, servers: str | None, properties: Mapping[str, str], configuration: Configuration
) -> TopicMonitor:
    if (log is None) == (servers is None):
        raise ConfigurationError("say whose topics: `headrace topics LOG`, or `headrace topics --kafka HOST:PORT`")
    if log is not None:
        from headrace.connectors.log.topic_monitor import LogTopicMonitor
        from headrace.log.log import Log

        return LogTopicMonitor(Log.open(log, options=configuration.storage_options()))
    from headrace.connectors.kafka.clients import ClientSettings
    from headrace.connectors.kafka.settings import check_library

    check_library()
    from headrace.connectors.kafka.topic_monitor import KafkaTopicMonitor

    return KafkaTopicMonitor(ClientSettings({**properties, "bootstrap.servers": servers or ""}))


def _topic_document(report: TopicReport) -> dict[str, Any]:
    state = report.state
    return {"name": report.name, "rate": report.rate, "records": state.records, **asdict(state)}


def _group_document(report: GroupReport) -> dict[str, Any]:
    return {**asdict(report), "health": report.health.value}


def _print_topics(reports: list[TopicReport]) -> None:
    table = new_table("topic", "partitions", "records", "records/s", "size", "kept")
    for report in reports:
        state = report.state
        size = "-" if state.size is None else wording.size(state.size)
        kept = ", ".join(f"{key}={value}" for key, value in sorted(state.settings.items()))
        counts = (len(state.ends), state.records, report.rate)
        table.add_row(*map(Text, (report.name, *map(wording.number, counts), size, kept)))
    output().print(table)


def _print_groups(reports: list[GroupReport]) -> None:
    table = new_table("group", "topic", "members", "lag", "health")
    for report in reports:
        cells = (report.group, report.topic, str(report.members), wording.number(report.lag), report.health.value)
        table.add_row(*map(Text, cells))
    output().print(table)
