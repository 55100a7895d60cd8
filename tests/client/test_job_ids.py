"""A job has one id, from its submission to its result and over its runs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from headrace.checkpoint.store import CheckpointStore
from headrace.common import Configuration
from headrace.common.errors import CheckpointStorageError
from headrace.datastream import StreamExecutionEnvironment
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.checkpoint.manifest import Manifest
    from headrace.client.job_client import JobClient


def submit(directory: Path | None, last: int = 3) -> JobClient:
    configuration = Configuration().set_string("headrace.runtime", "local")
    if directory is not None:
        configuration.set_string("execution.checkpointing.dir", str(directory))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_sequence(1, last).key_by(lambda number: number).reduce(max).uid("max").print()
    return env.execute_async()


@pytest.mark.parametrize("is_kept", [False, True])
def test_it_is_the_same_before_the_job_looks_for_checkpoints(
    tmp_path: Path, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "checkpoints" if is_kept else None
    earlier = submit(directory).get_job_execution_result().result().get_job_id()
    asked, found = threading.Event(), CheckpointStore.latest

    def late(store: CheckpointStore) -> Manifest | None:
        assert asked.wait(PATIENCE)
        return found(store)

    monkeypatch.setattr(CheckpointStore, "latest", late)
    client = submit(directory)
    threading.Timer(0.2, asked.set).start()
    job_id = client.get_job_id()
    assert client.get_job_execution_result().result().get_job_id() == job_id == client.get_job_id()
    assert (job_id == earlier) is is_kept


def test_a_job_that_fails_before_it_has_looked_has_one_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: CheckpointStore) -> None:
        raise CheckpointStorageError("no disk")

    monkeypatch.setattr(CheckpointStore, "latest", broken)
    client = submit(tmp_path)
    with pytest.raises(CheckpointStorageError, match="no disk"):
        client.get_job_execution_result().result()
    assert client.get_job_id() == client.get_job_id()
