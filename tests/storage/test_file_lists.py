"""The list of files that a source has seen, on object stores."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import StateCorruptedError
from headrace.connectors.file_system import enumerator
from headrace.connectors.file_system.enumerator import FileJournal, KnownFiles, load
from headrace.connectors.source import EnumeratorContext
from headrace.storage.files import FileStatus
from headrace.storage.folder import Folder as Checkpoints
from headrace.storage.locations import open_storage
from headrace.storage.object_store import ObjectStore
from tests.connectors.harness import SourceRun
from tests.connectors.test_watched_folder import DAY, Folder
from tests.storage.s3_server import S3Server


@pytest.fixture
def logs() -> Checkpoints:
    pytest.importorskip("obstore")
    return Checkpoints(ObjectStore(f"memory:///{uuid.uuid4().hex}"), "/sources/one")


def status(name: str) -> FileStatus:
    return FileStatus(name, 1, 1_700_000_000_000_000_001)


def stored(journal: FileJournal) -> Any:
    return json.loads(json.dumps(journal.reference()))


def test_it_comes_back_as_every_manifest_knew_it(logs: Checkpoints) -> None:
    journal = FileJournal(logs, None)
    references = []
    for number in range(40):
        journal.add([status(f"/in/{number}"), status(f"/in/more {number}")], number)
        references.append(stored(journal))
    for number, reference in enumerate(references):
        known = load(logs, reference)
        assert (len(known), known.newest) == (2 * number + 2, number)
    again = FileJournal(logs, references[3])
    again.add([status("/in/x")], 99)
    ((name, _),) = stored(again)
    assert name == "files-00000041.log"
    assert len(load(logs, references[-1])) == 80, "what an older life has written is left as it was"


def test_what_could_not_be_written_is_in_the_next_one(logs: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = FileJournal(logs, None)
    journal.add([status("/in/a")], 1)
    stored(journal)
    for tries in range(3):
        journal.add([status(f"/in/b{tries}")], 2)
        with monkeypatch.context() as patch:
            patch.setattr(Checkpoints, "create", _refuse)
            with pytest.raises(OSError, match="not now"):
                journal.reference()
    reference = stored(journal)
    assert load(logs, reference) == KnownFiles(
        newest=2, pending=[status(f"/in/{name}") for name in ("a", "b0", "b1", "b2")]
    )


def _refuse(self: Checkpoints, name: str, content: bytes) -> bool:
    raise OSError("not now")


@pytest.mark.parametrize("damaged", [0, 1])
@pytest.mark.parametrize("damage", ["gone", "changed", "cut", "swapped"])
def test_damage_is_found(logs: Checkpoints, damaged: int, damage: str) -> None:
    journal = FileJournal(logs, None)
    for number in range(2):
        journal.add([status(f"/in/{number}")], number)
        reference = stored(journal)
    name, other = reference[damaged][0], reference[1 - damaged][0]
    content = logs.read(name)
    replacement = {"changed": content.replace(b"/in", b"/on"), "cut": content[:-1], "swapped": logs.read(other)}
    logs.remove(name)
    if damage != "gone":
        logs.write(name, [replacement[damage]])
    with pytest.raises(StateCorruptedError, match=rf"memory:///.*/sources/one/{name}"):
        load(logs, reference)


def test_a_list_that_is_gone_is_named(logs: Checkpoints) -> None:
    journal = FileJournal(logs, None)
    journal.add([status("/in/a")], 1)
    reference = stored(journal)
    logs.remove(reference[0][0])
    with pytest.raises(StateCorruptedError, match=r"missing: memory:///.*/files-00000001\.log"):
        load(logs, reference)


@pytest.mark.slow
def test_a_folder_is_watched(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over many logs and restarts; old logs are removed."""
    logs = open_storage(f"{s3.new_bucket()}/sources/one", options=s3.options())

    def start(self: SourceRun, state: Any) -> None:
        self.enumerator = self.source.create_enumerator(EnumeratorContext(2, logs, state))

    monkeypatch.setattr(SourceRun, "_start", start)
    monkeypatch.setattr(enumerator, "_MIN_ENTRIES", 4)
    monkeypatch.setattr(enumerator, "_MOST_KEPT", 4)
    folder = Folder(tmp_path)
    for number in range(40):
        folder.put(f"{number:03}")
        assert folder.epoch() == [f"{number:03}"]
        folder.run.now += DAY
        if number % 10 == 0:
            folder.run.restart()
    assert 1 < len(logs.names()) <= 10
