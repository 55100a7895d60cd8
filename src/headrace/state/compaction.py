"""Compaction: merging large runs outside the epochs.

``plan_compaction`` looks at a version and says what is worth merging, ``run_compaction`` does it, in any process and at
any time, since runs never change, and ``HashMapTaskStates.adopt`` puts the outcome into a later version, if that still
has the runs that were merged. An outcome that comes too late is a file that no version needs.

Keyed state that is large is cut into slices, equal ranges of hashes. Each slice is planned and merged by itself, to a
file of its own, so no merge takes more memory, time or disk than a slice does, however large the state is. Of a run
that spans several slices the part of one that was merged does not count any more; its file goes when all parts have
gone that way.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import StateCorruptedError
from headrace.state.operator_state import is_alike, is_for_all, kind_of_store
from headrace.state.runs import HashRange, Run, RunStore
from headrace.state.runs.layout import FORMER_TTL, HALF_EXPIRED, SHOWN, TTL
from headrace.state.runs.merge_input import FLOOR, LOW, brought_to, is_ordered
from headrace.state.runs.merging import (
    GROWTH,
    INLINE_ROWS,
    MANY_RUNS,
    MOST_BYTES,
    equal_ranges,
    is_by_hash,
    is_by_key,
    merge_runs,
)
from headrace.state.runs.run import hashes_of, starts_of_levels
from headrace.state.runs.sections import Section
from headrace.state.state_file import (
    Entry,
    VersionRef,
    part_of_entry,
    read_index,
    run_of_entry,
    size_of_entry,
    weight_of_entry,
    write_run,
)
from headrace.state.ttl import IN_EVENT_TIME
from headrace.storage.file_system import MappedFile
from headrace.storage.folder import Folder

IsWorthMerging = Callable[["CompactionTask"], bool]


def adopt(store: RunStore, merged: Sequence[Entry], new: Run | None, *, is_oldest: bool) -> bool:
    """Puts a run in the place of those, or of those parts of runs, that it was made of.

    Args:
        store: the store.
        merged: what was merged, oldest first, as the index of an earlier version had it.
        new: the outcome; None when nothing was left.
        is_oldest: whether nothing older was there that has hashes of these.

    Returns:
        False when they are not all there any more, one after the other; the store stays as it is.
    """
    runs = list(store.runs)
    places = _places(runs, merged)
    if places is None or not _follow_one_another(runs, places, _union(merged), is_oldest=is_oldest):
        return False
    first, end = places[0], places[-1] + 1
    left = {place: runs[place].without(_hashes(entry)) for place, entry in zip(places, merged, strict=True)}
    inserted = [] if new is None else _caught_up(new, [runs[place] for place in places], merged)
    left[first] = sorted([*left[first], *inserted], key=lambda run: run.hashes)  # so that they are one level
    store.substitute(runs[first:end], [part for place in range(first, end) for part in left.get(place, [runs[place]])])
    return True


def _places(runs: Sequence[Run], merged: Sequence[Entry]) -> list[int] | None:
    """Where the runs are that have what was merged; None when one of them is gone."""
    places: list[int] = []
    for entry in merged:
        after = places[-1] + 1 if places else 0
        found = next((place for place in range(after, len(runs)) if _has(runs[place], entry)), None)
        if found is None:
            return None
        places.append(found)
    return places


def _has(run: Run, entry: Entry) -> bool:
    if (run.section.file, run.section.offset) != (entry["file"], entry["at"]):
        return False
    if any(run.meta.get(name) != entry["meta"].get(name) for name in (TTL, FORMER_TTL)):
        return False  # the state has got another time to live
    low, high = _hashes(entry)
    return run.hashes[0] <= low and high <= run.hashes[1]


def _follow_one_another(runs: Sequence[Run], places: Sequence[int], hashes: HashRange, *, is_oldest: bool) -> bool:
    """Whether no other run between them has some of the hashes; if they are to be the oldest, nor one before them."""
    others = set(range(0 if is_oldest else places[0], places[-1])).difference(places)
    return all(runs[place].restricted(hashes) is None for place in others)


def _hashes(entry: Entry) -> HashRange:
    low, high = entry["hashes"]
    return low, high


def _union(merged: Sequence[Entry]) -> HashRange:
    return min(entry["hashes"][0] for entry in merged), max(entry["hashes"][1] for entry in merged)


def _caught_up(new: Run, old: Sequence[Run], merged: Sequence[Entry]) -> list[Run]:
    """Brings a merged run to where time has come since the work was planned."""
    if not is_ordered(new.meta):
        shown = [run.meta[SHOWN] for run in old if SHOWN in run.meta]
        return [new.with_meta({**new.meta, SHOWN: max(shown)}) if shown else new]
    pairs = zip(old, merged, strict=True)
    # Only floors that have moved: one that has not may be above rows of a newer run, which are not over.
    moved = [run.meta[FLOOR] for run, entry in pairs if run.meta.get(FLOOR) != entry["meta"].get(FLOOR)]
    if not moved:
        return [new]
    left = brought_to(new, max(moved))
    return [] if left is None else [left]


FULL_BYTES: Final = MOST_BYTES // 2
"""From this size on an ordered run is not merged any more."""

SLICE_BYTES: Final = 1 << 26
"""No more bytes of keyed state are merged at once, as far as hashes are spread evenly; it takes four times as much."""

MOST_SLICES: Final = 8
"""So many slices of a store, those in the most runs, are merged in one round; the others wait for the next one."""

_MOSTLY: Final = 0.75
"""A large run is written anew for its own sake when this part of its rows is over."""


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """Runs of one store that follow one another and are worth merging.

    Attributes:
        stage: the stage of the task that owns them.
        partition: its partition.
        uid: the operator.
        store: the store.
        runs: the runs, oldest first, as an index describes them, with the names of their files.
        is_oldest: whether the store has no older run.
        now: milliseconds, of the time that elements of the store age in; what has expired by then is dropped.
        generation: that of the job manager, so that an older one which is still alive cannot delete the outcome.
        is_shared: whether all subtasks of the operator have these runs, and have to adopt the outcome together.
    """

    stage: int
    partition: int
    uid: str
    store: str
    runs: tuple[Entry, ...]
    is_oldest: bool
    now: int
    generation: int = 0
    is_shared: bool = False

    @property
    def rows(self) -> int:
        """About how many rows, or elements of their lists, have to be read."""
        return sum(map(weight_of_entry, self.runs))

    @property
    def size(self) -> int:
        """About how many bytes have to be read."""
        return sum(map(size_of_entry, self.runs))

    @property
    def is_of_keys(self) -> bool:
        """Whether these are runs of keyed state, with one row for each key."""
        return _is_of_keys(self.store, self.runs)

    def to_json(self) -> dict[str, Any]:
        """The task as JSON."""
        return {**asdict(self), "runs": list(self.runs)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> "CompactionTask":
        """The task that :meth:`to_json` described."""
        return CompactionTask(**{**data, "runs": tuple(data["runs"])})


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What became of a task.

    Attributes:
        task: the task.
        run: the merged run, as an index describes it, with the name of its file; None when nothing was left.
    """

    task: CompactionTask
    run: Entry | None

    @property
    def uid(self) -> str:
        """The operator."""
        return self.task.uid

    @property
    def store(self) -> str:
        """The store."""
        return self.task.store

    @property
    def file(self) -> str:
        """The file that holds the merged run; empty when nothing was left."""
        return "" if self.run is None else self.run["file"]

    def to_json(self) -> dict[str, Any]:
        """The result as JSON."""
        return {"task": self.task.to_json(), "run": self.run}

    @staticmethod
    def from_json(data: dict[str, Any]) -> "CompactionResult":
        """The result that :meth:`to_json` described."""
        return CompactionResult(CompactionTask.from_json(data["task"]), data["run"])

    def adopt_into(self, store: RunStore, run: Run | None) -> bool:
        """Replaces the merged runs in a store by the new one, if any; returns False when they are not all there."""
        return adopt(store, self.task.runs, run, is_oldest=self.task.is_oldest)


