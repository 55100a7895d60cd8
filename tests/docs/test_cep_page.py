"""The page on patterns: its tables show what patterns find, and its examples run."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from headrace.cep import Pattern
from headrace.cep.compiler import compile_pattern
from headrace.operators.pattern.conditions import EventFacts
from headrace.operators.pattern.matches import Match, NfaState
from headrace.operators.pattern.nfa import Nfa
from tests.docs.documents import DOCS
from tests.docs.guides import Reader
from tests.forks import Forks

PAGE = DOCS / "cep.md"

ROW = re.compile(r"^\| `([^`]+)` \| `([a-z]\d+(?:@\d+)?(?: [a-z]\d+(?:@\d+)?)*)` \|(.*)\|$")


def found(text: str, told: str) -> str:
    """What a pattern finds, as the page tells it."""
    names = set(re.findall(r"\b[a-z]\b", text))
    pattern = Pattern.parse(text, {name: _takes(name) for name in names})
    nfa = Nfa(compile_pattern(pattern))
    state = NfaState()
    cells = []
    time = 0
    for event in told.split():
        name, _, at = event.partition("@")
        time = int(at) if at else time + 1
        cells += _advance(nfa, state, time)
        bits = sum(one.holds(EventFacts(name)) << at for at, one in enumerate(nfa.automaton.event_conditions))
        cells += map(_shown, nfa.process(state, name, time, bits))
    cells += _advance(nfa, state, time + 1000)
    return ", ".join(cells) or "none"


def _takes(stage: str) -> Any:
    return lambda event: event[0] == stage


def _advance(nfa: Nfa, state: NfaState, time: int) -> list[str]:
    advance = nfa.advance_time(state, time)
    return [*map(_shown, advance.matches), *(f"{_shown(late.match)} timed out" for late in advance.timed_out)]


def _shown(match: Match) -> str:
    return f"`{' '.join(event for _, event in match.path)}`"


def test_the_tables_show_what_is_found() -> None:
    rows = [row for row in map(ROW.match, PAGE.read_text().splitlines()) if row]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [(*row.groups()[:2], row[3].strip()) for row in rows] == [
            (row[1], row[2], found(row[1], row[2])) for row in rows
        ]
    assert len(rows) > 30


def test_the_page_is_as_it_says(forks: Forks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Reader(PAGE, tmp_path, forks).follow() == 7
