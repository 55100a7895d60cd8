"""What may befall messages that wait to be published, the disk they are on, their topic, and their transactional id."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("confluent_kafka")
pytest.importorskip("jgo")

from headrace.common.errors import CommitRefusedError, HeadraceError
from headrace.connectors.kafka import writer
from headrace.connectors.kafka.clients import ClientSettings
from headrace.connectors.kafka.transactions import read_marker
from headrace.datastream.connectors.kafka import MissingMarker
from tests.connectors.kafka.topics import Topic
from tests.reliability.support.damage_table import DAMAGES, EXACT, STAGED
from tests.reliability.support.damages import CASES, Scene, belongings
from tests.reliability.support.full_disk import FullDisk
from tests.reliability.support.kafka_sinks import Place, check, kafka_job, kafka_sink, staged_files
from tests.reliability.support.small_jobs import CrashError, SmallJob
from tests.reliability.support.storages import download, on_s3, upload

if TYPE_CHECKING:
    from headrace.broker import KafkaCluster
    from tests.storage.s3_server import S3Server

pytestmark = pytest.mark.integration

NO_RESTARTS = {"restart-strategy.type": "none"}
RESTARTS = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "100"}
NAMESAKE = "1-0-0-0123456789abcdef.arrow"


@pytest.fixture(autouse=True)
def in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even few messages are staged in files."""
    monkeypatch.setattr(writer, "_IN_MANIFEST_BYTES", 0)


@pytest.fixture
def topic(kafka: KafkaCluster) -> Topic:
    return Topic(kafka.bootstrap_servers, partitions=2)


@dataclass
class Interrupted:
    """A job whose driver dies now and then. Its checkpoint directory is on this disk while it does not run.

    Attributes:
        folder: where the checkpoint directory is.
        topic: where it writes to.
        s3: where it is while the job runs, if not on this disk.
    """

    folder: Path
    topic: Topic
    s3: S3Server | None = None

    def run(self) -> None:
        with self._moved() as settings:
            self._job(settings).run()

    def crash_before_commit(self, which: int) -> None:
        """Run until the driver dies, and leave behind what was to be committed."""
        with self._moved() as settings, pytest.MonkeyPatch.context() as patch:
            Place("commit", which, after=False).act(_die, patch.setattr)
            self._job(settings).crash()

    def waiting(self) -> list[Path]:
        """The files that the newest checkpoint names and that are not published, those of the oldest epoch first."""
        newest = json.loads(max((self.folder / "checkpoints" / "manifests").glob("[0-9]*.json")).read_bytes())
        names = [name for *_, staged in newest["pending"] for each in staged for name, *_ in each[2]]
        (folder,) = (self.folder / "checkpoints" / "sinks").iterdir()
        return [folder / name for name in names if (folder / name).exists()]

    def _job(self, settings: dict[str, str]) -> SmallJob:
        return kafka_job(self.folder, self.topic.servers, self.topic.name, NO_RESTARTS | settings)

    @contextmanager
    def _moved(self) -> Iterator[dict[str, str]]:
        if self.s3 is None:
            yield {}
            return
        files, there = self.folder / "checkpoints", on_s3(self.s3)
        if files.exists():
            upload(files, there.folder)
        try:
            yield there.settings
        finally:
            shutil.rmtree(files, ignore_errors=True)
            download(there.folder, files)


