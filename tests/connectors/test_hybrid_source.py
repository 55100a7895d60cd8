"""One source after the other: nothing is lost or read twice at the switch, wherever the job is cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.common.errors import CheckpointError, InvalidProgramError, InvalidTypeError
from headrace.common.time import Duration
from headrace.connectors.hybrid import HybridSource, SourceSwitchContext
from headrace.connectors.ranges import CollectionSource, DataGeneratorSource, NumberSequenceSource
from headrace.connectors.source import Boundedness, EnumeratorContext, Pending, ReadBudget, Source
from headrace.datastream import OutputTag
from headrace.datastream.connectors.file_system import FileSource, StreamFormat
from headrace.storage.folder import posix_folder
from tests.connectors.harness import SourceRun, read_all
from tests.draws import draws


def rest(context: SourceSwitchContext) -> Source:
    """The numbers from where the first source has ended up to 100."""
    return NumberSequenceSource(context.positions["sequence"] + 1, 100)


def numbers() -> HybridSource:
    builder = HybridSource.builder(NumberSequenceSource(1, 40)).add_source(rest, Boundedness.BOUNDED)
    return builder.add_source(NumberSequenceSource(101, 120)).build()


def test_one_after_the_other(tmp_path: Path) -> None:
    source = numbers()
    assert source.boundedness is Boundedness.BOUNDED
    assert source.produced_type == Types.LONG()
    assert read_all(source, tmp_path) == list(range(1, 121))


def test_the_last_one_may_have_no_end() -> None:
    endless = DataGeneratorSource(itself, type_info=Types.LONG())
    builder = HybridSource.builder(NumberSequenceSource(1, 40)).add_source(endless)
    assert builder.build().boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    with pytest.raises(InvalidProgramError, match="source 2 of a HybridSource never ends"):
        builder.add_source(NumberSequenceSource(1, 2))


def itself(index: int) -> int:
    return index


@pytest.mark.slow
@settings(deadline=None, max_examples=draws(45))
@given(size=st.integers(1, 50), pieces=st.integers(1, 4))
def test_a_restart_at_every_epoch(tmp_path_factory: pytest.TempPathFactory, size: int, pieces: int) -> None:
    run = SourceRun(numbers(), tmp_path_factory.mktemp("run"))
    budget = ReadBudget(size, 10**9, pieces)
    assert run.to_end(budget, run.restart) == list(range(1, 121))
    for snapshot in range(len(run.snapshots)):
        run.restart(snapshot)
        assert run.to_end(budget) == list(range(1, 121))


def test_sources_with_nothing_in_them_are_passed_over(tmp_path: Path) -> None:
    builder = HybridSource.builder(CollectionSource([], Types.LONG())).add_source(NumberSequenceSource(1, 0))
    run = SourceRun(builder.add_source(NumberSequenceSource(5, 6)).build(), tmp_path)
    for _ in range(4):  # the job runs an epoch for a split that ends, also where nothing is read
        run.epoch()
        for split in run.enumerator.discover(0):
            run.positions.setdefault(split, run.enumerator.initial_position(split))
        run.enumerator.checkpoint_completed(dict(run.positions))
    assert run.rows == [5, 6]
    assert run.is_finished()
    assert run.enumerator.is_complete()


def test_a_source_ends_only_when_a_checkpoint_says_so(tmp_path: Path) -> None:
    enumerator = numbers().create_enumerator(EnumeratorContext(1, posix_folder(tmp_path)))
    (split,) = enumerator.discover(7)
    read = enumerator.plan(split, 0, ReadBudget(1000, 10**6), 7)
    assert read is not None
    assert enumerator.is_finished(split, read.end)
    assert enumerator.discover(8) == [split], "the epoch may fail yet"
    enumerator.checkpoint_completed({split: read.end})
    assert enumerator.discover(9) == ["1:sequence"]
    assert enumerator.snapshot()["switch"] == [{"sequence": 40}, 7]
    enumerator.checkpoint_completed({split: read.end, "1:sequence": 0})
    assert enumerator.discover(9) == ["1:sequence"]


def test_what_is_read_before_the_last_source_is_a_backlog(tmp_path: Path) -> None:
    run = SourceRun(numbers(), tmp_path)
    seen = []
    for _ in range(3):
        (split,) = run.enumerator.discover(0)
        pending = run.enumerator.pending(split, 0, 0)
        seen.append((split, run.enumerator.is_processing_backlog(0), pending, run.enumerator.is_complete()))
        run.epoch()
    assert seen == [
        ("0:sequence", True, Pending(40, 320), False),
        ("1:sequence", True, Pending(60, 480), False),
        ("2:sequence", False, Pending(20, 160), True),
    ]


def test_files_and_then_a_watched_folder(tmp_path: Path) -> None:
    for name, lines in (("old/1", "a\nb\n"), ("old/2", "c\n"), ("new/1", "d\n")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(lines)
    text = StreamFormat.text_line_format()
    old = FileSource.for_record_stream_format(text, tmp_path / "old").build()
    new = FileSource.for_record_stream_format(text, tmp_path / "new").monitor_continuously(Duration.of_seconds(1))
    source = HybridSource.builder(old).add_source(new.build()).build()
    assert source.locations == (str(tmp_path / "old"), str(tmp_path / "new"))
    run = SourceRun(source, tmp_path / "state")
    for number in range(6):
        run.now += 1000
        run.epoch(ReadBudget(1, 2))
        run.restart()
        if number == 4:
            (tmp_path / "new" / "2").write_text("e\n")
    assert run.rows == ["a", "b", "c", "d", "e"]


def test_sources_have_to_fit() -> None:
    builder = HybridSource.builder(NumberSequenceSource(1, 40))
    with pytest.raises(InvalidTypeError, match="the first has Long, and source 2 has String"):
        builder.add_source(CollectionSource(["a"]))
    with pytest.raises(InvalidTypeError, match="add_source takes a Source, or a function that makes one, not 5"):
        builder.add_source(5)  # type: ignore[arg-type]
    text = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "in")
    with pytest.raises(InvalidProgramError, match=r"source 2 of a HybridSource has dead letters \('bad'\)"):
        HybridSource.builder(CollectionSource(["a"])).add_source(text.set_dead_letter(OutputTag("bad")).build())


@pytest.mark.parametrize(
    ("factory", "boundedness", "message"),
    [
        (
            lambda context: 5,
            Boundedness.BOUNDED,
            "source 2 of a HybridSource has to be a Source, and its factory gave 5",
        ),
        (
            rest,
            Boundedness.CONTINUOUS_UNBOUNDED,
            "source 2 of a HybridSource is bounded, and was declared as unbounded",
        ),
        (lambda context: CollectionSource(["a"]), Boundedness.BOUNDED, "source 2 has String"),
    ],
)
def test_what_a_factory_makes_has_to_fit(factory: Any, boundedness: Boundedness, message: str, tmp_path: Path) -> None:
    source = HybridSource.builder(NumberSequenceSource(1, 2)).add_source(factory, boundedness).build()
    enumerator = source.create_enumerator(EnumeratorContext(1, posix_folder(tmp_path)))
    enumerator.discover(0)
    enumerator.checkpoint_completed({"0:sequence": 2})
    with pytest.raises((InvalidProgramError, InvalidTypeError), match=message):
        enumerator.discover(0)


def test_other_sources_than_those_of_the_checkpoint_are_refused(tmp_path: Path) -> None:
    run = SourceRun(numbers(), tmp_path)
    run.epoch()
    run.epoch()
    state = run.enumerator.snapshot()
    folder = posix_folder(tmp_path)
    other = HybridSource.builder(NumberSequenceSource(1, 40)).add_source(CollectionSource([1])).build()
    with pytest.raises(
        CheckpointError, match="source 2, a NumberSequenceSource, and that of the program is a Collection"
    ):
        other.create_enumerator(EnumeratorContext(1, folder, state))
    fewer = HybridSource.builder(NumberSequenceSource(1, 40)).build()
    with pytest.raises(CheckpointError, match="source 2, a NumberSequenceSource, and the program has 1"):
        fewer.create_enumerator(EnumeratorContext(1, folder, state))
