"""What a source of several clusters reads while streams move, clusters fail, and jobs start again, without brokers."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from headrace.common import WatermarkStrategy
from headrace.common.errors import ConfigurationError, InfrastructureError, SourceChangedError, UserFunctionError
from headrace.connectors.partitions import OffsetsInitializer
from headrace.connectors.source import EnumeratorContext
from headrace.datastream.connectors.dynamic_kafka import DynamicKafkaSourceBuilder
from headrace.storage.folder import posix_folder
from headrace.testing import JobHarness
from tests.connectors.kafka.fake_clusters import FakeCluster, FakeMetadata, builder, faked

SECOND = 1000


def reading(source: FakeMetadata | DynamicKafkaSourceBuilder[str], **more: Any) -> JobHarness:
    """A job that hands on what the stream has, run epoch by epoch, with a clock of the test."""
    made = builder(source.service) if isinstance(source, FakeMetadata) else source

    def build(job: JobHarness) -> None:
        job.add_sink("out", job.env.from_source(faked(made), WatermarkStrategy.no_watermarks(), "in").uid("in"))

    return JobHarness(build, **more)


def step(job: JobHarness, millis: int = SECOND) -> list[str]:
    """What an epoch reads, some time later."""
    job.advance_processing_time(millis)
    job.run_epoch()
    return sorted(job.take("out"))


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that each step has the answers of all clusters, also of those that have failed before."""
    monkeypatch.setattr("headrace.connectors.kafka.dynamic_enumerator.PATIENCE_SECONDS", 60.0)
    monkeypatch.setattr("headrace.connectors.kafka.dynamic_enumerator.PATIENCE_AFTER_FAILURE_SECONDS", 60.0)


@pytest.fixture
def east() -> FakeCluster:
    cluster = FakeCluster(a=2, b=1)
    cluster.put("a", "e1", "e2")
    cluster.put("a", "e3", partition=1)
    cluster.put("b", "never")
    return cluster


@pytest.fixture
def west() -> FakeCluster:
    cluster = FakeCluster(a=1)
    cluster.put("a", "w1")
    return cluster


def test_topics_of_one_name_in_two_clusters_are_read(east: FakeCluster, west: FakeCluster) -> None:
    told = FakeMetadata(east=east.holding("a"), west=west.holding("a"))
    with reading(told) as job:
        assert step(job) == ["e1", "e2", "e3", "w1"]
        west.put("a", "w2")
        assert step(job, 1) == ["w2"]


def test_a_stream_moves_from_one_cluster_to_another(east: FakeCluster, west: FakeCluster) -> None:
    told = FakeMetadata(east=east.holding("a"))
    with reading(told) as job:
        assert step(job) == ["e1", "e2", "e3"]
        told.clusters["west"] = west.holding("a")
        assert step(job, 999) == [], "it is asked each second"
        assert step(job, 1) == ["w1"]
        del told.clusters["east"]
        east.put("a", "too late")
        west.put("a", "w2")
        assert step(job) == ["east/a-0 is over", "east/a-1 is over", "w2"]
        assert step(job) == []


def test_a_cluster_that_comes_back_is_read_as_a_new_one(east: FakeCluster, west: FakeCluster) -> None:
    """Also if it was away for a single look: its splits have ended by then."""
    told = FakeMetadata(east=east.holding("a"), west=west.holding("a"))
    with reading(told) as job:
        step(job)
        del told.clusters["west"]
        assert step(job) == ["west/a-0 is over"]
        told.clusters["west"] = west.holding("a")
        assert step(job) + step(job) == ["w1"]
        assert step(job) == []


def remembering(told: FakeMetadata) -> DynamicKafkaSourceBuilder[str]:
    return builder(told.service).set_property("stream-metadata-removed-cluster-retention-ms", "5000")


