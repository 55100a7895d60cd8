"""The tests of this folder run on topics of the embedded log, and of Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.log import Log
from headrace.storage.folder import Folder, posix_folder
from tests.connectors.log_topics import LogTopic
from tests.connectors.partitions.driver import TopicDriver


@pytest.fixture(params=["log", pytest.param("kafka", marks=pytest.mark.integration)])
def topic(request: pytest.FixtureRequest, tmp_path: Path) -> TopicDriver:
    if request.param == "log":
        return LogTopic(Log.open(str(tmp_path / "log"), create=True))
    pytest.importorskip("confluent_kafka")
    from tests.connectors.kafka.topics import Topic

    return Topic(request.getfixturevalue("kafka").bootstrap_servers)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return posix_folder(tmp_path)
