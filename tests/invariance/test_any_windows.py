"""Whole jobs with windows of every kind show what Flink's rules say, whatever happens to them meanwhile."""

from __future__ import annotations

import errno
import itertools
import random
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import strategies as st

from headrace.common import Row
from headrace.datastream.window import (
    AccumulationMode,
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
    WindowStagger,
)
from headrace.storage.folder import MappedFile
from headrace.storage.posix import PosixFolder
from headrace.windowing.assigners.of_time import ProcessingTimeAssigner
from tests.invariance.driver import Cut, cuts, examples
from tests.invariance.window_programs import FUNCTIONS, EventTime, Program, at_even, bounded, without_watermarks
from tests.windowing.scenarios import KEYS, Windows, windows

pytestmark = pytest.mark.filterwarnings("ignore:allowed_lateness has no effect", "ignore:.*show nothing by themselves")

_OF_COUNTS: Final = (CountTumblingWindowAssigner, CountSlidingWindowAssigner)
_ENDLESS: Final = (GlobalWindows, *_OF_COUNTS)

event_times = st.builds(
    EventTime.with_idleness,
    st.one_of(st.builds(bounded, st.integers(0, 12)), st.just(without_watermarks()), st.just(at_even())),
    st.sampled_from([None, None, 1, 5]),
)

elements = st.builds(
    lambda key, value, time: Row(key=key, value=value, time=time),
    st.sampled_from(KEYS),
    st.integers(0, 20),
    st.integers(-20, 40),
)
splits = st.lists(st.lists(elements, max_size=20), min_size=1, max_size=4)
happenings = st.builds(
    replace,
    cuts,
    ticks=st.lists(st.integers(0, 9), min_size=1, max_size=3).map(tuple),
    faults=st.frozensets(st.integers(1, 12), max_size=2),
    recovers=st.booleans(),
)


def _is_certain(given: Windows) -> bool:
    """Not where each task has windows of its own, nor where windows repeat themselves until the input ends."""
    is_staggered = getattr(given.assigner, "stagger", WindowStagger.ALIGNED) is not WindowStagger.ALIGNED
    return not is_staggered and not (isinstance(given.assigner, _ENDLESS) and _is_continuous(given.trigger))


def _is_continuous(trigger: Any) -> bool:
    nested = getattr(trigger, "nested_trigger", None)
    return isinstance(trigger, ContinuousEventTimeTrigger) or (nested is not None and _is_continuous(nested))


@st.composite
def programs(draw: st.DrawFn, *, is_batch: bool = False) -> Program:
    """Programs of every kind."""
    found = draw(windows().filter(_is_certain))
    modes = list(AccumulationMode)
    if isinstance(found.assigner, _OF_COUNTS):
        modes.remove(AccumulationMode.ACCUMULATING_AND_RETRACTING)  # which is refused: they are shown once
    function = draw(st.sampled_from(list(FUNCTIONS)))
    return Program(found, draw(st.sampled_from(modes)), FUNCTIONS[function], draw(splits), draw(event_times), is_batch)


def _has_clock(program: Program) -> bool:
    return isinstance(program.windows.assigner, ProcessingTimeAssigner)


@examples(40, program=programs(), cut=happenings)
def test_streaming(program: Program, cut: Cut) -> None:
    program.check(cut)


@examples(20, program=programs(is_batch=True).filter(lambda program: not _has_clock(program)), cut=happenings)
def test_batch(program: Program, cut: Cut) -> None:
    program.check(cut)


# --- every way in which windows are computed --------------------------------------------------------------------------