def test_a_cluster_that_comes_back_soon_is_read_on(east: FakeCluster, west: FakeCluster) -> None:
    told = FakeMetadata(east=east.holding("a"), west=west.holding("a"))
    with reading(remembering(told)) as job:
        step(job)
        del told.clusters["west"]
        assert step(job) == ["west/a-0 is over"]
        west.put("a", "w2")
        told.clusters["west"] = west.holding("a")
        assert step(job) + step(job) == ["w2"]
        del told.clusters["west"]
        step(job)
        assert step(job, 5 * SECOND) == []
        told.clusters["west"] = west.holding("a")
        assert step(job) + step(job) == ["w1", "w2"], "it was away for too long"


@pytest.mark.parametrize("is_away", [False, True], ids=["answers", "away-at-first"])
def test_how_far_a_cluster_was_read_outlasts_a_restart(east: FakeCluster, west: FakeCluster, is_away: bool) -> None:
    told = FakeMetadata(east=east.holding("a"), west=west.holding("a"))
    with reading(remembering(told)) as job:
        step(job)
        kept = job.checkpoint()
    west.put("a", "w2")
    del told.clusters["west"]
    with reading(remembering(told), restore=kept) as job:
        assert step(job) == []
        kept = job.checkpoint()
    told.clusters["west"] = west.holding("a")
    west.is_away = is_away
    made = remembering(told).set_property("stream-metadata-discovery-failure-threshold", "9")
    with reading(made, restore=kept) as job:
        found = step(job)
        kept = job.checkpoint()
    west.is_away = False
    with reading(made, restore=kept) as job:
        assert found + step(job) == ["w2"]


def test_topics_of_a_cluster_come_and_go(east: FakeCluster) -> None:
    """Those that come are read from their beginning; those that stay, on; those that were made again are others."""
    told = FakeMetadata(east=east.holding("a"))
    with reading(builder(told.service).set_starting_offsets(OffsetsInitializer.latest())) as job:
        assert step(job) == []
        told.clusters["east"] = east.holding("a", "b")
        assert step(job) == ["never"]
        told.clusters["east"] = east.holding("b")
        assert step(job) == ["east/a-0 is over", "east/a-1 is over"]
        east.make("a")
        east.put("a", "new")
        told.clusters["east"] = east.holding("a", "b")
        assert step(job) + step(job) == ["new"]
        east.make("b")
        with pytest.raises(SourceChangedError, match=r"cluster 'east' at cluster-.*'b' was deleted and made again"):
            step(job)


def test_a_cluster_may_move_to_another_address(east: FakeCluster) -> None:
    told = FakeMetadata(east=east.holding("a"))
    with reading(told) as job:
        step(job)
        moved = FakeCluster()
        moved.topics, moved.ids = east.topics, east.ids
        moved.put("a", "e4")
        told.clusters["east"] = moved.holding("a")
        assert step(job) == ["e4"]


def test_offsets_of_a_cluster_go_before_those_of_the_source(east: FakeCluster, west: FakeCluster) -> None:
    latest = OffsetsInitializer.latest()
    told = FakeMetadata(east=east.holding("a", starting_offsets_initializer=latest), west=west.holding("a"))
    with reading(told) as job:
        assert step(job) == ["w1"]


def test_a_job_that_starts_again_goes_on_in_each_cluster(east: FakeCluster, west: FakeCluster) -> None:
    """Whatever the metadata says by then."""
    told = FakeMetadata(east=east.holding("a"), west=west.holding("a"))
    with reading(told) as job:
        step(job)
        kept = job.checkpoint()
    for cluster in (east, west):
        cluster.put("a", "on")
    north = FakeCluster(a=1)
    north.put("a", "n1")
    with reading(told, restore=kept) as job:
        assert step(job) == ["on", "on"]
    told.clusters.clear()
    with reading(told, restore=kept) as job:
        assert step(job) == []
        told.clusters["west"] = west.holding("a")
        assert step(job) + step(job) == ["on", "w1"]
    told.clusters = {"east": east.holding("a"), "north": north.holding("a")}
    with reading(told, restore=kept) as job:
        assert step(job) == ["n1", "on"], "no task holds a connection to the other one"
        told.clusters["west"] = west.holding("a")
        assert step(job) + step(job) == ["on", "w1"], "it was forgotten, and begins anew"


