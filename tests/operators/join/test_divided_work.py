"""Work that tasks on one machine divide among themselves."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.operators.join.divided_work import DividedWork, files_in

_PARTS = 6


def _rows(part: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"part": [part] * part})


class _Computed:
    """Computes parts, and counts how often each was."""

    def __init__(self) -> None:
        self.times: Counter[int] = Counter()

    def __call__(self, part: int) -> Iterator[pa.RecordBatch]:
        self.times[part] += 1
        if part:  # the first part has no rows
            yield _rows(part)


def _found(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [value for batch in batches for value in batch.column(0).to_pylist()]


_WHOLE = [part for part in range(_PARTS) for _ in range(part)]


def test_a_task_that_runs_later_finds_all_parts(tmp_path: Path) -> None:
    first, second = _Computed(), _Computed()
    for computed in (first, second):
        assert _found(DividedWork(tmp_path, "join").results(0, _PARTS, computed)) == _WHOLE
    assert first.times == dict.fromkeys(range(_PARTS), 1)
    assert not second.times


def test_tasks_at_the_same_time_compute_each_part_once(tmp_path: Path) -> None:
    computed, found, start = _Computed(), list[list[int]](), threading.Barrier(2)

    def task() -> None:
        start.wait()
        found.append(_found(DividedWork(tmp_path, "join").results(0, _PARTS, computed)))

    tasks = [threading.Thread(target=task) for _ in range(2)]
    for each in tasks:
        each.start()
    for each in tasks:
        each.join()
    assert found == [_WHOLE, _WHOLE]
    assert computed.times == dict.fromkeys(range(_PARTS), 1)


def test_pieces_of_work_and_operators_are_kept_apart(tmp_path: Path) -> None:
    for uid in ("join", "other/join"):
        for number in range(2):
            computed = _Computed()
            assert _found(DividedWork(tmp_path, uid).results(number, 3, computed)) == [1, 2, 2]
            assert sum(computed.times.values()) == 3


def test_a_part_of_a_task_that_has_ended_is_computed_again(tmp_path: Path) -> None:
    def ends(part: int) -> Iterator[pa.RecordBatch]:
        if part == 2:
            raise ValueError("the task ends")
        yield _rows(part)

    with pytest.raises(ValueError, match="the task ends"):
        _found(DividedWork(tmp_path, "join").results(0, _PARTS, ends))
    computed = _Computed()
    assert _found(DividedWork(tmp_path, "join").results(0, _PARTS, computed)) == _WHOLE
    assert computed.times == dict.fromkeys(range(2, _PARTS), 1)


def test_half_a_file_is_not_read(tmp_path: Path) -> None:
    work, computed = DividedWork(tmp_path, "join"), _Computed()
    _found(work.results(0, _PARTS, computed))
    complete = next(path for path in files_in(str(tmp_path)) if path.name.endswith("-3.arrow"))
    complete.rename(complete.with_suffix(".4711"))
    assert _found(work.results(0, _PARTS, computed)) == _WHOLE
    assert computed.times[3] == 2


@pytest.mark.parametrize("content", [b"", b"ARROW1", b"\0" * 4096])
def test_a_file_of_something_else_is_not_read(tmp_path: Path, content: bytes) -> None:
    work, computed = DividedWork(tmp_path, "join"), _Computed()
    _found(work.results(0, _PARTS, computed))
    complete = next(path for path in files_in(str(tmp_path)) if path.name.endswith("-3.arrow"))
    complete.write_bytes(content)
    assert _found(work.results(0, _PARTS, computed)) == _WHOLE
    assert computed.times[3] == 2


def test_each_task_computes_all_where_no_file_can_be_written(tmp_path: Path) -> None:
    computed = _Computed()
    for _ in range(2):
        assert _found(DividedWork(tmp_path / "missing", "join").results(0, _PARTS, computed)) == _WHOLE
    assert computed.times == dict.fromkeys(range(_PARTS), 2)