def plan_compaction(
    storage: Folder,
    ref: VersionRef,
    now: int = 0,
    generation: int = 0,
    is_worth_merging: IsWorthMerging | None = None,
    event_times: Mapping[str, int] = MappingProxyType({}),
) -> list[CompactionTask]:
    """What is worth merging in a version; ``now`` is a reading of the job's clock, in milliseconds.

    ``event_times`` says by operator what event time the task has reached.

    No two tasks are for the same keys of a store. Runs that are held in the version reference itself are left to the
    epochs. ``is_worth_merging`` adds to what is worth it anyway.
    """
    if ref.is_empty:
        return []
    planned: list[CompactionTask] = []
    for (uid, name), entries in sorted(_stores_of(storage, ref).items()):
        scale = entries[-1]["meta"].get(TTL)
        time = event_times.get(uid, MIN_WATERMARK) if scale == IN_EVENT_TIME else now
        slices = (_planned(ref, uid, name, part, time, is_worth_merging) for part in _slices(name, entries))
        tasks = [task for task in slices if task is not None]
        planned += sorted(tasks, key=lambda task: -len(task.runs))[:MOST_SLICES]
    return [replace(task, generation=generation) for task in planned]


def _stores_of(storage: Folder, ref: VersionRef) -> dict[tuple[str, str], list[Entry]]:
    """The runs of a version by operator and store."""
    file = mapped(storage, ref.name) if ref.name else MappedFile(pa.py_buffer(ref.inline))
    index = read_index(file, ref)
    stores: dict[tuple[str, str], list[Entry]] = {}
    for entry in index["runs"]:
        named = {**entry, "file": ref.name if entry["file"] < 0 else index["files"][entry["file"]]}
        stores.setdefault((entry["uid"], entry["store"]), []).append(named)
    return stores