def test_a_bounded_source_ends_in_all_clusters(east: FakeCluster, west: FakeCluster) -> None:
    told = FakeMetadata(east=east.holding("a"), west=west.holding("a"))
    with reading(builder(told.service).set_bounded(OffsetsInitializer.latest())) as job:
        job.finish()
        assert sorted(job.results("out")) == ["e1", "e2", "e3", "w1"]


def test_a_group_is_told_how_far_the_job_is_in_each_cluster(east: FakeCluster, west: FakeCluster) -> None:
    told = FakeMetadata(east=east.holding("a"), west=west.holding("a"))
    with reading(builder(told.service).set_group_id("copy")) as job:
        step(job)
        job.close()
    assert {f"{each}": offset for each, offset in east.committed.items()} == {"a-0": 2, "a-1": 1}
    assert {f"{each}": offset for each, offset in west.committed.items()} == {"a-0": 1}


def test_a_cluster_that_is_away_holds_up_no_other(
    east: FakeCluster, west: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    told = FakeMetadata(east=east.holding("a"), west=west.holding("a"))
    made = builder(told.service).set_property("stream-metadata-discovery-failure-threshold", "2")
    with reading(made) as job, caplog.at_level(logging.WARNING):
        step(job)
        west.is_away = True
        for number in range(2):
            east.put("a", f"{number}")
            assert step(job) == [f"{number}"]
        assert f"cluster 'west' at {west.servers} has failed 2 times in a row ('stream-meta" in caplog.text
        assert "others are read meanwhile: no broker answers" in caplog.text
        west.is_away = False
        west.put("a", "w2")
        assert step(job) == ["w2"]
        west.is_away = True
        step(job), step(job)
        with pytest.raises(InfrastructureError, match=r"cluster 'west' .* failed 3 times.*failure-threshold' is 2"):
            step(job)


def test_a_cluster_that_hangs_holds_up_no_other(
    east: FakeCluster, west: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.connectors.kafka.dynamic_enumerator.PATIENCE_SECONDS", 0.01)
    told = FakeMetadata(east=east.holding("a"), west=west.holding("a"))
    with reading(told) as job:

        def read(until: str) -> list[str]:
            found: list[str] = []
            while until not in found:
                found += step(job)
            return found

        west.answers.clear()
        assert "w1" not in read("e2")
        east.put("a", "e4")
        assert read("e4") == ["e4"]
        west.answers.set()
        assert read("w1") == ["w1"]


def test_a_cluster_that_is_away_at_first_starts_where_it_should(east: FakeCluster, west: FakeCluster) -> None:
    told = FakeMetadata(east=east.holding("a"), west=west.holding("a"))
    made = builder(told.service).set_starting_offsets(OffsetsInitializer.latest())
    made.set_property("stream-metadata-discovery-failure-threshold", "9")
    west.is_away = True
    with reading(made) as job:
        assert step(job) == []
        kept = job.checkpoint()
    west.is_away = False
    with reading(made, restore=kept) as job:
        assert step(job) == [], "from the latest offset, as it was never looked at"
        west.put("a", "w2")
        assert step(job) == ["w2"]


def test_a_cluster_that_nobody_wants_any_more_may_be_away(east: FakeCluster, west: FakeCluster) -> None:
    """Even before it is time to ask where streams lie."""
    told = FakeMetadata(east=east.holding("a"), west=west.holding("a"))
    with reading(builder(told.service).set_property("stream-metadata-discovery-failure-threshold", "0")) as job:
        step(job)
        del told.clusters["west"]
        west.is_away = True
        east.put("a", "e4")
        assert step(job, 1) == ["e4"]


def test_a_metadata_service_that_fails(east: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    told = FakeMetadata(east=east.holding("a"))
    told.failure = OSError("refused")
    with pytest.raises(InfrastructureError, match="service FakeService has failed: refused"):
        step(reading(told))
    told.failure = ConfigurationError("no such registry")
    with pytest.raises(ConfigurationError, match="no such registry"):
        step(reading(told))
    told.failure = None
    with reading(told) as job, caplog.at_level(logging.WARNING):
        step(job)
        told.failure = OSError("refused")
        east.put("a", "e4")
        assert step(job) == ["e4"], "what it said last goes on"
        assert "FakeService has failed ('stream-metadata-discovery-failure-threshold' is 1), and what" in caplog.text
        with pytest.raises(InfrastructureError, match="failed 2 times in a row"):
            step(job)


def test_code_of_a_metadata_service_that_fails(east: FakeCluster) -> None:
    """When a job first starts, that is a mistake; when it goes on, the service was in order once."""
    told = FakeMetadata(east=east.holding("a"))
    told.failure = KeyError("clusters")
    with pytest.raises(UserFunctionError, match=r"^source 'in' failed\n  KeyError: 'clusters'\n  at .*get_all_streams"):
        step(reading(told))
    told.failure = None
    with reading(told) as job:
        step(job)
        kept = job.checkpoint()
    told.failure = KeyError("clusters")
    with pytest.raises(InfrastructureError, match="FakeService has failed: KeyError: 'clusters'"):
        step(reading(told, restore=kept))


def test_how_many_clusters_are_read(east: FakeCluster, west: FakeCluster, tmp_path: Path) -> None:
    told = FakeMetadata(east=east.holding("a"))
    enumerator = faked(builder(told.service)).create_enumerator(EnumeratorContext(1, posix_folder(tmp_path), None))
    assert enumerator.gauges() == {"kafkaClustersCount": 0}
    enumerator.discover(0)
    assert enumerator.gauges() == {"kafkaClustersCount": 1}
    told.clusters["west"] = west.holding("a")
    enumerator.discover(2 * SECOND)
    assert enumerator.gauges() == {"kafkaClustersCount": 2}
    enumerator.close()


def test_streams_that_are_nowhere_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with reading(FakeMetadata()) as job, caplog.at_level(logging.WARNING):
        assert step(job) == []
        assert step(job) == []
    assert caplog.text.count("FakeService knows no cluster of s: nothing is read until it does") == 1


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"group.id": "g"}, "no 'bootstrap.servers' for cluster 'east'"),
        ({"bootstrap.servers": "there:1", "enable.auto.commit": "true"}, "is for the source itself to decide"),
    ],
)
def test_metadata_that_cannot_be_at_first(metadata: dict[str, str], said: str, east: FakeCluster) -> None:
    told = FakeMetadata(east=type(east.holding("a"))({"a"}, metadata))
    with pytest.raises(ConfigurationError, match=said):
        step(reading(told))


def test_metadata_that_cannot_be_later(east: FakeCluster) -> None:
    """It counts as a failure of the service."""
    told = FakeMetadata(east=east.holding("a"))
    with reading(told) as job:
        step(job)
        told.clusters["west"] = type(east.holding("a"))({"a"}, {})
        east.put("a", "e4")
        assert step(job) == ["e4"]
        with pytest.raises(
            InfrastructureError, match=r"failed 2 times in a row .*'bootstrap.servers' for cluster 'west'"
        ):
            step(job)


def test_a_topic_that_is_not_there(east: FakeCluster) -> None:
    east.make("orders")
    told = FakeMetadata(east=east.holding("ordres"))
    with pytest.raises(ConfigurationError, match=r"cluster 'east' at .*: there is no topic 'ordres'.*mean orders"):
        step(reading(told))
