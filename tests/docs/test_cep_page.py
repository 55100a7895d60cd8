"""The page on patterns: its tables show what patterns find, and its examples run.

``python -m tests.docs.test_cep_page`` draws what the patterns of the tables find anew.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pytest

from headrace.cep import Pattern
from headrace.cep.compiler import compile_pattern
from headrace.operators.pattern.conditions import EventFacts
from headrace.operators.pattern.nfa import Nfa
from headrace.operators.pattern.shared_buffer import MatchedEvents, NfaState
from tests.docs.documents import DOCS
from tests.docs.guides import Reader
from tests.forks import Forks

PAGE = DOCS / "cep.md"

ROW = re.compile(r"^\| `([^`]+)` \| `([a-z]\d+(?:@\d+)?(?: [a-z]\d+(?:@\d+)?)*)` \|(.*)\|$")


CLASSES = {letter: type(letter.upper(), (str,), {}) for letter in ascii_lowercase}
"""The classes of events by the letters that these begin with."""


def found(text: str, written: str) -> str:
    """What a pattern finds, as the page draws it."""
    nfa = Nfa(compile_pattern(_pattern(text)))
    state = NfaState()
    cells = []
    time = 0
    events = [event.partition("@")[0] for event in written.split()]
    for name, event in zip(events, written.split(), strict=True):
        at = event.partition("@")[2]
        time = int(at) if at else time + 1
        cells += _advance(nfa, state, time, events)
        record = CLASSES[name[0]](name)
        bits = sum(one.holds(EventFacts(record)) << at for at, one in enumerate(nfa.automaton.event_conditions))
        cells += [_drawn(match, events) for match in nfa.process(state, record, time, bits)]
    cells += _advance(nfa, state, time + 1000, events)
    return "<br>".join(cells) or "none"


def _pattern(text: str) -> Pattern[Any]:
    """A pattern that is written as text, or in Python, where ``b`` is the condition on events ``b1`` and so on."""
    conditions = {letter: _takes(letter) for letter in ascii_lowercase}
    if not text.startswith("Pattern."):
        return Pattern.parse(text, {name: conditions[name] for name in re.findall(r"\b[a-z]\b", text)})
    classes = {each.__name__: each for each in CLASSES.values()}
    pattern: Pattern[Any] = eval(text, {"Pattern": Pattern, **conditions, **classes})
    return pattern


def _takes(stage: str) -> Any:
    return lambda event: event[0] == stage


def _advance(nfa: Nfa, state: NfaState, time: int, events: list[str]) -> list[str]:
    advance = nfa.advance_time(state, time)
    timed_out = [f"{_drawn(late.match, events)} timed out" for late in advance.timed_out]
    return [*(_drawn(match, events) for match in advance.matches), *timed_out]


def _drawn(match: MatchedEvents, events: list[str]) -> str:
    """The events, of which those of the match have their names, with a line from its first to its last one."""
    taken = [event for _, event in match.path]
    first, last = events.index(taken[0]), events.index(taken[-1])
    drawn = ""
    for place, event in enumerate(events):
        drawn += ("─" if first < place <= last else " ") + (event if event in taken else "··")
    return f"`{drawn[1:]}`"


def redrawn(page: str) -> str:
    """The page with what its patterns find."""
    lines = page.splitlines(keepends=True)
    rows = {number: row for number, line in enumerate(lines) if (row := ROW.match(line.rstrip("\n")))}
    for number, row in rows.items():
        lines[number] = f"| `{row[1]}` | `{row[2]}` | {found(row[1], row[2])} |\n"
    return "".join(lines)


def test_the_tables_show_what_is_found() -> None:
    rows = [row for row in map(ROW.match, PAGE.read_text().splitlines()) if row]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert PAGE.read_text() == redrawn(PAGE.read_text())
    assert len(rows) > 30


def test_the_page_is_as_it_says(forks: Forks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Reader(PAGE, tmp_path, forks).follow() == 8


if __name__ == "__main__":
    PAGE.write_text(redrawn(PAGE.read_text()))