def _die() -> None:
    raise CrashError


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["posix", "s3"])
def test_staged_messages_that_are_damaged(
    storage: str, topic: Topic, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Each damage that matters stops the job; once the file is put back the next one is tried, on the same job."""
    job = Interrupted(tmp_path, topic, request.getfixturevalue("s3") if storage == "s3" else None)
    job.crash_before_commit(2)
    old = shutil.copy2(job.waiting()[0], tmp_path / job.waiting()[0].name)
    job.crash_before_commit(3)
    files, intact = job.waiting(), tmp_path / "intact"
    shutil.copytree(files[0].parent, intact)
    scene = Scene(files, Path(old), files[0].with_name(NAMESAKE))
    assert old.name not in {file.name for file in files}
    for case, (damage, do) in CASES.items():
        do(scene)
        if STAGED[DAMAGES.index(damage)] == EXACT:
            continue
        with pytest.raises(CommitRefusedError) as told:
            job.run()
        assert any(path.name in str(told.value) for path in scene.may_be_named), (case, told.value)
        scene.put_back(lambda file: intact / file.name)
    mine = belongings(tmp_path)
    job.run()
    assert belongings(tmp_path) == mine
    check(topic.servers, topic.name)
    assert not [file for file in files if file.exists()]


@pytest.mark.slow
@pytest.mark.parametrize("room", [100, pytest.param(3_000, marks=pytest.mark.slow)])
def test_the_disk_is_full_while_messages_are_staged(
    room: int, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(lambda path: path.startswith(str(tmp_path / "checkpoints" / "sinks")), room)
    monkeypatch.setattr(os, "write", disk.write)
    job = kafka_job(tmp_path, topic.servers, topic.name, NO_RESTARTS)
    with pytest.raises((OSError, HeadraceError), match="No space left"):
        job.run()
    assert (disk.short, disk.failed > 0) == (1, True)
    disk.is_full = False
    job.run()
    check(topic.servers, topic.name)
    assert staged_files(tmp_path) == []


@pytest.mark.slow
def test_the_checkpoint_directory_is_on_an_object_store(
    topic: Topic, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drivers die before and behind publishing."""
    there = on_s3(s3)
    job = kafka_job(tmp_path, topic.servers, topic.name, there.settings)
    for step in ("commit", "mark", "end"):
        for after in (False, True):
            with monkeypatch.context() as patch:
                Place(step, 2, after).act(_die, patch.setattr)
                job.crash()
    job.run()
    check(topic.servers, topic.name)
    sinks = there.folder.folder("sinks")
    assert [name for sink in sinks.names() for name in sinks.folder(sink).names()] == []


def test_a_topic_that_is_deleted_before_its_messages_are_published(topic: Topic, tmp_path: Path) -> None:
    """Its marker goes with it."""
    job = Interrupted(tmp_path, topic)
    job.crash_before_commit(3)
    topic.delete()
    with pytest.raises(CommitRefusedError, match=r"is gone, so there is no telling .* topic were deleted"):
        job.run()


@pytest.mark.slow
@pytest.mark.parametrize("is_published", [pytest.param(False, marks=pytest.mark.slow), True])
def test_two_jobs_with_one_prefix(is_published: bool, kafka: KafkaCluster, tmp_path: Path) -> None:
    """The one that was started later goes on; the other one does with a prefix of its own, once it is told how."""
    topics = [Topic(kafka.bootstrap_servers, partitions=2) for _ in range(2)]
    prefix = f"p{topics[0].name}"
    sinks = [kafka_sink(topic.servers, topic.name).set_marker_topic(topics[0].name) for topic in topics]
    older, younger = (
        SmallJob(tmp_path / topic.name, sink.set_transactional_id_prefix(prefix).build(), dict(NO_RESTARTS))
        for topic, sink in zip(topics, sinks, strict=True)
    )
    with pytest.MonkeyPatch.context() as patch:
        Place("commit", 3, after=is_published).act(_die, patch.setattr)
        older.crash()
    marker = read_marker(ClientSettings({"bootstrap.servers": topics[0].servers}), f"{prefix}-0", topics[0].name)
    assert marker is not None
    younger.run()
    check(topics[1].servers, topics[1].name)
    for each in (prefix, f"q{prefix}"):
        older.sink = sinks[0].set_transactional_id_prefix(each).build()
        with pytest.raises(CommitRefusedError, match=rf"id {prefix}-[01] .* is used by job .*, as its marker says"):
            older.run()
    if is_published:
        older.sink = sinks[0].set_published_up_to(marker.epoch).build()
    else:
        older.sink = sinks[0].set_missing_marker(MissingMarker.PUBLISH).build()
    older.run()
    check(topics[0].servers, topics[0].name)
    younger.run()


@pytest.mark.slow
def test_two_jobs_with_one_prefix_and_markers_at_different_topics(kafka: KafkaCluster, tmp_path: Path) -> None:
    """They fence each other off, time and again; nothing is lost, and nothing is there twice."""
    topics = [Topic(kafka.bootstrap_servers, partitions=2) for _ in range(2)]
    errors: list[BaseException] = []
    jobs = []
    for topic in topics:
        sink = kafka_sink(topic.servers, topic.name).set_transactional_id_prefix(f"p{topics[0].name}").build()
        jobs.append(SmallJob(tmp_path / topic.name, sink, dict(RESTARTS)).in_background(errors))
    for job in jobs:
        job.join()
    assert errors == []
    for topic in topics:
        check(topic.servers, topic.name)
