"""Which keys with many partial matches are left unread: their summaries tell that nothing of these changes."""

from __future__ import annotations

from typing import Final

import numpy as np

from headrace.common.constants import MIN_WATERMARK
from headrace.operators.pattern.due_keys import DueKeys, beginning, has_summaries, moved_states
from headrace.operators.pattern.event_conditions import Judged
from headrace.operators.pattern.match_summaries import MatchSummary, Summaries
from headrace.operators.pattern.nfa import Nfa

_LEFT: Final = 4
"""Rows whose matches are gone are left where they are for the fourth part of a window."""


def left_unread(nfa: Nfa, judged: Judged, due: DueKeys, summaries: Summaries, up_to: int) -> dict[int, MatchSummary]:
    """Return the keys whose partial matches no event changes, and time only as their summaries can tell.

    Args:
        nfa: the automaton.
        judged: what is known of the events.
        due: the events and timers by key.
        summaries: what is known of keys with many partial matches.
        up_to: the time to which all keys are brought.

    Returns:
        What is known of each of them then, by position.
    """
    if not (summaries and has_summaries(nfa)):
        return {}
    live = np.zeros(len(due.keys), np.int64)
    for position, summary in summaries.items():
        live[position] = summary.live
    is_read = moved_states(nfa, judged, due, live) != 0
    if nfa.automaton.skip.skips and len(due.positions):
        is_read[due.positions] |= np.logical_or.reduceat(beginning(nfa, judged)[due.order], due.starts)
    window = nfa.automaton.window
    until = up_to - window if window else MIN_WATERMARK
    found: dict[int, MatchSummary] = {}
    for position, summary in summaries.items():
        left = None if is_read[position] else _left(nfa, summary, until)
        if left is not None:
            found[position] = left
    return found


def _left(nfa: Nfa, summary: MatchSummary, until: int) -> MatchSummary | None:
    """What is left of a key when what began until a time has ended; None where its rows have to be read for that."""
    if summary.passed > until:  # time has gone back, or windows are longer now
        return None
    if summary.first > until:
        return summary
    if not nfa.expires_silently or summary.first <= 0 or summary.last <= until:
        return None
    is_due = _LEFT * (until - summary.first) >= nfa.automaton.window
    return None if is_due else summary.passed_by(until)