TEN: Final = TumblingEventTimeWindows.of(10, 3)
EACH_FOUR: Final = ContinuousEventTimeTrigger.of(4)
RETRACTING: Final = AccumulationMode.ACCUMULATING_AND_RETRACTING
WAYS: Final[dict[str, tuple[WindowAssigner[Any, Any], str, dict[str, Any]]]] = {
    "tumbling": (TEN, "built-in", {}),
    "tumbling, late records": (TEN, "built-in", {"lateness": 8}),
    "tumbling, retracting": (TEN, "built-in", {"lateness": 8, "mode": RETRACTING}),
    "tumbling, discarding": (TEN, "built-in", {"lateness": 8, "mode": AccumulationMode.DISCARDING}),
    "tumbling, of all": (TEN, "built-in of all", {}),
    "sliding": (SlidingEventTimeWindows.of(12, 3, 1), "built-in", {"lateness": 4}),
    "sliding, retracting": (SlidingEventTimeWindows.of(12, 3), "built-in", {"lateness": 8, "mode": RETRACTING}),
    "cumulating": (CumulatingEventTimeWindows.of(12, 3), "built-in", {}),
    "sessions": (EventTimeSessionWindows.with_gap(4), "built-in", {}),
    "sessions, of all": (EventTimeSessionWindows.with_gap(2), "built-in of all", {}),
    "by the clock": (TumblingProcessingTimeWindows.of(10), "built-in", {}),
    "sliding by the clock": (SlidingProcessingTimeWindows.of(12, 3), "built-in", {}),
    "count": (CountTumblingWindowAssigner.of(3), "built-in", {}),
    "end of the stream": (GlobalWindows.create_with_end_of_stream_trigger(), "built-in", {}),
    "at intervals": (TEN, "built-in", {"trigger": EACH_FOUR}),
    "at intervals, retracting": (TEN, "built-in", {"trigger": EACH_FOUR, "mode": RETRACTING, "lateness": 8}),
    "record by record": (TEN, "built-in", {"trigger": CountTrigger.of(2)}),
    "record by record, retracting": (TEN, "built-in", {"trigger": CountTrigger.of(2), "mode": RETRACTING}),
    "sessions, late records": (EventTimeSessionWindows.with_gap(4), "built-in", {"lateness": 8, "mode": RETRACTING}),
    "sliding counts": (CountSlidingWindowAssigner.of(3, 2), "built-in", {}),
    "an evictor": (TEN, "built-in", {"evictor": CountEvictor.of(2)}),
    "contents by their ends": (TEN, "listed", {"lateness": 8}),
    "folded contents by their ends": (SlidingEventTimeWindows.of(12, 3), "aggregated", {"lateness": 8}),
    "contents by key": (TEN, "listed", {"trigger": CountTrigger.of(2)}),
    "contents by key, retracting": (TEN, "listed", {"lateness": 8, "mode": RETRACTING}),
    "contents of all": (TEN, "listed of all", {}),
    "contents of sessions": (EventTimeSessionWindows.with_gap(4), "listed", {"lateness": 8, "mode": RETRACTING}),
    "reduced sessions": (EventTimeSessionWindows.with_gap(4), "reduced", {}),
    "contents by the clock": (ProcessingTimeSessionWindows.with_gap(8), "listed", {}),
    "contents with an evictor": (TEN, "listed", {"evictor": CountEvictor.of(2, True), "trigger": CountTrigger.of(3)}),
}
FAULTS: Final = frozenset({1, 2, 3})


def _numbers(seed: int) -> list[list[Row]]:
    """Three splits of which one is far ahead, and most are not in order."""
    chance = random.Random(seed)
    return [
        [
            Row(key=chance.choice(KEYS), value=chance.randrange(20), time=ahead + time + chance.randrange(-9, 4))
            for time in range(-20, 40, 4)
        ]
        for ahead in (0, 0, 25)
    ]


def _way(name: str) -> Program:
    """A program whose windows are computed in one of these ways."""
    assigner, function, options = WAYS[name]
    parts = Windows(assigner, options.get("trigger"), options.get("evictor"), options.get("lateness", 0))
    mode = options.get("mode", AccumulationMode.ACCUMULATING)
    return Program(parts, mode, FUNCTIONS[function], _numbers(len(name)), bounded(3))


@pytest.mark.parametrize("way", WAYS)
def test_lives_of_one_epoch_some_of_which_fail(way: str) -> None:
    """Each life has another parallelism, and the state of the one before; in three of them a sink fails."""
    cut = Cut(
        shares=(6, 9, 4),
        pieces=(2, 1),
        batch=3,
        parallelism=(1, 3, 2),
        restarts=frozenset(range(1, 40)),
        crashes=frozenset({3, 6}),
        inline_threshold=0,
        ticks=(3, 5),
        faults=FAULTS,
        recovers=len(way) % 2 == 0,
    )
    assert _way(way).check(cut).faults == len(FAULTS)


@pytest.mark.parametrize("way", ["contents by key", "contents of sessions", "sessions, late records", "count"])
def test_state_files_that_cannot_be_read_for_a_moment_are_no_failure_of_a_function(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = itertools.count(1)
    failed: list[str] = []

    def map_file(folder: PosixFolder, name: str) -> MappedFile:
        if next(asked) in (2, 4, 6):
            failed.append(name)
            raise OSError(errno.EIO, "the disk is away")
        return whole(folder, name)

    whole = PosixFolder.map
    monkeypatch.setattr(PosixFolder, "map", map_file)
    cut = Cut((6, 9, 4), parallelism=(1, 3, 2), restarts=frozenset(range(1, 9)), inline_threshold=0, faults=FAULTS)
    assert _way(way).check(replace(cut, recovers=True)).faults == len(FAULTS)
    assert len(failed) == 3
