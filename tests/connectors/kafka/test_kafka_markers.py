"""Markers of a ``KafkaSink`` against a real broker: one that is lost is noticed, and nothing is published twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from headrace.common.errors import CheckpointError, CommitRefusedError
from headrace.connectors.kafka import transactions
from headrace.connectors.kafka.clients import ClientSettings
from headrace.connectors.kafka.transactions import KafkaCommitter, read_marker
from headrace.datastream.connectors.kafka import MissingMarker
from tests.connectors.kafka.topics import Topic
from tests.connectors.kafka.transactional_sink import NOW, ByHand, crash_at, delete_group, job, texts, to
from tests.reliability.support.kafka_sinks import check, kafka_sink
from tests.reliability.support.small_jobs import CrashError

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("in_files")]


def lost_marker(
    topic: Topic, by_hand: ByHand, monkeypatch: pytest.MonkeyPatch, *, published: int = 1, waiting: int = 1
) -> list[list[Any]]:
    """Epochs with one record each wait, a, b and so on; the driver dies when some are published, before it knows.

    Then the marker gets lost.
    """
    staged = [by_hand.written(epoch, [chr(ord("a") + epoch - 1)]) for epoch in range(1, waiting + 1)]
    with monkeypatch.context() as patch:
        crash_at(patch, "end", published + 1, after=True)  # the first one sets the first marker
        committer = by_hand.committer()
        with pytest.raises(CrashError):
            commit_all(committer, staged)
    delete_group(topic, staged[0][0][0])
    return staged


def commit_all(committer: KafkaCommitter, staged: list[list[Any]]) -> None:
    for epoch, each in enumerate(staged, 1):
        committer.commit(epoch, each, NOW)


def test_a_marker_that_is_gone_stops_the_job(topic: Topic, by_hand: ByHand, monkeypatch: pytest.MonkeyPatch) -> None:
    staged = lost_marker(topic, by_hand, monkeypatch, waiting=2)
    told = r"is gone, .* epoch 1 was published: .* These epochs wait: 1, 2. .*set_published_up_to\(2\)"
    for _ in range(2):
        with pytest.raises(CommitRefusedError, match=told):
            commit_all(by_hand.committer(1, 2, waiting=(1, 2)), staged)
    assert texts(topic) == ["a"]


def test_what_waits_is_published_again_without_a_marker_if_the_user_says_so(
    topic: Topic, by_hand: ByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = lost_marker(topic, by_hand, monkeypatch)
    by_hand.sink = to(topic).set_missing_marker(MissingMarker.PUBLISH).build()
    committer = by_hand.committer(1, 1, waiting=(1,))
    commit_all(committer, staged)
    committer.recover(None)
    committer.commit(2, by_hand.written(2, ["b"], generation=1), NOW)
    committer.close()
    assert texts(topic) == ["a", "a", "b"]
    assert by_hand.folder.names() == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("published", "in_tasks"), [(1, False), (2, True), (3, False)])
def test_of_several_epochs_that_wait_those_are_published_that_were_not(
    published: int, in_tasks: bool, topic: Topic, by_hand: ByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = lost_marker(topic, by_hand, monkeypatch, published=published, waiting=3)
    if in_tasks:
        monkeypatch.setattr(transactions, "_IN_DRIVER_MESSAGES", 0)
    by_hand.sink = to(topic).set_published_up_to(published).build()
    committer = by_hand.committer(1, 3, waiting=(1, 2, 3))
    commit_all(committer, staged)
    committer.recover(None)
    committer.commit(4, by_hand.written(4, ["d"], generation=1), NOW)
    committer.close()
    assert texts(topic) == ["a", "b", "c", "d"]
    assert by_hand.folder.names() == []


def test_a_job_whose_markers_are_lost_goes_on_once_it_is_told_how_far_each_was(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the two subtasks has published the epoch in which the driver dies, the other one has not."""
    small, ids = job(tmp_path, topic), [f"l{topic.name}-{subtask}" for subtask in range(2)]
    builder = kafka_sink(topic.servers, topic.name).set_transactional_id_prefix(f"l{topic.name}")
    small.sink = builder.build()
    with monkeypatch.context() as patch:
        crash_at(patch, "begin", 5)  # two set the first markers, two publish the first epoch
        small.crash()
    settings = ClientSettings({"bootstrap.servers": topic.servers})
    markers = [read_marker(settings, id_, topic.name) for id_ in ids]
    for id_ in ids:
        delete_group(topic, id_)
    with pytest.raises(CommitRefusedError, match=r"is gone, .* These epochs wait: [0-9, ]+\."):
        small.run()
    for id_, marker in zip(ids, markers, strict=True):
        assert marker is not None
        builder.set_published_up_to(marker.epoch, id_)
    small.sink = builder.build()
    small.run()
    check(topic.servers, topic.name)


def test_a_marker_that_expires_while_nothing_is_written_is_not_missed(
    topic: Topic, by_hand: ByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    committer = by_hand.committer()
    committer.commit(1, by_hand.written(1, ["a"]), NOW)
    committer.close()
    staged = by_hand.written(2, ["b"])
    delete_group(topic, staged[0][0])
    with pytest.raises(CommitRefusedError, match="is gone"):
        committer.commit(2, staged, NOW)
    monkeypatch.setattr(transactions, "_QUIET_SECONDS", -1.0)
    with pytest.raises(CommitRefusedError, match="is gone"):
        committer.commit(2, staged, NOW)  # it was tried: that it was not published is not known
    committer.commit(3, by_hand.written(3, ["c"]), NOW)
    assert texts(topic) == ["a", "c"]


def test_a_job_that_goes_on_after_a_long_time(topic: Topic, by_hand: ByHand) -> None:
    first = by_hand.committer()
    staged = by_hand.written(1, ["a"])
    first.commit(1, staged, NOW)
    first.close()
    delete_group(topic, staged[0][0])
    second = by_hand.committer(1, 1)
    second.recover(None)
    second.commit(2, by_hand.written(2, ["b"], generation=1), NOW)
    second.close()
    assert texts(topic) == ["a", "b"]


def test_an_old_copy_of_a_checkpoint_is_noticed(topic: Topic, by_hand: ByHand) -> None:
    committer = by_hand.committer()
    for epoch in (1, 2):
        committer.commit(epoch, by_hand.written(epoch, [f"of {epoch}"]), NOW)
    committer.close()
    with pytest.raises(CheckpointError, match=r"is at epoch 1, but .* up to epoch 2 are published"):
        by_hand.committer(3, 1)
    by_hand.committer(3, 2)
