"""Whole jobs with windows of every kind show what Flink's rules say, whatever happens to them meanwhile."""

from __future__ import annotations

import errno
import itertools
import random
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import strategies as st

from headrace.common import Row
from headrace.datastream.window import (
    AccumulationMode,
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    CumulatingEventTimeWindows,
    EventTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
)
from headrace.operators.window.columnar import local_aggregate
from headrace.storage.file_system import MappedFile
from headrace.storage.folder import Folder
from headrace.windowing.assigners import ProcessingTimeAssigner
from tests.invariance.driver import Cut, Ran, cuts, examples
from tests.invariance.window_programs import FUNCTIONS, EventTime, Program, at_even, bounded, without_watermarks
from tests.invariance.window_ways import EACH_FOUR, SESSIONS, TEN, WAYS, program_of
from tests.windowing.scenarios import KEYS, Windows, windows

pytestmark = pytest.mark.filterwarnings("ignore:allowed_lateness has no effect", "ignore:.*show nothing by themselves")

_OF_COUNTS: Final = (CountTumblingWindowAssigner, CountSlidingWindowAssigner)

event_times = st.builds(
    EventTime.with_idleness,
    st.one_of(
        st.just(without_watermarks()),
        st.builds(
            EventTime.with_alignment,
            st.one_of(st.builds(bounded, st.integers(0, 12)), st.just(at_even())),
            st.sampled_from([None, None, 0, 3, 10]),
        ),
    ),
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


@st.composite
def programs(draw: st.DrawFn, *, is_batch: bool = False) -> Program:
    """Programs of every kind."""
    found = draw(windows())
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


@st.composite
def purging_programs(draw: st.DrawFn) -> Program:
    """Programs with a ``PurgingTrigger``, which windows that are computed by columns or by their ends do without."""
    assigners = [TEN, SlidingEventTimeWindows.of(12, 3, 1), CumulatingEventTimeWindows.of(12, 3), SESSIONS]
    trigger = PurgingTrigger.of(draw(st.sampled_from([EventTimeTrigger(), EACH_FOUR])))
    parts = Windows(draw(st.sampled_from(assigners)), trigger, None, draw(st.sampled_from([0, 0, 8])))
    mode = draw(st.sampled_from([AccumulationMode.ACCUMULATING, AccumulationMode.DISCARDING]))
    function = FUNCTIONS[draw(st.sampled_from(["built-in", "listed", "aggregated"]))]
    return Program(parts, mode, function, draw(splits), draw(event_times))


@examples(10, program=purging_programs(), cut=happenings)
def test_triggers_that_drop_what_was_shown(program: Program, cut: Cut) -> None:
    program.check(cut)


@st.composite
def adding_programs(draw: st.DrawFn) -> Program:
    """Programs whose windows are added up by senders as well."""
    way = draw(st.sampled_from(["sums", "sums of sliding", "sums of the stream", "sums by the clock"]))
    mode = draw(st.sampled_from(list(AccumulationMode)))
    return replace(program_of(way, draw(splits)), mode=mode, times=draw(event_times))


@examples(20, program=adding_programs(), cut=happenings)
def test_senders_that_add_up_whatever_comes(program: Program, cut: Cut) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_aggregate, "_WORTHWHILE", 2.0)
        program.check(cut)


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
    return program_of(name, _numbers(len(name)))


@pytest.mark.sampled(3)
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


@pytest.mark.sampled(1)
@pytest.mark.parametrize("way", ["contents by key", "contents of sessions", "sessions, late records", "count"])
def test_state_files_that_cannot_be_read_for_a_moment_are_no_failure_of_a_function(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = itertools.count(1)
    failed: list[str] = []

    def map_file(folder: Folder, name: str) -> MappedFile:
        if next(asked) in (2, 4, 6):
            failed.append(name)
            raise OSError(errno.EIO, "the disk is away")
        return whole(folder, name)

    whole = Folder.map
    monkeypatch.setattr(Folder, "map", map_file)
    cut = Cut((6, 9, 4), parallelism=(1, 3, 2), restarts=frozenset(range(1, 9)), inline_threshold=0, faults=FAULTS)
    assert _way(way).check(replace(cut, recovers=True)).faults == len(FAULTS)
    assert len(failed) == 3


@pytest.mark.parametrize("bound", [0, 3])
def test_a_split_that_is_ahead_waits_for_the_others(bound: int) -> None:
    ahead = ("events", 2)
    program = replace(_way("tumbling, late records"), times=bounded(bound).with_alignment(5))
    history = program.check(Cut((3, 2), parallelism=(2,), restarts=frozenset({4})))
    epochs = [event for event in history.events if isinstance(event, Ran)]
    read = [number for number, epoch in enumerate(epochs) if ahead in epoch.reads]
    assert read[1] - read[0] > 2, "it was read without a pause"
