"""Damaged and missing files are told, and never read wrongly."""

from __future__ import annotations

import random

import pytest

from headrace.common.errors import LogCorruptedError, LogError
from headrace.log.commits import commit_name
from headrace.log.log import Log
from tests.log.faulty_logs import LARGE, contents, new_folder, others_go_on, process, producer_of
from tests.log.memory_folder import MemoryFolder

pytestmark = pytest.mark.usefixtures("snapshots_often")


def test_a_damaged_file_is_told_and_never_read_wrongly() -> None:
    folder = new_folder()
    producer = producer_of(folder)
    with process(producer):
        for number in range(9):
            producer.send(
                "all", (LARGE if number % 4 == 2 else b"v") + b"%d" % number, b"key", [("h", b"x")], 0, number
            )
            producer.flush()
    whole = contents(folder)
    noise = random.Random(7)
    told = 0
    for path in sorted(folder.files):
        content = folder.files[path]
        for at in {0, 9, 20, len(content) - 1, *(noise.randrange(len(content)) for _ in range(25))}:
            damaged = bytearray(content)
            damaged[at] ^= 1 << noise.randrange(8)
            told += is_told(folder, path, bytes(damaged), whole)
        told += is_told(folder, path, content[: len(content) // 2], whole)
        folder.files[path] = content
    assert told > 100
    assert contents(folder) == whole


def is_told(folder: MemoryFolder, path: str, content: bytes, whole: list[list[bytes | None]]) -> bool:
    folder.files[path] = content
    try:
        found = contents(folder)
    except LogError as error:
        if path not in str(error):
            raise
        return True
    assert found == whole
    return False


def test_a_missing_commit_is_told() -> None:
    folder = new_folder()
    others_go_on(folder, 1)
    version = Log(folder.again()).journal.refresh()
    producer = producer_of(folder.again())
    with process(producer):
        for _ in range(3):
            producer.send("all", b"v")
            producer.flush()
    newest = Log(folder.again()).journal.snapshot_versions()[-1]
    del folder.files[f"memory/commits/{commit_name(max(version, newest) + 1)}"]
    with pytest.raises(LogCorruptedError, match="is missing, and there are later commits"):
        Log(folder.again()).topics()
