"""Power fails at every step of taking a savepoint, starting from one, and disposing of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from headrace.checkpoint.directory import PINS
from headrace.common.errors import SavepointMissingError
from headrace.savepoint.disposal import dispose
from headrace.savepoint.metadata import IN_PROGRESS, METADATA, read_metadata
from headrace.storage.locations import open_storage
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records
from tests.savepoint.power import Machine, PowerFailureError

FROM = "execution.state-recovery.path"
AMOUNTS = {key: key for key in range(20)}
ENDS = sorted(f"k{key} ends with {key} at {10_000 + key}" for key in range(20))
MOST = 80
"""More steps than anything takes that is tried here."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("a", AMOUNTS)
    return place


@pytest.fixture
def machine(place: Place) -> Iterator[Machine]:
    """Counts what changes in a savepoint, and in the pins of a job."""
    with pytest.MonkeyPatch.context() as patch:
        machine = Machine(lambda path: "/savepoint-" in path or path.endswith(f"/{PINS}"))
        machine.install(patch)
        yield machine


def taken(place: Place, kind: str, name: str = "job") -> str:
    """A savepoint of a job that has stopped with it."""
    client = start(place, name, 2)
    wait_for_records(client, 20)
    return client.stop_with_savepoint(False, format_type=kind).result(DEADLINE)


def ends(place: Place, name: str, settings: dict[str, str] | None = None) -> list[str]:
    """What a job shows at its end."""
    client = start(place, name, 3, ends=True, settings=settings)
    client.get_job_execution_result().result(DEADLINE)
    return sorted(line for line in place.lines(f"out-{name}") if "ends" in line)


def savepoints(place: Place) -> list[Path]:
    """The directories of savepoints in which there is anything."""
    found = (place.root / "savepoints").glob("*")
    return sorted(path for path in found if any(each.is_file() for each in path.rglob("*")))


def pins(place: Place, name: str) -> list[str]:
    return [path.name for path in (place.root / name / PINS).iterdir()]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["canonical", "native"])
def test_a_savepoint_that_is_being_taken(kind: str, place: Place, machine: Machine) -> None:
    completed, left = 0, 0
    for step in count():
        assert step < MOST
        name = f"job{step}"
        client = start(place, name, 2)
        wait_for_records(client, 20)
        machine.fail_at(step)
        if client.trigger_savepoint(format_type=kind).exception(DEADLINE) is None and not machine.is_off:
            break
        assert isinstance(client.get_job_execution_result().exception(DEADLINE), PowerFailureError)
        machine.fail_at(None)
        left += any(not (path / METADATA).exists() for path in savepoints(place))
        for path in savepoints(place):
            if not (path / METADATA).exists():
                with pytest.raises(SavepointMissingError):
                    read_metadata(open_storage(str(path)))
        assert ends(place, name) == ENDS, "the job has lost nothing"
        for path in savepoints(place):
            completed += 1
            assert read_metadata(open_storage(str(path))), "what was not completed is gone"
            assert not (path / IN_PROGRESS).exists()
            assert ends(place, f"from{step}", {FROM: str(path)}) == ENDS
            dispose(open_storage(str(path)), open_storage)
        assert pins(place, name) == []
    client.stop().result(DEADLINE)
    assert step > 5
    assert completed == 2, "power failed behind what made it a savepoint, and behind the next step"
    assert left > (0 if kind == "native" else 3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["canonical", "native"])
def test_a_job_that_starts_from_one_and_claims_it(kind: str, place: Place, machine: Machine) -> None:
    """Whether it has begun by then or not, it begins, and the savepoint goes in the end."""
    for step in count():
        assert step < MOST
        savepoint = taken(place, kind, f"job{step}")
        settings = {FROM: savepoint, "execution.state-recovery.claim-mode": "CLAIM"}
        machine.fail_at(step)
        client = start(place, f"again{step}", 3, ends=True, settings=settings)
        error = client.get_job_execution_result().exception(DEADLINE)
        was_off = machine.is_off
        assert isinstance(error, PowerFailureError if was_off else type(None))
        machine.fail_at(None)
        assert ends(place, f"again{step}", settings) == ENDS
        assert savepoints(place) == []
        assert pins(place, f"job{step}") == []
        if not was_off:
            break
    assert step > 5


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["canonical", "native"])
def test_a_savepoint_that_is_being_disposed_of(kind: str, place: Place, machine: Machine) -> None:
    for step in count():
        assert step < MOST
        savepoint = open_storage(taken(place, kind, f"job{step}"))
        machine.fail_at(step)
        try:
            dispose(savepoint, open_storage)
        except PowerFailureError:
            machine.fail_at(None)
            with suppress(SavepointMissingError):  # all that was left to do was to remove empty folders
                dispose(savepoint, open_storage)
            assert savepoints(place) == []
            assert pins(place, f"job{step}") == []
        else:
            break
    with pytest.raises(SavepointMissingError):
        dispose(savepoint, open_storage)
    assert step > 3
