"""A position is given to the source that it is of: others are refused, or a warning says what has changed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.checkpoint.manifest import Manifest, SourceIdentity, SourceSnapshot, SplitSnapshot
from headrace.common import options
from headrace.common.errors import StateMigrationError
from headrace.common.typeinfo import Types
from headrace.connectors.driver_sink import CollectSink
from headrace.connectors.ranges import CollectionSource, NumberSequenceSource
from headrace.connectors.source import Source
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSource, StreamFormat
from headrace.jobmanager.recovery import check_compatible, without_unclaimed
from headrace.jobmanager.sources import identity_of, same_sources
from headrace.plan.job_plan import JobPlan, PlannedOperator, PlanSettings
from headrace.plan.planner import plan_job
from headrace.testing import JobHarness
from headrace.testing.stored_state import Checkpoint
from headrace.time.watermark_strategy import WatermarkStrategy

IGNORE = {options.IGNORE_UNCLAIMED_STATE.key: "true"}
SPLITS = (SplitSnapshot("split", 0, 5),)


def lines_of(*paths: str | Path, is_watched: bool = True) -> FileSource[str]:
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), *paths)
    return (builder.monitor_continuously(1) if is_watched else builder).build()


class Renamed(NumberSequenceSource):
    """A class that was renamed, and says so."""

    @property
    def position_kind(self) -> str:
        return "NumberSequenceSource"


class Placed(NumberSequenceSource):
    """A class that says where it reads."""

    def __init__(self, places: tuple[str, ...]) -> None:
        super().__init__(1, 9)
        self.places = places

    @property
    def locations(self) -> tuple[str, ...]:
        return self.places


# --- a job goes on ---------------------------------------------------------------------------------------------------


def folder(root: Path, name: str, *lines: str) -> Path:
    made = root / name
    made.mkdir()
    (made / "first.txt").write_text("".join(f"{line}\n" for line in lines))
    return made


def reads(*sources: tuple[str, Path], has_uids: bool = False) -> Callable[[JobHarness], None]:
    """A job that reads the lines of some folders."""

    def build(job: JobHarness) -> None:
        for name, path in sources:
            lines = job.env.from_source(lines_of(path), WatermarkStrategy.no_watermarks(), name)
            job.add_sink(f"{name} lines", lines.uid(name) if has_uids else lines)

    return build


def checkpoint_after(build: Callable[[JobHarness], None]) -> Checkpoint:
    with JobHarness(build) as job:
        job.run_epoch()
        return job.checkpoint()


def test_a_source_that_is_put_before_another_one_does_not_get_its_position(tmp_path: Path) -> None:
    old, new = folder(tmp_path, "old", "a", "b"), folder(tmp_path, "new", "c")
    held = checkpoint_after(reads(("old", old)))
    refused = JobHarness(reads(("new", new), ("old", old)), restore=held)
    told = rf"position of FileSource\({old}\) \(its uid \w+ is now that of FileSource\({new}\), 'new' at .*py:\d+"
    with pytest.raises(StateMigrationError, match=told) as error:
        refused.run_epoch()
    refused.close()
    assert "give the operators the uids they had, and new ones their own" in str(error.value)


def test_with_uids_the_sources_of_a_program_may_change_places(tmp_path: Path) -> None:
    old, new = folder(tmp_path, "old", "a", "b"), folder(tmp_path, "new", "c")
    held = checkpoint_after(reads(("old", old), has_uids=True))
    with JobHarness(reads(("new", new), ("old", old), has_uids=True), restore=held) as job:
        (old / "second.txt").write_text("d\n")
        job.run_epoch()
        assert (job.take("old lines"), job.take("new lines")) == (["d"], ["c"])


def test_a_position_that_may_be_left_behind_is_not_gone_on_from(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = folder(tmp_path, "old", "a", "b"), folder(tmp_path, "new", "c")
    held = checkpoint_after(reads(("old", old)))
    build = reads(("new", new), ("old", old))
    with JobHarness(build, restore=held, configuration=IGNORE) as job:
        job.run_epoch()
        assert (job.take("old lines"), job.take("new lines")) == (["a", "b"], ["c"])
        later = job.checkpoint()
    assert "leaves behind the position of FileSource" in caplog.text
    assert "goes on from" not in caplog.text
    with JobHarness(build, restore=later) as job:  # without the setting: the positions are in their places now
        job.run_epoch()
        assert (job.take("old lines"), job.take("new lines")) == ([], [])


def test_behind_a_source_that_is_left_behind_none_goes_on_from_its_position(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gone, kept = folder(tmp_path, "gone", "a"), folder(tmp_path, "kept", "b")
    held = checkpoint_after(reads(("gone", gone), ("kept", kept)))
    with JobHarness(reads(("kept", kept)), restore=held, configuration=IGNORE) as job:
        job.run_epoch()
        assert job.take("kept lines") == ["b"]
    assert f"leaves behind the position of FileSource({gone})" in caplog.text
    assert "goes on from" not in caplog.text


@pytest.mark.parametrize("has_uids", [True, False])
def test_a_folder_may_move(has_uids: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before, after = folder(tmp_path, "before", "a"), folder(tmp_path, "after", "b")
    held = checkpoint_after(reads(("lines", before), has_uids=has_uids))
    with JobHarness(reads(("lines", after), has_uids=has_uids), restore=held) as job:
        job.run_epoch()
        assert job.take("lines lines") == ["b"]
        later = job.checkpoint()
    assert f"is FileSource({after}) now, and goes on from the position of FileSource({before})" in caplog.text
    caplog.clear()
    with JobHarness(reads(("lines", after), has_uids=has_uids), restore=later) as job:
        job.run_epoch()
    assert "goes on from" not in caplog.text


# --- what fits what --------------------------------------------------------------------------------------------------


def plan_of(*sources: tuple[str | None, Source]) -> JobPlan:
    """Sources with these uids, or without."""
    env = StreamExecutionEnvironment.get_execution_environment()
    for number, (uid, source) in enumerate(sources):
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), f"source {number}")
        stream = stream if uid is None else stream.uid(uid)
        stream.sink_to(CollectSink(list)).uid(f"sink {number}")
    return plan_job(env.transformations.next_job(), PlanSettings("job", 1, 128))


def sources_of(job: JobPlan) -> list[PlannedOperator]:
    return [operator for operator in job.operators() if not operator.node.inputs]


def manifest_of(job: JobPlan, identity: SourceIdentity | None, **changes: Any) -> Manifest:
    """What was written when the first source of a job was another one."""
    uid = next(job.operators()).uid
    snapshot = SourceSnapshot(**{"enumerator": None, "splits": SPLITS, "identity": identity, **changes})
    return Manifest(1, 0, "id", "job", 128, 0, {uid: snapshot})


@pytest.mark.parametrize("uid", ["numbers", None])
def test_a_source_of_another_kind_is_refused_whatever_its_uid(uid: str | None) -> None:
    job = plan_of((uid, NumberSequenceSource(1, 9)))
    held = manifest_of(job, identity_of(CollectionSource([1], Types.LONG())))
    with pytest.raises(
        StateMigrationError, match=r"of CollectionSource \(its uid \w+ is now that of NumberSequenceSource"
    ):
        check_compatible(held, job)
    check_compatible(held, job, ignore_unclaimed=True)
    assert without_unclaimed(held, job).sources == {}


@pytest.mark.parametrize(
    ("identity", "changes"),
    [
        (None, {}),
        (SourceIdentity("NumberSequenceSource"), {}),
        (SourceIdentity("CollectionSource"), {"splits": ()}),
    ],
    ids=["of a manifest that does not say it", "the same", "of a source without a position"],
)
def test_a_position_is_kept_unless_it_is_known_to_be_of_another_source(
    identity: SourceIdentity | None, changes: dict[str, Any]
) -> None:
    job = plan_of((None, Renamed(1, 9)))
    held = manifest_of(job, identity, **changes)
    check_compatible(held, job)
    assert without_unclaimed(held, job) == held


@pytest.mark.parametrize(("uid", "is_refused"), [(None, True), ("named", False)])
def test_a_position_of_another_source_of_the_program_is_refused_under_a_derived_uid_alone(
    uid: str | None, is_refused: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Who names a source may well mean it to read something else from now on."""
    job = plan_of((uid, lines_of("/in/a")), ("other", lines_of("/in/b")))
    held = manifest_of(job, identity_of(lines_of("/in/b")))
    if is_refused:
        with pytest.raises(
            StateMigrationError, match=r"position of FileSource\(/in/b\) .*FileSource\(/in/a\), 'source 0'"
        ):
            check_compatible(held, job)
    else:
        check_compatible(held, job)
        assert "uid named) is FileSource(/in/a) now" in caplog.text


