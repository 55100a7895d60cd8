"""The page on changes of rows: whoever follows it sees what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.documents import DOCS
from tests.docs.guides import Reader
from tests.forks import Forks


def test_the_page_is_as_it_says(forks: Forks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Reader(DOCS / "changes-of-rows.md", tmp_path, forks).follow() == 5
