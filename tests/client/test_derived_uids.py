"""A job with checkpoints names what it will find again only while the program keeps its shape."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.common import Configuration, Types
from headrace.datastream import StreamExecutionEnvironment


def _environment(folder: Path | None) -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("headrace.runtime", "local")
    if folder is not None:
        configuration.set_string("execution.checkpointing.dir", str(folder))
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def _run(env: StreamExecutionEnvironment, *, has_uids: bool) -> None:
    words = env.from_collection(["a", "b"], Types.STRING()).name("words")
    if has_uids:
        words = words.uid("words")
    rolled = (
        words.map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0])
        .sum(1)
    )
    if has_uids:
        rolled = rolled.uid("sums")
    out = rolled.print()
    if has_uids:
        out.uid("out")
    env.execute()


def test_sources_operators_with_state_and_sinks_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _run(_environment(tmp_path), has_uids=False)
    told = next(record.getMessage() for record in caplog.records if "without uid()" in record.getMessage())
    assert told.startswith("operators without uid(): 'words', ")
    assert "'Map'" not in told
    assert "Print" in told
    assert "positions" in told


@pytest.mark.parametrize(("has_checkpoints", "has_uids"), [(False, False), (True, True)])
def test_nothing_is_said_where_nothing_is_to_be_found_again_or_all_have_uids(
    has_checkpoints: bool, has_uids: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _run(_environment(tmp_path if has_checkpoints else None), has_uids=has_uids)
    assert not [record for record in caplog.records if "without uid()" in record.getMessage()]
