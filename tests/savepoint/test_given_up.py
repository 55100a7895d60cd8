"""Tasks that outlive their job, or the savepoint that they write for, leave nothing where nobody looks any more."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import SavepointError
from headrace.runtime.local import LocalRuntime
from headrace.savepoint.disposal import dispose, remove_uncompleted
from headrace.savepoint.metadata import IN_PROGRESS, METADATA
from headrace.savepoint.stored_job import open_job
from headrace.savepoint.tasks import export_version
from headrace.state.hashmap_backend import HashMapBackend
from headrace.state.state_file import VersionRef
from headrace.state_processor import SavepointReader
from headrace.storage.folder import Folder, posix_folder
from headrace.storage.locations import open_storage
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records, wait_until
from tests.savepoint.power import CHANGES


class Tasks:
    """What was to be done for savepoints: a test does it, when it likes.

    Attributes:
        work: writes the state of a task.
        items: the tasks.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.work: Callable[[Any], Any] | None = None
        self.items: list[Any] = []
        run = LocalRuntime.run_background

        def run_background(runtime: LocalRuntime, what: Callable[[Any], Any], items: list[Any], **more: Any) -> Any:
            if not (isinstance(what, partial) and what.func is export_version):
                return run(runtime, what, items, **more)
            self.work, self.items = what, items
            return Future()

        patch.setattr(LocalRuntime, "run_background", run_background)

    def go_on(self) -> list[Any]:
        assert self.work is not None
        return [self.work(item) for item in self.items]


def files(place: Place) -> list[str]:
    return sorted(path.name for path in (place.root / "savepoints").rglob("*") if path.is_file())


def test_tasks_that_go_on_after_the_job_has_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written of the savepoint was removed by then, and is nobody's any more."""
    place = Place(tmp_path)
    place.write("a", {key: key for key in range(20)})
    with monkeypatch.context() as patch:
        tasks = Tasks(patch)
        client = start(place, "job", 2)
        wait_for_records(client, 20)
        savepoint = client.trigger_savepoint()
        wait_until(lambda: bool(tasks.items), client)
        client.cancel().result(DEADLINE)
        assert savepoint.exception(DEADLINE) is not None
    assert IN_PROGRESS in files(place)
    again = start(place, "job", 2)
    place.write("b", {0: 1})
    wait_for_records(again, 21)
    assert files(place) == []
    with pytest.raises(SavepointError, match=r"savepoints/savepoint-.* was given up"):
        tasks.go_on()
    assert not any((tmp_path / "savepoints").rglob("*")), "neither files nor folders"
    again.stop().result(DEADLINE)


@pytest.mark.parametrize("is_copy", [True, False])
def test_a_job_in_a_copy_of_the_directory_leaves_what_the_other_one_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_copy: bool
) -> None:
    """The copy has the pin as well; a link to the directory is no copy of it."""
    place = Place(tmp_path)
    place.write("a", {key: key for key in range(20)})
    tasks = Tasks(monkeypatch)
    client = start(place, "job", 2)
    wait_for_records(client, 20)
    savepoint = client.trigger_savepoint()
    wait_until(lambda: bool(tasks.items), client)
    if not is_copy:
        client.cancel().result(DEADLINE)
    for mine, theirs in (("other", "job"), ("out-other", "out-job")):
        make: Callable[[Path, Path], Any] = shutil.copytree if is_copy else os.symlink
        make(tmp_path / theirs, tmp_path / mine)
    start(place, "other", 2, ends=True).get_job_execution_result().result(DEADLINE)
    assert (IN_PROGRESS in files(place)) is is_copy
    assert list((tmp_path / "other" / "pins").iterdir()) == []
    if is_copy:
        assert len(list((tmp_path / "job" / "pins").iterdir())) == 1
        client.cancel().result(DEADLINE)
    assert savepoint.exception(DEADLINE) is not None


def test_a_task_that_is_done_twice_leaves_a_complete_savepoint_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two attempts the slower one may end when the savepoint is complete; disposed of, it is given up as well."""
    place = Place(tmp_path)
    place.write("a", {key: key for key in range(20)})
    done: list[tuple[HashMapBackend, Folder, VersionRef, int]] = []
    export = HashMapBackend.export_tables

    def noted(backend: HashMapBackend, state: Folder, ref: VersionRef, now: int) -> Any:
        done.append((backend, state, ref, now))
        return export(backend, state, ref, now)

    with monkeypatch.context() as patch:
        patch.setattr(HashMapBackend, "export_tables", noted)
        client = start(place, "job", 2)
        wait_for_records(client, 20)
        savepoint = client.stop_with_savepoint(False).result(DEADLINE)
    assert IN_PROGRESS not in files(place)
    assert len(done) == 2
    for backend, state, ref, now in done:
        assert export_version(backend, state, open_storage(savepoint), now, ref)
    assert SavepointReader.read(savepoint).verify().files > 2
    dispose(open_storage(savepoint), open_storage)
    for backend, state, ref, now in done:
        with pytest.raises(SavepointError, match="was given up"):
            export_version(backend, state, open_storage(savepoint), now, ref)
    assert files(place) == []


def test_a_task_that_writes_at_any_moment_while_what_is_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    place.write("a", {key: key for key in range(20)})
    client = start(place, "job", 2)
    wait_for_records(client, 20)
    client.stop().result(DEADLINE)
    job = open_job(tmp_path / "job", {})
    assert job.state is not None
    for moment in count():
        folder = posix_folder(tmp_path / "savepoints" / f"savepoint-{moment}")
        folder.make()
        folder.create(IN_PROGRESS, b"")
        export = partial(export_version, HashMapBackend("hashmap"), job.state, folder, 0)
        export(job.versions()[0])
        hook = _At(moment, lambda export=export: export(job.versions()[1]))
        with monkeypatch.context() as patch:
            hook.install(patch)
            remove_uncompleted(folder)
        assert files(place) == [], f"a task has written behind step {moment}"
        if hook.moment > 0:
            break
    assert moment > 4
    assert not (tmp_path / "savepoints" / METADATA).exists()


class _At:
    """Does something before a change of folders, once, and suffers whatever that raises.

    Attributes:
        moment: how many changes are still to come before.
    """

    def __init__(self, moment: int, work: Callable[[], Any]) -> None:
        self.moment = moment + 1
        self._work = work

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in ("names", *CHANGES):
            patch.setattr(Folder, name, self._watched(getattr(Folder, name)))

    def _watched(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def step(folder: Folder, *arguments: Any, **more: Any) -> Any:
            self.moment -= 1
            if self.moment == 0:
                with suppress(SavepointError, OSError):
                    self._work()
            return method(folder, *arguments, **more)

        return step
