"""What sources keep is brought in by each start anew, and by one that stood still while another job came to need it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from headrace.savepoint.tables import put
from headrace.storage.folder import Folder, posix_folder
from tests.savepoint.power import CHANGES

NAME = "files-00000001.log"
CONTENT = b"all that it has seen\n"


def test_a_log_that_a_job_needs_is_whole_while_it_is_put_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = posix_folder(tmp_path / "lines")
    put(NAME, CONTENT, kept)
    steps: list[str] = []

    def watched(change: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(change)
        def step(folder: Folder, *arguments: Any, **more: Any) -> Any:
            result = change(folder, *arguments, **more)
            steps.append(change.__name__)
            assert kept.read(NAME) == CONTENT, steps
            return result

        return step

    for name in CHANGES:
        monkeypatch.setattr(Folder, name, watched(getattr(Folder, name)))
    put(NAME, CONTENT, kept)
    assert steps


def test_what_a_killed_start_has_left_of_one_is_replaced(tmp_path: Path) -> None:
    kept = posix_folder(tmp_path / "lines")
    kept.make()
    (tmp_path / "lines" / NAME).write_bytes(CONTENT[:5])
    put(NAME, CONTENT, kept)
    assert kept.read(NAME) == CONTENT
