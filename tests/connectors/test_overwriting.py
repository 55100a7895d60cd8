"""Sinks of files that take the place of others: readers find those of before or those of after, whatever is killed."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.common import Configuration, Encoder, Types
from headrace.common.errors import CommitRefusedError
from headrace.connectors.file_system.overwrite_log import Overwrite, OverwriteLog
from headrace.connectors.file_system.paths import InputPaths
from headrace.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from headrace.datastream.connectors import BucketAssigner, FileSink, NumberSequenceSource, RollingPolicy
from headrace.storage.file_system import PosixFileSystem
from headrace.time.watermark_strategy import WatermarkStrategy
from tests.connectors.harness import SinkRun
from tests.waiting import PATIENCE

EVERY_EPOCH = RollingPolicy.on_checkpoint_rolling_policy()
CHANGES = ("create", "make_folder", "publish", "put", "remove")
OLD, NEW = ["cake", "tea"], ["mate", "milk"]


class Killed(BaseException):
    """The process is gone."""


def sink(path: Path, policy: RollingPolicy) -> FileSink[Any]:
    builder = FileSink.for_row_format(path, Encoder.simple_string_encoder()).with_rolling_policy(policy)
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).with_overwrite("").build()


def found(path: Path) -> list[str]:
    return sorted(line for each in InputPaths([str(path)], {}).find() for line in Path(each.path).read_text().split())


def kill_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let so many changes of files happen, and nothing after them."""
    left = itertools.count(number, -1)

    def counted(change: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if next(left) <= 0:
                raise Killed
            return change(*args, **options)

        return call

    for name in CHANGES:
        monkeypatch.setattr(PosixFileSystem, name, counted(getattr(PosixFileSystem, name)))


@pytest.mark.parametrize("policy", [EVERY_EPOCH, RollingPolicy.default_rolling_policy()])
def test_a_commit_that_is_killed_is_done_or_not(tmp_path: Path, policy: RollingPolicy) -> None:
    seen, number, is_killed = set(), 0, True
    while is_killed:
        number += 1
        path = tmp_path / str(number)
        (path / "day=1").mkdir(parents=True)
        (path / "day=1" / "old").write_text("\n".join(OLD))
        run = SinkRun(sink(path, policy), Types.STRING(), parallelism=2)
        run.run_epoch(NEW[:1])
        run.epoch += 1
        ready = run.prepare(run.write(NEW[1:]), is_last=True)
        assert found(path) == OLD
        with pytest.MonkeyPatch.context() as patched, contextlib.suppress(Killed):
            kill_at(patched, number)
            run.committer.commit(run.epoch, ready, 0)
            is_killed = False
        now = found(path)
        seen.add(tuple(now))
        assert now in (OLD, NEW)
        run.generation += 1
        run.committer = run.new_committer()
        run.committer.commit(run.epoch, ready, 0)
        run.committer.finish()
        assert found(path) == NEW
        assert sorted(each.name for each in path.glob(".*")) == [".headrace-overwrites"]
    assert seen == {tuple(OLD), tuple(NEW)}


def test_a_commit_that_is_tried_again_after_another_overwrite_is_done(tmp_path: Path) -> None:
    run = SinkRun(sink(tmp_path, EVERY_EPOCH), Types.STRING())
    run.epoch += 1
    ready = run.prepare(run.write(["tea"]), is_last=True)
    run.committer.commit(run.epoch, ready, 0)
    other = OverwriteLog(PosixFileSystem(), str(tmp_path))
    for number in range(3):
        other.add(
            lambda number=number: Overwrite(str(number), [each.name for each in tmp_path.glob("part-*")], {}),
            str(number),
        )
    (tmp_path / "new").write_text("milk")
    run.generation += 1
    run.committer = run.new_committer()
    run.committer.commit(run.epoch, ready, 0)
    assert found(tmp_path) == ["milk"]


def test_nothing_is_replaced_before_the_input_has_ended(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("tea")
    run = SinkRun(sink(tmp_path, EVERY_EPOCH), Types.STRING())
    assert run.run_epoch(["milk"]) == []
    run.restart()
    assert run.run_epoch(["mate"]) == []
    assert found(tmp_path) == ["tea"]
    run.end()
    assert found(tmp_path) == ["mate", "milk"]


def test_an_overwrite_of_which_a_file_is_gone_is_refused(tmp_path: Path) -> None:
    log = OverwriteLog(PosixFileSystem(), str(tmp_path))
    with pytest.raises(CommitRefusedError, match=r"new cannot be published: hidden is missing, which .*00000001\.json"):
        log.add(lambda: Overwrite("1", [], {"hidden": "new"}), "1")


def test_an_overwrite_that_is_damaged_is_refused(tmp_path: Path) -> None:
    log = OverwriteLog(PosixFileSystem(), str(tmp_path))
    log.add(lambda: Overwrite("1", [], {}), "1")
    (entry,) = (tmp_path / ".headrace-overwrites").iterdir()
    content = entry.read_bytes()
    (tmp_path / "old").write_text("tea")
    damaged = [content[:length] for length in range(len(content) - 1)]
    damaged += [content[:at] + bytes([byte ^ 1]) + content[at + 1 :] for at, byte in enumerate(content[:-1])]
    for each in (*damaged, b'["2", ["old"], {}, []]'):
        entry.write_bytes(each)
        with pytest.raises(CommitRefusedError, match=r"00000001\.json is damaged.*put it back"):
            found(tmp_path)
    entry.write_bytes(content)
    assert found(tmp_path) == ["tea"]


def test_a_job_that_overwrites_cannot_be_ended_early(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("tea")
    settings = {
        "headrace.runtime": "local",
        "headrace.epoch.max-records": "1",
        "headrace.epoch.target-duration": "60s",
        "headrace.epoch.min-interval": "1 ms",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    numbers = env.from_source(NumberSequenceSource(1, 10**9), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(str, Types.STRING()).sink_to(sink(tmp_path, EVERY_EPOCH))
    client = env.execute_async("job")
    try:
        error = None
        while error is None:  # until there is output
            error = client.trigger_savepoint(str(tmp_path / ".savepoints")).exception(PATIENCE)
        assert "replaces what is there by the whole output" in str(error)
    finally:
        client.cancel().result(PATIENCE)
    assert found(tmp_path) == ["tea"]
