"""What operators are told of topics and consumer groups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.common.messages import TopicPartition
from headrace.connectors.topic_state import (
    GroupHealth,
    GroupState,
    TopicsState,
    TopicState,
    group_reports,
    topic_reports,
)
from headrace.log import Consumer, Log, Producer

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def state(time: float, ends: tuple[int, int], offsets: dict[TopicPartition, int], members: int = 1) -> TopicsState:
    topic = TopicState((5, 0), ends, None, {})
    return TopicsState(time, {"orders": topic}, {"shop": GroupState(members, offsets)})


def test_throughput_is_what_was_appended_meanwhile() -> None:
    (report,) = topic_reports(state(10.0, (10, 20), {}), state(12.0, (30, 40), {}))
    assert (report.rate, report.state.records) == (20.0, 65)


@pytest.mark.parametrize(
    ("before", "after", "members", "lag", "health"),
    [
        ({FIRST: 10, SECOND: 20}, {FIRST: 30, SECOND: 40}, 1, 0, GroupHealth.OK),
        ({FIRST: 5, SECOND: 10}, {FIRST: 20, SECOND: 35}, 1, 15, GroupHealth.OK),
        ({FIRST: 10, SECOND: 20}, {FIRST: 10, SECOND: 20}, 1, 40, GroupHealth.BEHIND),
        ({FIRST: 10, SECOND: 20}, {FIRST: 10, SECOND: 20}, 0, 40, GroupHealth.STILL),
        ({FIRST: 8, SECOND: 20}, {FIRST: 28, SECOND: 40}, 0, 2, GroupHealth.OK),  # no member, though it reads
        ({FIRST: 10, SECOND: 20}, {FIRST: 15, SECOND: 20}, 0, 35, GroupHealth.BEHIND),
        ({FIRST: 30, SECOND: 40}, {FIRST: 30, SECOND: 40}, 0, 0, GroupHealth.OK),
        ({FIRST: 2}, {FIRST: 2}, 1, 28, GroupHealth.LOST),
        ({TopicPartition("orders", 7): 2}, {TopicPartition("orders", 7): 2}, 1, 0, GroupHealth.OK),
    ],
)
def test_the_health_of_groups(before: Any, after: Any, members: int, lag: int, health: GroupHealth) -> None:
    earlier, later = state(10.0, (10, 20), before, members), state(12.0, (30, 40), after, members)
    (report,) = group_reports(earlier, later)
    assert (report.lag, report.health, report.members) == (lag, health, members)


def test_a_group_that_somebody_is_known_to_read_for_does_not_stand_still() -> None:
    offsets = {FIRST: 10, SECOND: 20}
    (report,) = group_reports(state(10.0, (10, 20), offsets, 0), state(12.0, (30, 40), offsets, 0), {"shop"})
    assert (report.lag, report.health) == (40, GroupHealth.OK)


def test_a_group_that_commits_now_and_then_does_not_fall_behind() -> None:
    before, after = state(10.0, (10, 20), {FIRST: 10, SECOND: 20}), state(12.0, (30, 40), {FIRST: 30, SECOND: 36})
    (report,) = group_reports(before, after)
    assert (report.lag, report.health) == (4, GroupHealth.OK)


def test_topics_and_groups_that_are_gone_or_new() -> None:
    nothing = TopicsState(10.0, {}, {})
    (report,) = group_reports(nothing, state(12.0, (10, 20), {FIRST: 5}))
    assert (report.lag, report.health) == (5, GroupHealth.OK)
    assert topic_reports(nothing, state(12.0, (10, 20), {}))[0].rate == 0.0
    assert group_reports(state(10.0, (10, 20), {FIRST: 5}), nothing) == []


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["topics", "--interval", "0.1", *arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_topics_of_an_embedded_log(tmp_path: Path) -> None:
    place = str(tmp_path / "shop.log")
    log = Log.open(place, create=True)
    log.create_topic("orders", 2, {"retention.ms": "7d"})
    with Producer(log) as producer:
        for number in range(5):
            producer.send("orders", b"tea", partition=number % 2)
    consumer = Consumer(place, group_id="shop", auto_offset_reset="earliest")
    consumer.subscribe(["orders"])
    consumer.poll(1, max_records=100)
    consumer.commit()
    consumer.close()
    with Producer(log) as producer:
        producer.send("orders", b"cake", partition=0)
    document = json.loads(shown(place, "--json"))
    (topic,) = document["topics"]
    assert (topic["name"], topic["records"], topic["rate"], topic["ends"]) == ("orders", 6, 0.0, [4, 2])
    assert topic["size"] > 0
    (group,) = document["groups"]
    assert (group["lag"], group["health"], group["members"]) == (1, "stands still", 0)
    assert "stands still" in shown(place)


def test_whose_topics_has_to_be_said() -> None:
    result = CliRunner().invoke(app, ["topics"])
    assert result.exit_code == 2
    assert "headrace topics --kafka HOST:PORT" in result.output
