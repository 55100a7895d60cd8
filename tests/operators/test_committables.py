"""What a committer is given is what it will be given after a crash."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import pytest

from headrace.common import Types
from headrace.common.batch import Batch
from headrace.common.configuration import Configuration
from headrace.common.errors import UserFunctionError
from headrace.connectors.sink import (
    Committer,
    CommitterContext,
    PreCommit,
    PreCommitted,
    Sink,
    SinkWriter,
    WriterContext,
)
from headrace.datastream import StreamExecutionEnvironment

COMMITTED: list[Any] = []


class Holding(PreCommit):
    def __init__(self, in_progress: Any) -> None:
        self._in_progress = in_progress

    def prepare(
        self, in_progress: Any, committables: Sequence[Any], processing_time: int, *, is_last: bool
    ) -> PreCommitted:
        return PreCommitted(tuple((in_progress, one) for one in committables), None if is_last else self._in_progress)

    def due(self, in_progress: Any) -> int | None:
        return None


class Recording(Sink):
    def __init__(self, committables: Any, pre_commit: PreCommit | None = None) -> None:
        self._committables, self._pre_commit = committables, pre_commit

    @property
    def pre_commit(self) -> PreCommit | None:
        return self._pre_commit

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Writer(self._committables)

    def create_committer(self, context: CommitterContext) -> Committer:
        return _Committer()


class _Writer(SinkWriter):
    def __init__(self, committables: Any) -> None:
        self._committables = committables

    def write(self, batch: Batch) -> None:
        pass

    def prepare_commit(self) -> Any:
        return self._committables


class _Committer(Committer):
    def commit(self, epoch: int, committables: Sequence[Any], processing_time: int) -> None:
        COMMITTED.extend(committables)


def run(sink: Sink) -> list[Any]:
    COMMITTED.clear()
    settings = {"headrace.runtime": "local", "parallelism.default": "1"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.from_collection([1], Types.LONG()).sink_to(sink).name("ledger").uid("ledger")
    env.execute()
    return COMMITTED


def test_committables_are_as_a_checkpoint_holds_them_at_once() -> None:
    assert run(Recording([("a", 1), {2: (1,)}, None])) == [["a", 1], {"2": [1]}, None]


def test_so_is_what_a_pre_commit_gives() -> None:
    assert run(Recording([("a", 1)], Holding(None))) == [[None, ["a", 1]]]


@pytest.mark.parametrize("wrong", [datetime.date(2026, 1, 1), object(), {(1, 2): 3}, {1, 2}])
def test_what_is_no_json_is_told_with_the_sink(wrong: Any) -> None:
    with pytest.raises(UserFunctionError, match=r"(?s)'ledger' \(uid ledger.*cannot be stored in a checkpoint"):
        run(Recording([wrong]))


@pytest.mark.parametrize("wrong", ["part-1", b"part-1", {"file": 1}, 7, None])
def test_what_is_no_list_is_refused(wrong: Any) -> None:
    with pytest.raises(UserFunctionError, match=r"prepare_commit\(\) gave .*: return a list of JSON values"):
        run(Recording(wrong))
