"""What follows a commit happens for every epoch, also where the driver dies in the middle of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.common.durable import write_file
from headrace.common.serialization import Encoder
from headrace.connectors.file_system.rolling import RollingPolicy
from headrace.connectors.sink import Committer, CommitterContext
from headrace.datastream.connectors.file_system import BucketAssigner, FileSink
from tests.reliability.support.small_jobs import COUNT, EPOCHS, SPLITS, CrashError, SmallJob, WatchedSink

DIES_IN: dict[str, int] = {}
"""At which step of a list the driver dies, and in which epoch; once."""


class ListedFiles(WatchedSink):
    """Keeps a list for each epoch of the visible files of the sink inside."""

    def __init__(self, folder: Path) -> None:
        sink = FileSink.for_row_format(folder / "output", Encoder.simple_string_encoder())
        sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        super().__init__(sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return ListedFiles, (self.folder,)

    def create_committer(self, context: CommitterContext) -> Committer:
        committer = self.sink.create_committer(context)
        assert committer is not None
        return _Lister(committer, self.folder)


class _Lister(Committer):
    def __init__(self, committer: Committer, folder: Path) -> None:
        self._committer = committer
        self._folder = folder
        (folder / "lists").mkdir(exist_ok=True)

    def commit(self, epoch: int, committables: Sequence[Any], processing_time: int) -> None:
        self._committer.commit(epoch, committables, processing_time)

    def post_commit(self, epoch: int, committables: Sequence[Any], processing_time: int) -> None:
        visible = {path.name for path in (self._folder / "output").glob("part-*")}
        self._die("before", epoch)
        listed = {name for path in self._lists() if path.stem != f"{epoch}" for name in json.loads(path.read_text())}
        names = sorted(visible - listed)
        write_file(self._folder / "lists" / f"{epoch}.json", [json.dumps(names).encode()])
        self._die("after", epoch)

    def recover(self, in_progress: Any) -> None:
        self._committer.recover(in_progress)

    def finish(self) -> None:
        self._committer.finish()

    def _lists(self) -> list[Path]:
        return list((self._folder / "lists").glob("*.json"))

    @staticmethod
    def _die(where: str, epoch: int) -> None:
        if DIES_IN.get(where) == epoch:
            del DIES_IN[where]
            raise CrashError


@pytest.mark.sampled(1)
@pytest.mark.parametrize("where", ["before", "after"])
def test_every_file_is_in_one_list(where: str, tmp_path: Path) -> None:
    job = SmallJob(tmp_path, ListedFiles(tmp_path))
    DIES_IN[where] = 4
    job.crash()
    assert not DIES_IN
    job.run()
    lists = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "lists").iterdir()}
    files = [path for path in (tmp_path / "output").glob("part-*") if path.is_file()]
    assert len(lists) == EPOCHS
    assert all(lists.values())
    assert sorted(name for names in lists.values() for name in names) == sorted(path.name for path in files)
    assert sum(len(path.read_text().splitlines()) for path in files) == SPLITS * COUNT