def test_one_of_two_sources_that_read_the_same_may_move(caplog: pytest.LogCaptureFixture) -> None:
    job = plan_of((None, lines_of("/in/else")), (None, lines_of("/in/a")))
    held = manifest_of(job, identity_of(lines_of("/in/a")))
    both = replace(held, sources={operator.uid: next(iter(held.sources.values())) for operator in sources_of(job)})
    check_compatible(both, job)
    assert without_unclaimed(both, job) == both
    assert "is FileSource(/in/else) now" in caplog.text


@pytest.mark.parametrize("uid", [None, "files"])
def test_another_scheme_of_the_same_place_is_no_move(uid: str | None, caplog: pytest.LogCaptureFixture) -> None:
    job = plan_of((uid, lines_of("s3a://b/in", "s3://a/in", "abfs://c@account.dfs.core.windows.net/in")))
    for schemes in (("s3a", "s3a", "abfs"), ("s3", "s3", "abfss"), ("s3", "s3a", "abfs")):
        places = [f"{schemes[0]}://a/in", f"{schemes[1]}://b/in", f"{schemes[2]}://c@account.dfs.core.windows.net/in"]
        before = SourceIdentity("FileSource", tuple(sorted(places)))
        check_compatible(manifest_of(job, before), job)
    assert not caplog.text
    check_compatible(manifest_of(job, SourceIdentity("FileSource", ("s3a://b/other",))), job)
    assert "goes on from the position of FileSource(s3://b/other)" in caplog.text


