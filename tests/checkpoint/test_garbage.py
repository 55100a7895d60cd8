"""Whatever happens to a checkpoint directory: what somebody needs is there, what nobody needs goes, and no more.

Job managers come, go on, are superseded, lose power at any step between two files, and leave; files of state are
written, adopted or not, pinned by savepoints, and put there by strangers.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from headrace.checkpoint.directory import Pin
from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.store import LOOK_AT_PINS, CheckpointStore
from headrace.common.errors import InfrastructureError, JobSupersededError
from tests.checkpoint.disk import Disk, Power, PowerFailureError
from tests.checkpoint.manifests import manifest
from tests.draws import draws

FOREIGN = ("README", "1-0-1-0-aa.state.bak", "compacted.state", "lost+found")
POWER = st.one_of(st.none(), st.integers(0, 12))
PINNED = ("savepoint-one", "savepoint-two")


class Manager:
    """A job manager: its store, and what it knows."""

    def __init__(self, disk: Disk, retained: int) -> None:
        self.store = CheckpointStore(disk, retained)
        self.known: Manifest | None = None
        self.retained = retained
        self.is_clean = False

    def start(self) -> None:
        """As a new process does."""
        found = self.store.latest()
        self.known = self.store.begin(manifest(0)) if found is None else self.store.take_over(found)
        assert self.known is not None
        self.is_clean = found is not None
        if self.is_clean:  # else one that began before, and is still alive, may write the first manifest
            self.store.remove_leftovers(self.known.generation)
        for name in self.store.left_pins():  # the savepoint was not completed
            self.store.unpin(name)

    def owned(self) -> Manifest:
        assert self.known is not None
        return self.known


class GarbageMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.power, self.tree = Power(), dict[str, bytes]()
        self.disk = Disk(self.power, self.tree)
        self.manager: Manager | None = None
        self.superseded: list[Manager] = []
        self.numbers = iter(range(10**6))
        self.foreign = set[str]()
        self.lasting = dict[str, frozenset[str]]()
        self.compacted: str | None = None
        self.is_clean = False

    # --- what happens ------------------------------------------------------------------------------------------------

    def _with_power(self, steps: int | None, work: Any) -> bool:
        """Do something until it is done, or power is lost; False when it was, and all processes are gone."""
        self.power.steps = steps
        try:
            work()
        except PowerFailureError:
            self.manager, self.superseded, self.compacted = None, [], None
            return False
        finally:
            self.power.steps = None
        return True

    @rule(retained=st.integers(1, 3), steps=POWER)
    def start(self, retained: int, steps: int | None) -> None:
        """A job manager starts, whether or not another one is alive."""
        self.is_clean = False
        if self.manager is not None:
            self.superseded.append(self.manager)

        def begin() -> None:
            self.manager = Manager(self.disk, retained)
            self.manager.start()

        self.compacted = None
        self.is_clean = self._with_power(steps, begin) and self.manager is not None and self.manager.is_clean

    @precondition(lambda self: self.manager is not None)
    @rule(needs=st.integers(0, 7), steps=POWER, adopts=st.booleans())
    def epoch(self, needs: int, steps: int | None, adopts: bool) -> None:
        """An epoch writes a file, goes on needing some older ones, and may adopt what was compacted."""
        manager = self.manager
        assert manager is not None

        def run() -> None:
            known = manager.owned()
            older = [name for bit, name in enumerate(known.state_files()) if needs >> bit & 1]
            mine = self._name(f"{known.epoch + 1}-{known.generation}-1-0")
            self._write(mine)
            compacted, self.compacted = self.compacted, None
            taken = [compacted] if compacted and adopts else []
            following = replace(
                manifest(known.epoch + 1, *older, *taken, mine), generation=known.generation, job_id=known.job_id
            )
            try:
                manager.store.write(following)
            except InfrastructureError:  # one that was superseded has just written that one: the job begins again
                manager.known = manager.store.restart(known)
                manager.store.remove_leftovers(manager.known.generation)
                return
            manager.known = following
            if compacted and not taken:
                manager.store.state.remove(compacted)
            manager.store.collect_garbage()

        self.is_clean = self._with_power(steps, run) and self.is_clean

    @precondition(lambda self: self.manager is not None)
    @rule()
    def epoch_that_fails(self) -> None:
        """Its tasks leave a file that no manifest will name; then the job begins again."""
        assert self.manager is not None
        known = self.manager.owned()
        self._write(self._name(f"{known.epoch + 1}-{known.generation}-1-0"))
        self.is_clean = False

    @precondition(lambda self: self.manager is not None)
    @rule(steps=POWER)
    def restart(self, steps: int | None) -> None:
        """The job begins again within the process."""
        manager = self.manager
        assert manager is not None

        def again() -> None:
            manager.known = manager.store.restart(manager.owned())
            manager.store.remove_leftovers(manager.owned().generation)

        self.compacted = None
        self.is_clean = self._with_power(steps, again)

    @precondition(lambda self: self.manager is not None and self.compacted is None)
    @rule()
    def compact(self) -> None:
        """Work beside the epochs has written a file."""
        assert self.manager is not None
        self.compacted = self._name(f"compacted-{self.manager.owned().generation}-1-0")
        self._write(self.compacted)

    @precondition(lambda self: self.manager is not None and self.manager.owned().epoch > 0)
    @rule(name=st.sampled_from(PINNED), lasts=st.booleans(), steps=POWER)
    def pin(self, name: str, lasts: bool, steps: int | None) -> None:
        manager = self.manager
        assert manager is not None
        if name in self.lasting:
            return
        known = manager.store._pins._known.get(name)  # a savepoint that is complete now has the files it began with
        files = tuple(manager.owned().state_files()) if known is None else known.files
        self._with_power(steps, lambda: manager.store.pin(name, Pin(name, files, lasts)))
        # It may have been written, and nobody was told; or one that does not last is still there.
        if lasts and b'"lasts": true' in self.tree.get(f"pins/{name}", b""):
            self.lasting[name] = frozenset(files)

    @precondition(lambda self: self.manager is not None and self.lasting)
    @rule(name=st.sampled_from(PINNED), steps=POWER)
    def unpin(self, name: str, steps: int | None) -> None:
        manager = self.manager
        assert manager is not None
        self.lasting.pop(name, None)
        self.is_clean = self._with_power(steps, lambda: manager.store.unpin(name)) and self.is_clean

    @precondition(lambda self: self.lasting)
    @rule(name=st.sampled_from(PINNED))
    def others_dispose_of_a_savepoint(self, name: str) -> None:
        if self.lasting.pop(name, None) is not None:
            self.disk.folder("pins").remove(name)

    @rule(name=st.sampled_from(FOREIGN))
    def strangers_put_a_file(self, name: str) -> None:
        self._write(name)
        self.foreign.add(f"state/{name}")

    @precondition(lambda self: self.superseded)
    @rule()
    def who_was_superseded_goes_on(self) -> None:
        """It does what it would have done next, and hears of it."""
        under_way = set[str]()
        if self.manager is not None:  # a task of the owner has written its state, and the epoch is not over
            owned = self.manager.owned()
            under_way.add(self._name(f"{owned.epoch + 1}-{owned.generation}-1-0"))
        for name in under_way:
            self._write(name)
        for old in self.superseded:
            known = old.owned()
            old.store.remove_leftovers(known.generation)
            assert {f"state/{name}" for name in under_way} <= self._state()
            mine = self._name(f"{known.epoch + 1}-{known.generation}-1-0")
            self._write(mine)
            old.store.collect_garbage()
            try:
                old.store.write(replace(known, epoch=known.epoch + 1))
            except (JobSupersededError, InfrastructureError):
                continue
            raise AssertionError("it was superseded")
        self.superseded = []
        self.is_clean = False

    @precondition(lambda self: self.manager is not None)
    @rule(steps=POWER)
    def discard(self, steps: int | None) -> None:
        """The job has ended, and its checkpoints are not wanted any more."""
        manager = self.manager
        assert manager is not None
        done = self._with_power(steps, lambda: manager.store.discard(manager.owned(), ()))
        self.is_clean, self.manager, self.compacted = False, None, None
        if done:
            assert not any(path.startswith("manifests/") for path in self.tree)
            left = {path.removeprefix("state/") for path in self._state()}
            pinned = frozenset().union(*self.lasting.values())
            temporary = manager.store._pins.files
            assert left <= pinned | temporary | {path.removeprefix("state/") for path in self.foreign}

    @precondition(lambda self: self.is_clean and self.manager is not None)
    @rule(needs=st.integers(0, 7))
    def nothing_is_left_over(self, needs: int) -> None:
        """After a clean start and some epochs there is what is needed, and nothing else."""
        for _ in range(LOOK_AT_PINS):
            self.epoch(needs=needs, steps=None, adopts=False)
        manager = self.manager
        assert manager is not None
        kept = self._manifests()
        assert len(kept) <= manager.retained
        pinned = manager.store._pins.files
        assert pinned <= self._pinned()
        needed = {name for each in kept for name in each.state_files()} | pinned
        assert self._state() - self.foreign == {f"state/{name}" for name in needed}

    # --- what always holds -------------------------------------------------------------------------------------------

    @invariant()
    def what_manifests_need_is_there(self) -> None:
        for each in self._manifests():
            assert {f"state/{name}" for name in each.state_files()} <= self._state(), each.epoch

    @invariant()
    def what_native_savepoints_need_is_there(self) -> None:
        for files in self.lasting.values():
            assert {f"state/{name}" for name in files} <= self._state()

    @invariant()
    def what_strangers_have_put_there_stays(self) -> None:
        assert self.foreign <= self.tree.keys()

    def _manifests(self) -> list[Manifest]:
        found = [path for path in self.tree if path.startswith("manifests/") and path.endswith(".json")]
        return [Manifest.from_bytes(self.tree[path], path) for path in found]

    def _pinned(self) -> set[str]:
        """What is kept by the pins that are there."""
        found = [json.loads(data)["files"] for path, data in self.tree.items() if path.startswith("pins/")]
        return {name for files in found for name in files}

    def _state(self) -> set[str]:
        return {path for path in self.tree if path.startswith("state/")}

    def _name(self, prefix: str) -> str:
        return f"{prefix}-{next(self.numbers):016x}.state"

    def _write(self, name: str) -> None:
        self.disk.folder("state").write(name, [b"state"])


def test_whatever_happens() -> None:
    run_state_machine_as_test(GarbageMachine, settings=settings(max_examples=draws(60), stateful_step_count=25))  # type: ignore[no-untyped-call]
