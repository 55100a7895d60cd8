"""Savepoints that are asked for, or disposed of, when something else happens to the job."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

import headrace.savepoint.tasks
from headrace.common import JobStatus
from headrace.common.errors import CheckpointError, HeadraceError, SavepointError
from headrace.savepoint import tasks
from headrace.savepoint.disposal import dispose
from headrace.savepoint.metadata import METADATA, SavepointMetadata, read_metadata
from headrace.storage.locations import open_storage
from tests.savepoint.held_runtime import HeldRuntime
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records, wait_until

FROM = "execution.state-recovery.path"
AMOUNTS = {key: key for key in range(20)}
ENDS = sorted(f"k{key} ends with {key} at {10_000 + key}" for key in range(20))
AT_ONCE = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "9",
    "restart-strategy.fixed-delay.delay": "1 ms",
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("a", AMOUNTS)
    return place


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> HeldRuntime:
    return HeldRuntime(monkeypatch)


def ends(place: Place, savepoint: str, name: str = "again") -> list[str]:
    """What a job shows at its end that starts from a savepoint."""
    start(place, name, 3, ends=True, settings={FROM: savepoint}).get_job_execution_result().result(DEADLINE)
    return sorted(place.lines(f"out-{name}"))


def test_several_at_once(place: Place, held: HeldRuntime) -> None:
    client = start(place, "job", 2)
    wait_for_records(client, 20)
    asked = [client.trigger_savepoint(format_type=kind) for kind in ("canonical", "native", "canonical")]
    last = client.stop_with_savepoint(False)
    assert held.asked.wait(DEADLINE)
    held.may_work.set()
    savepoints = [each.result(DEADLINE) for each in (*asked, last)]
    assert len(set(savepoints)) == 4
    for number, savepoint in enumerate(savepoints):
        assert ends(place, savepoint, f"again{number}") == ENDS
    assert len(list((place.root / "job" / "pins").iterdir())) == 1, "that of the native one"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("what", ["restarts", "is rescaled", "goes on"])
def test_one_that_is_written_while_the_job(what: str, place: Place, held: HeldRuntime) -> None:
    client = start(place, "job", 2, settings=AT_ONCE)
    wait_for_records(client, 20)
    savepoint = client.trigger_savepoint()
    assert held.asked.wait(DEADLINE)
    if what == "restarts":
        held.failures = 3
    if what == "is rescaled":
        client.rescale(3).result(DEADLINE)
    place.write("b", {30: 30})
    wait_for_records(client, 21)
    assert held.failed == (3 if what == "restarts" else 0)
    assert not savepoint.done()
    held.may_work.set()
    assert ends(place, savepoint.result(DEADLINE)) == ENDS
    client.stop(drain=True).result(DEADLINE)
    assert place.totals("out-job") == {f"k{key}": key for key in (*range(20), 30)}


def test_one_that_is_written_while_the_job_ends(place: Place, held: HeldRuntime) -> None:
    client = start(place, "job", 2)
    wait_for_records(client, 20)
    savepoint = client.trigger_savepoint()
    assert held.asked.wait(DEADLINE)
    ended = client.stop(drain=True)
    held.may_work.set()
    ended.result(DEADLINE)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert ends(place, savepoint.result(DEADLINE)) == ENDS


@pytest.mark.parametrize("first", ["the stop", "the savepoint"])
def test_a_job_that_is_stopped_has_none_of_its_end(first: str, place: Place) -> None:
    client = start(place, "job", 2)
    wait_for_records(client, 20)
    entered, may_go_on = threading.Event(), threading.Event()

    def hold() -> None:  # both are asked for between the same two epochs
        entered.set()
        may_go_on.wait(DEADLINE)

    client._manager.request(hold)
    assert entered.wait(DEADLINE)
    stopped = client.stop() if first == "the stop" else None
    drained = client.stop_with_savepoint(True)
    stopped = stopped or client.stop()
    may_go_on.set()
    with pytest.raises(SavepointError, match=r"stopped before its sources had ended.*have not fired.*can go on from"):
        drained.result(DEADLINE)
    stopped.result(DEADLINE)
    assert client.get_job_status().result() is JobStatus.SUSPENDED
    assert not (place.root / "savepoints").exists()
    with pytest.raises(SavepointError, match=r"the job did not come to it. The job has ended; its checkpoint dir"):
        client.trigger_savepoint().result(DEADLINE)
    start(place, "job", 3, ends=True).get_job_execution_result().result(DEADLINE)
    assert len([line for line in place.lines("out-job") if "ends" in line]) == 20


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("how", ["fails", "is cancelled"])
def test_one_that_is_written_while_the_job_is_lost(how: str, stops: bool, place: Place, held: HeldRuntime) -> None:
    client = start(place, "job", 2, settings={"restart-strategy.type": "none"})
    wait_for_records(client, 20)
    savepoint = client.stop_with_savepoint(False) if stops else client.trigger_savepoint()
    assert held.asked.wait(DEADLINE)
    if how == "is cancelled" or stops:  # no epoch runs that could fail
        client.cancel()
    else:
        held.failures = 1
        place.write("b", {30: 30})
    with pytest.raises(SavepointError, match=r"it was not complete\. The job has ended"):
        savepoint.result(DEADLINE)
    client.get_job_execution_result().exception(DEADLINE)
    again = start(place, "job", 3)
    wait_for_records(again, 21 if held.failed else 20)
    wait_until(lambda: list((place.root / "job" / "pins").iterdir()) == [], again)
    assert not [path for path in (place.root / "savepoints").rglob("*") if path.is_file()]
    held.may_work.set()
    assert again.stop_with_savepoint(True).exception(DEADLINE) is None


@pytest.mark.parametrize("kind", ["canonical", "native"])
def test_one_that_is_disposed_of_while_a_job_starts_from_it(
    kind: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job does not start, and says what is missing; or it has all it needs by then."""
    client = start(place, "job", 2)
    wait_for_records(client, 20)
    savepoint = client.stop_with_savepoint(False, format_type=kind).result(DEADLINE)
    reading = tasks.read_table

    def gone(*arguments: object) -> object:
        if Path(savepoint).exists():
            dispose(open_storage(savepoint), open_storage)
        return reading(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(headrace.savepoint.tasks, "read_table", gone)
    if kind == "canonical":
        settings = {FROM: savepoint}
        error = start(place, "again", 3, settings=settings).get_job_execution_result().exception(DEADLINE)
        assert isinstance(error, SavepointError)
        assert ".parquet is missing" in str(error)
        error = start(place, "again", 3, settings=settings).get_job_execution_result().exception(DEADLINE)
        assert "is no savepoint" in str(error)
    else:
        dispose(open_storage(savepoint), open_storage)
        error = start(place, "again", 3, settings={FROM: savepoint}).get_job_execution_result().exception(DEADLINE)
        assert "is no savepoint" in str(error)
    assert place.lines("out-again") == []


def test_what_is_of_others_is_never_disposed_of(place: Place) -> None:
    client = start(place, "job", 2)
    wait_for_records(client, 20)
    savepoint = Path(client.stop_with_savepoint(False).result(DEADLINE))
    (place.root / "precious").write_text("mine")
    (savepoint / "operators" / "README").write_text("mine")
    other = place.root / "other"
    other.mkdir()
    for content in (None, "", "{}", '{"version": 1, "checksum": "00000000"}', "[]"):
        if content is not None:
            (other / METADATA).write_text(content)
        before = _tree(place.root)
        for path in (other, place.root / "job", place.root / "in", place.root / "nowhere"):
            with pytest.raises(SavepointError):
                dispose(open_storage(str(path)), open_storage)
        assert _tree(place.root) == before

    crafted = json.loads((savepoint / METADATA).read_text())
    for table in crafted["tables"]:
        table["path"] = "../../precious"
    metadata = SavepointMetadata.from_bytes(_signed(crafted, savepoint), "crafted")
    (other / METADATA).write_bytes(metadata.to_bytes())
    with pytest.raises(CheckpointError):
        dispose(open_storage(str(other)), open_storage)
    assert (place.root / "precious").read_text() == "mine"

    dispose(open_storage(str(savepoint)), open_storage)
    assert [path.name for path in savepoint.rglob("*") if path.is_file()] == ["README"]
    for _ in range(2):
        with pytest.raises(SavepointError, match="is no savepoint"):
            dispose(open_storage(str(savepoint)), open_storage)


def _tree(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def _signed(document: dict[str, object], savepoint: Path) -> bytes:
    """A document with the checksum that it has to have."""
    from headrace.savepoint import metadata as module

    document.pop("checksum")
    assert read_metadata(open_storage(str(savepoint)))
    return json.dumps({**document, "checksum": module._checksum(document)}).encode()


def test_a_place_that_nobody_may_write_to(place: Place) -> None:
    (place.root / "savepoints").write_text("a file, not a folder")
    client = start(place, "job", 1)
    wait_for_records(client, 20)
    for outcome in (client.trigger_savepoint(), client.stop_with_savepoint(False)):
        with pytest.raises(HeadraceError, match=r"no savepoint was taken in .*The job goes on"):
            outcome.result(DEADLINE)
    place.write("b", AMOUNTS)
    wait_for_records(client, 40)
    client.stop().result(DEADLINE)
    assert list((place.root / "job" / "pins").iterdir()) == []