def run_compaction(storage: Folder, task: CompactionTask) -> CompactionResult:
    """Merges the runs of a task and writes the outcome; the same task always writes the same file.

    Raises:
        StateCorruptedError: when a file is missing or damaged.
    """
    runs = [
        run_of_entry(entry, Section.stored(entry, entry["file"], partial(mapped, storage, entry["file"])))
        for entry in task.runs
    ]
    batch, meta = merge_runs(runs, is_oldest=task.is_oldest, now=task.now)
    if batch is None:
        return CompactionResult(task, None)
    merged = Run(Section(batch), meta, hashes_of(runs), origin=task.partition)
    about = {"compacted": task.to_json()}
    return CompactionResult(task, write_run(storage, merged, task.generation, task.stage, about))


def _is_of_keys(store: str, entries: Sequence[Entry]) -> bool:
    return kind_of_store(store) is None and is_by_key(entries[-1]["meta"])


def _slices(store: str, entries: list[Entry]) -> Iterator[list[Entry]]:
    """The runs of a store, as far as they are within a slice, slice by slice."""
    count = 1
    if kind_of_store(store) is None and is_by_hash(entries[-1]["meta"]):
        size = sum(map(size_of_entry, entries))
        while size > count * SLICE_BYTES:  # twice as many, so that a slice of before is two now
            count *= 2
    low, high = min(entry["hashes"][0] for entry in entries), max(entry["hashes"][1] for entry in entries)
    for hashes in equal_ranges((low, high), count):
        parts = [part for entry in entries if (part := part_of_entry(entry, hashes))]
        if parts:
            yield parts


def _planned(
    ref: VersionRef, uid: str, store: str, entries: list[Entry], now: int, is_worth: IsWorthMerging | None
) -> CompactionTask | None:
    """What is worth merging of the runs of a store, or of a slice of it."""
    task = _plan_store(ref, uid, store, entries, now)
    if task is None:
        return None
    if _is_worth_merging(task.runs, len(entries) - _behind_full(entries)) or (is_worth and is_worth(task)):
        return task
    return _half_expired(task, entries)


