"""Leaves out events that change nothing of any partial match and begin none.

In a pattern of relaxed contiguity most events match no stage. The automaton ignores such an event in every state, so
the task that looks for matches need not see it: it is left out before the shuffle.

Where few events begin matches, most others meet none: they are left out before events are brought in order by key.
Whether one might meet a match follows from a table of bits, in which the keys of those that begin matches, and of those
that are stored, are marked with the stretches of time in which these may be open. Two of them may have one bit: then
events are kept that could have been left out.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.common.batch import Batch
from headrace.common.errors import EvaluationError
from headrace.common.typeinfo import TypeInformation
from headrace.operators.base import KeyedBatch, Operator
from headrace.operators.pattern.automaton import Automaton
from headrace.operators.pattern.event_conditions import EventConditions, is_column, packed
from headrace.operators.pattern.keyed_events import looked_up
from headrace.operators.pattern.nfa import Nfa

Mask = npt.NDArray[np.bool_]

_SAMPLE: Final = 1_024
"""The number of events of a batch that decide whether it is worth filtering the others."""

_MOST_TRIED: Final = 8
"""The largest number of conditions of which all combinations are looked at."""

_MOST: Final = 0.75
"""The largest share of relevant events in a sample with which the others are looked at."""


def can_be_filtered(automaton: Automaton) -> bool:
    """Return whether events that satisfy no condition of a pattern can be left out without any difference.

    Conditions have to be expressions, which give the same here and there, and look at the event alone. No partial match
    may end because an event came, and timeouts are not reported.
    """
    if not all(map(is_column, automaton.event_conditions)):
        return False
    if not all(leaf.looks_at_event_alone for leaf in automaton.leaves()):
        return False
    nfa = Nfa(automaton, tells=False)
    return nfa.expires_silently and not nfa.begins(0) and not nfa.moves_any(0)


class PatternFilterOperator(Operator):
    """Keeps the events that may begin a match or change a partial match.

    An event of which a condition has no value is kept: where something depends on it, it fails there.

    Args:
        automaton: the compiled pattern.
        type_: the type of the events.
    """

    def __init__(self, automaton: Automaton, type_: TypeInformation) -> None:
        super().__init__()
        self._nfa = Nfa(automaton)
        self._conditions = EventConditions(automaton.event_conditions, 0, type_, lambda: 0)
        self.user_code = self._conditions.user_code
        self._takes_any = self._is_any_relevant()

    def process(self, input_index: int, batch: Batch) -> None:
        kept = self._kept(batch)
        if len(kept):
            self.output.emit(kept)

    def _kept(self, batch: Batch) -> Batch:
        try:
            if len(batch) > 2 * _SAMPLE and self._mask(batch.slice(0, _SAMPLE)).mean() > _MOST:
                return batch
            mask = self._mask(batch)
        except EvaluationError:
            return batch
        return batch if mask.all() else batch.filter(mask)

    def _mask(self, batch: Batch) -> Mask:
        conditions = self._conditions.conditions
        columns = [self._conditions.column(each, batch) for each in conditions]
        if self._takes_any and columns:
            found: Mask = np.logical_or.reduce(columns)
            return found
        holds = packed(dict(enumerate(columns)), len(batch), len(conditions))
        return looked_up(holds, len(conditions), self._is_relevant)

    def _is_relevant(self, holds: int) -> bool:
        return self._nfa.begins(holds) or self._nfa.moves_any(holds)

    def _is_any_relevant(self) -> bool:
        """Return whether an event is relevant as soon as it satisfies a condition, whatever the others give."""
        bits = len(self._conditions.conditions)
        return bits <= _MOST_TRIED and all(map(self._is_relevant, range(1, 1 << bits)))


Longs = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

FEWEST: Final = 1 << 12
"""Of fewer events it does not pay to leave any out."""

RARE: Final = 16
"""Matches are rare where so many events come for each that begins one or is stored."""

_SPARSE: Final = 64
"""The number of bits for each that is marked."""

_MOST_BITS: Final = 24
_OF_STRETCHES: Final = np.uint64(0x9E3779B97F4A7C15)
_OF_ALL: Final = np.uint64(0xD6E8FEB86659FD93)
"""Odd numbers whose products are spread over all bits."""


def kept_events(batch: KeyedBatch, begins: Mask, window: int, stored: Hashes, stored_times: Longs) -> Longs:
    """Return the places of the events that may begin a match or meet one.

    Args:
        batch: the events.
        begins: the events with which matches may begin.
        window: milliseconds from its first event until a partial match has timed out; 0 for never.
        stored: the hashes of the keys of events that stored matches have taken.
        stored_times: the times of these.
    """
    hashes, times = batch.keys.hashes, batch.timestamps
    marked = np.concatenate([hashes[begins], stored])
    stretches = _stretches(np.concatenate([times[begins], stored_times]), window)
    bits = min(_MOST_BITS, (2 * _SPARSE * len(marked)).bit_length())
    table = np.zeros(1 << bits, np.bool_)
    for later in range(2 if window else 1):
        table[_codes(marked, stretches + later, bits)] = True
    return np.flatnonzero(begins | table[_codes(hashes, _stretches(times, window), bits)])


def _stretches(times: Longs, window: int) -> Longs:
    """Stretches of time as long as a window: a match that has begun in one may be open in the next, and no longer."""
    return times // window if window else np.zeros_like(times)


def _codes(hashes: Hashes, stretches: Longs, bits: int) -> Hashes:
    mixed = (hashes ^ (stretches.astype(np.uint64) * _OF_STRETCHES)) * _OF_ALL
    return mixed >> np.uint64(64 - bits)
