"""How the outcome of a compaction takes the place of what it was made of, in a store that has gone on meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.state.runs.layout import FORMER_TTL, SHOWN, TTL
from headrace.state.runs.ordered import FLOOR, brought_to, is_ordered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.state.run_entries import Entry
    from headrace.state.runs import HashRange, Run, RunStore


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