def _plan_store(ref: VersionRef, uid: str, store: str, entries: list[Entry], now: int) -> CompactionTask | None:
    """What would merge runs of a store, if that is worth it; None where others do it, or nobody can."""
    is_shared = uid in dict(ref.shared) and is_alike(store, entries[-1]["meta"])
    if is_shared and ref.partition:
        return None  # what all subtasks have alike is merged once, and planned with the first of them
    can_be_read = is_for_all if is_shared else bool
    # Runs that no (common) file holds are small and the newest ones, unless they come from several versions.
    end = next((index for index, entry in enumerate(entries) if not can_be_read(entry["file"])), len(entries))
    first = _behind_full(entries[:end])
    start = first + _start(entries[first:end])
    chosen = tuple(entries[start:end])
    if not chosen:
        return None
    # Older runs may say less than the newest one of how the state ages at present: then nothing of them has expired.
    time = now if _ages_as(chosen[-1], entries[-1]) else MIN_WATERMARK
    return CompactionTask(ref.stage, ref.partition, uid, store, chosen, start == 0, time, is_shared=is_shared)


def _ages_as(entry: Entry, newest: Entry) -> bool:
    """Whether elements of a run age, if they do, as the state does at present."""
    return bool(entry["meta"].get(TTL) == newest["meta"].get(TTL))


def _half_expired(task: CompactionTask, entries: list[Entry]) -> CompactionTask | None:
    """The same for a run of the store that is worth writing anew by itself: half of its elements have expired."""
    if task.is_shared or not entries[-1]["meta"].get(TTL):
        return None
    for index, entry in enumerate(entries):
        is_half = entry["meta"].get(HALF_EXPIRED, MAX_WATERMARK) <= task.now
        if entry["file"] and is_half and _ages_as(entry, entries[-1]):
            return replace(task, runs=(entry,), is_oldest=index == 0)
    return None


def _is_worth_merging(chosen: Sequence[Entry], total: int) -> bool:
    rows = sum(map(weight_of_entry, chosen))
    if len(chosen) == 1:  # only to get rid of rows that are over
        return rows > INLINE_ROWS and _is_mostly_over(chosen[0])
    # Ordered runs are read from the front, once, and are over then: merging a few costs more than reading them.
    is_large = rows > INLINE_ROWS and not is_ordered(chosen[-1]["meta"])
    return (is_large and len(_starts_of_levels(chosen)) > 1) or total > MANY_RUNS


def _behind_full(entries: list[Entry]) -> int:
    """Where the runs begin that may be merged: of ordered ones those that are full stay alone until they are over.

    Of others all have to be merged sooner or later, to get rid of what newer ones hide.
    """
    full = (index for index, entry in enumerate(entries) if _left(entry) > FULL_BYTES and not _is_mostly_over(entry))
    return max(full, default=-1) + 1


def _left(entry: Entry) -> float:
    """How many bytes the rows of an ordered run take that are not over; 0 for other runs."""
    over: int = entry["meta"].get(LOW, 0)
    size: int = entry["size"]
    return size * (1 - over / entry["rows"]) if is_ordered(entry["meta"]) else 0


def _is_mostly_over(entry: Entry) -> bool:
    over: int = entry["meta"].get(LOW, 0)
    rows: int = entry["rows"]
    return over > _MOSTLY * rows


def _start(entries: list[Entry]) -> int:
    """The first of the runs that are worth merging with all newer ones: none of a level that is much larger."""
    start, rows, size = len(entries), 0, 0.0
    for first in reversed(_starts_of_levels(entries)):
        level = entries[first:start]
        weight = sum(map(weight_of_entry, level))
        size += sum(map(_left, level))
        if rows and (size > MOST_BYTES or (weight > GROWTH * rows and start <= MANY_RUNS)):
            break
        start, rows = first, rows + weight
    return start


def _starts_of_levels(entries: Sequence[Entry]) -> list[int]:
    return starts_of_levels([(low, high) for low, high in (entry["hashes"] for entry in entries)])


def mapped(storage: Folder, name: str) -> MappedFile:
    """A state file.

    Raises:
        StateCorruptedError: when it is missing.
    """
    try:
        return storage.map(name)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise StateCorruptedError(f"the state file {name} is missing") from error
