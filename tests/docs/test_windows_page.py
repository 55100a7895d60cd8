"""The page on windows: whoever follows it sees what it shows, and it names all there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.datastream import window
from tests.docs.documents import DOCS
from tests.docs.guides import Reader
from tests.forks import Forks

PAGE = DOCS / "windows.md"


def test_the_page_is_as_it_says(forks: Forks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Reader(PAGE, tmp_path, forks).follow() == 5


def test_every_assigner_trigger_and_evictor_is_named() -> None:
    kinds = (window.WindowAssigner, window.Trigger, window.Evictor)
    there = {name for name in window.__all__ if issubclass(getattr(window, name), kinds)}
    named = set(re.findall(r"\w+", PAGE.read_text()))
    made_by_others = {"DynamicEventTimeSessionWindows", "DynamicProcessingTimeSessionWindows"}
    assert there - named == made_by_others