@pytest.mark.parametrize("places", [8, 9, 20])
def test_many_places_are_the_same_ones_as_well(places: int, caplog: pytest.LogCaptureFixture) -> None:
    source = lines_of(*(f"s3a://b/{number:02}" for number in range(places)))
    job = plan_of(("files", source))
    check_compatible(manifest_of(job, identity_of(source)), job)
    assert not caplog.text


@pytest.mark.parametrize(("before", "after"), [((), ("/in/a",)), (("/in/a",), ())])
def test_a_source_that_does_not_say_where_it_reads_is_not_taken_to_have_moved(
    before: tuple[str, ...], after: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """Its class may have begun to, or have given it up."""
    job = plan_of((None, Placed(after)))
    check_compatible(manifest_of(job, SourceIdentity("Placed", before)), job)
    assert not caplog.text


def test_the_class_that_was_renamed_is_told_how_to_say_so() -> None:
    job = plan_of(("numbers", Placed(())))
    with pytest.raises(StateMigrationError, match="have its position_kind be 'NumberSequenceSource'"):
        check_compatible(manifest_of(job, SourceIdentity("NumberSequenceSource")), job)


def test_a_source_that_ends_looks_for_nothing_in_its_new_place(caplog: pytest.LogCaptureFixture) -> None:
    job = plan_of(("files", lines_of("/in/a", is_watched=False)))
    with caplog.at_level(logging.WARNING):
        check_compatible(manifest_of(job, identity_of(lines_of("/in/b"))), job)
    assert caplog.text.strip().endswith("what that had found is still read; as it ends, it looks for nothing new")


def test_what_is_written_of_many_locations_is_short_and_tells_them_apart() -> None:
    paths = [f"/in/{number:03}" for number in range(100)]
    many, others = identity_of(lines_of(*paths)), identity_of(lines_of(*paths[:-1], "/in/else"))
    assert len(many.locations) == 9
    assert many.locations[-1].startswith("92 more (")
    assert many != others
    assert identity_of(lines_of(*reversed(paths), paths[3])) == many


def test_sources_are_found_by_what_they_read_and_taken_in_turn() -> None:
    job = plan_of(
        ("one", lines_of("/in/a")), ("two", lines_of("/in/b")), ("three", lines_of("/in/a")), (None, Placed(()))
    )
    known = {"first": "/in/a", "new": "/in/c", "other": "/in/b"}
    snapshots = {uid: SourceSnapshot(None, SPLITS, (), identity_of(lines_of(path))) for uid, path in known.items()}
    held = Manifest(1, 0, "id", "job", 128, 0, {**snapshots, "unknown": SourceSnapshot(None, SPLITS)})
    assert same_sources(held, job) == {"one": "first", "two": "other", "three": "first"}
    again = replace(held, sources={**held.sources, "second": snapshots["first"]})
    assert same_sources(again, job) == {"one": "first", "two": "other", "three": "second"}
