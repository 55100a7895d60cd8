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
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Final

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.state.operator_state import is_alike, is_for_all
from headrace.state.protocols import kind_of_store
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
    SectionOf,
    StateFiles,
    VersionRef,
    entry_of_run,
    read_version,
    run_of_entry,
    write_run,
)
from headrace.state.ttl import IN_EVENT_TIME
from headrace.storage.folder import Folder

IsWorthMerging = Callable[[str, Sequence[Run]], bool]


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
    """Return where the runs are that have what was merged; None when one of them is gone."""
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
    """Return whether no run between them has some of the hashes; for the oldest ones, nor one before them."""
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
"""The slices of a store, those in the most runs, that are merged in one round; the others wait for the next one."""

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
        size: about how many bytes have to be read.
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
    size: int
    is_oldest: bool
    now: int
    generation: int = 0
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The result of a task.

    Attributes:
        task: the task.
        run: the merged run, as an index describes it, with the name of its file; None when nothing was left.
    """

    task: CompactionTask
    run: Entry | None

    @property
    def file(self) -> str:
        """The file that holds the merged run; empty when nothing was left."""
        return "" if self.run is None else self.run["file"]


def plan_compaction(
    storage: Folder,
    ref: VersionRef,
    now: int = 0,
    generation: int = 0,
    is_worth_merging: IsWorthMerging | None = None,
    event_times: Mapping[str, int] = MappingProxyType({}),
    section_of: SectionOf = Section.stored,
) -> list[CompactionTask]:
    """The merges that are worth doing in a version; ``now`` is a reading of the job's clock, in milliseconds.

    ``event_times`` says by operator what event time the task has reached.

    No two tasks are for the same keys of a store. Runs that are held in the version reference itself are left to the
    epochs. ``is_worth_merging`` is given a store and runs of it, and adds to what is worth it anyway.
    """
    if ref.is_empty:
        return []
    planned: list[CompactionTask] = []
    for (uid, store), runs in sorted(read_version(StateFiles(storage), ref, section_of).by_store().items()):
        in_event_time = runs[-1].meta.get(TTL) == IN_EVENT_TIME
        plan = _StorePlan(ref, uid, store, event_times.get(uid, MIN_WATERMARK) if in_event_time else now, generation)
        tasks = [task for part in _slices(store, runs) if (task := plan.of(part, is_worth_merging))]
        planned += sorted(tasks, key=lambda task: -len(task.runs))[:MOST_SLICES]
    return planned


def run_compaction(storage: Folder, task: CompactionTask) -> CompactionResult:
    """Merges the runs of a task and writes the outcome; the same task always writes the same file.

    Raises:
        StateCorruptedError: when a file is missing or damaged.
    """
    runs = runs_of_task(storage, task)
    batch, meta = merge_runs(runs, is_oldest=task.is_oldest, now=task.now)
    if batch is None:
        return CompactionResult(task, None)
    merged = Run(Section(batch), meta, hashes_of(runs), origin=task.partition)
    about = {"compacted": {**asdict(task), "runs": list(task.runs)}}
    return CompactionResult(task, write_run(storage, merged, task.generation, task.stage, about))


def runs_of_task(storage: Folder, task: CompactionTask, section_of: SectionOf = Section.stored) -> list[Run]:
    """The runs that a task merges; nothing of them is read yet."""
    files = StateFiles(storage)
    return [run_of_entry(entry, section_of(entry, entry["file"], files.loader(entry["file"]))) for entry in task.runs]


def holds_keys(store: str, meta: dict[str, Any]) -> bool:
    """Return whether runs that say this about themselves are of keyed state, with one row for each key."""
    return kind_of_store(store) is None and is_by_key(meta)


def _slices(store: str, runs: list[Run]) -> Iterator[list[Run]]:
    """The runs of a store, as far as they are within a slice, slice by slice."""
    count = 1
    if kind_of_store(store) is None and is_by_hash(runs[-1].meta):
        size = sum(run.nbytes for run in runs)
        while size > count * SLICE_BYTES:  # twice as many, so that a slice of before is two now
            count *= 2
    for hashes in equal_ranges(hashes_of(runs), count):
        parts = [part for run in runs if (part := run.restricted(hashes))]
        if parts:
            yield parts


@dataclass(frozen=True, slots=True)
class _StorePlan:
    """Looks for what is worth merging of one store; attributes as of :class:`CompactionTask`."""

    ref: VersionRef
    uid: str
    store: str
    now: int
    generation: int

    def of(self, runs: list[Run], is_worth: IsWorthMerging | None) -> CompactionTask | None:
        """The runs of a slice that are worth merging; None if another subtask merges them, or none can."""
        is_shared = self.uid in dict(self.ref.shared) and is_alike(self.store, runs[-1].meta)
        if is_shared and self.ref.partition:
            return None  # what all subtasks have alike is merged once, and planned with the first of them
        can_be_read = is_for_all if is_shared else bool
        # Runs that no (common) file holds are small and the newest ones, unless they come from several versions.
        end = next((index for index, run in enumerate(runs) if not can_be_read(run.section.file)), len(runs))
        first = _behind_full(runs[:end])
        start = first + _start(runs[first:end])
        chosen = runs[start:end]
        if not chosen:
            return None
        total = len(runs) - _behind_full(runs)
        if _is_worth_merging(chosen, total) or (is_worth and is_worth(self.store, chosen)):
            # Older runs may say less than the newest one of how the state ages at present: then nothing has expired.
            now = self.now if _ages_as(chosen[-1], runs[-1]) else MIN_WATERMARK
            return self._task(chosen, now, is_oldest=start == 0, is_shared=is_shared)
        return None if is_shared else self._half_expired(runs)

    def _half_expired(self, runs: list[Run]) -> CompactionTask | None:
        """A run that is worth writing anew by itself: half of its elements have expired."""
        if not runs[-1].meta.get(TTL):
            return None
        for index, run in enumerate(runs):
            is_half = run.meta.get(HALF_EXPIRED, MAX_WATERMARK) <= self.now
            if run.section.file and is_half and _ages_as(run, runs[-1]):
                return self._task([run], self.now, is_oldest=index == 0, is_shared=False)
        return None

    def _task(self, runs: list[Run], now: int, *, is_oldest: bool, is_shared: bool) -> CompactionTask:
        entries, size = tuple(map(entry_of_run, runs)), sum(run.nbytes for run in runs)
        ref = self.ref
        return CompactionTask(
            ref.stage, ref.partition, self.uid, self.store, entries, size, is_oldest, now, self.generation, is_shared
        )


def _ages_as(run: Run, newest: Run) -> bool:
    """Return whether elements of a run age, if they do, as the state does at present."""
    return bool(run.meta.get(TTL) == newest.meta.get(TTL))


def _is_worth_merging(chosen: Sequence[Run], total: int) -> bool:
    rows = sum(run.weight for run in chosen)
    if len(chosen) == 1:  # only to get rid of rows that are over
        return rows > INLINE_ROWS and _is_mostly_over(chosen[0])
    # Ordered runs are read from the front, once, and are over then: merging a few costs more than reading them.
    is_large = rows > INLINE_ROWS and not is_ordered(chosen[-1].meta)
    return (is_large and len(starts_of_levels([run.hashes for run in chosen])) > 1) or total > MANY_RUNS


def _behind_full(runs: list[Run]) -> int:
    """Return where the runs begin that may be merged: full ones of ordered runs stay alone until they are over.

    Of others all have to be merged sooner or later, to get rid of what newer ones hide.
    """
    full = (index for index, run in enumerate(runs) if _left(run) > FULL_BYTES and not _is_mostly_over(run))
    return max(full, default=-1) + 1


def _left(run: Run) -> float:
    """Return how many bytes the rows of an ordered run take that are not over; 0 for other runs."""
    return run.section.nbytes * (1 - _over(run)) if is_ordered(run.meta) else 0


def _is_mostly_over(run: Run) -> bool:
    return _over(run) > _MOSTLY


def _over(run: Run) -> float:
    """The part of the rows that is over."""
    over: int = run.meta.get(LOW, 0)
    return over / run.rows


def _start(runs: list[Run]) -> int:
    """The first of the runs that are worth merging with all newer ones: none of a level that is much larger."""
    start, rows, size = len(runs), 0, 0.0
    for first in reversed(starts_of_levels([run.hashes for run in runs])):
        level = runs[first:start]
        weight = sum(run.weight for run in level)
        size += sum(map(_left, level))
        if rows and (size > MOST_BYTES or (weight > GROWTH * rows and start <= MANY_RUNS)):
            break
        start, rows = first, rows + weight
    return start
