"""What is known of keys with many partial matches, beside the rows of these.

An event that changes none of them reads none: it is known in which states they are, when they began, and which numbers
the next row and event get.

What time ends is not taken from the rows at once, where nobody wants to be told of it: the summary says until when
matches that began are gone. They are when the rows are next read, and these are read when a quarter of a window has
passed since.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import fixed_width
from headrace.common.constants import MIN_WATERMARK
from headrace.operators.base import OperatorContext
from headrace.operators.changelog.rows_of_keys import RowsOfKeys, StoredRows
from headrace.operators.pattern.matches import KnownRows, NfaState
from headrace.state.keys import KeyColumn

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

STORE: Final = "pattern-summaries"

MANY: Final = 256
"""The number of partial matches of a key, or of their rows, from which it has a summary."""

_FIELDS: Final = ("live", "first", "last", "passed", "next_row", "next_number")
_SCHEMA: Final = pa.schema([(name, pa.int64()) for name in _FIELDS])
_NOTHING_PASSED: Final = MIN_WATERMARK


@dataclass(frozen=True, slots=True)
class MatchSummary:
    """What is known of the partial matches of a key.

    Attributes:
        live: the states in which they are, as bits; there may be more.
        first: the time at which the first of the stored ones began, or an earlier one.
        last: the time at which the last one began.
        next_row: the number that the next row gets.
        next_number: the number that the next event gets.
        passed: the time until which those that began are gone, though their rows may be there.
    """

    live: int
    first: int
    last: int
    next_row: int
    next_number: int
    passed: int = _NOTHING_PASSED

    @classmethod
    def of(cls, state: NfaState, next_row: int) -> MatchSummary:
        """That of what a key has."""
        partial = state.partial
        return cls(state.live, partial[0][0][0], partial[-1][0][0], next_row, state.next_number)

    def with_more(self, state: NfaState, next_row: int) -> MatchSummary:
        """That of these partial matches and others, which are stored behind them."""
        if not state.partial:
            return self
        new = MatchSummary.of(state, next_row)
        times = {"first": min(self.first, new.first), "last": max(self.last, new.last)}
        return replace(new, live=self.live | new.live, passed=self.passed, **times)

    def passed_by(self, time: int) -> MatchSummary:
        """That of what is left when those that began until a time are gone."""
        return replace(self, passed=time) if self.first <= time > self.passed else self

    @property
    def addition(self) -> NfaState:
        """A state for what begins, which is stored behind what there is."""
        return NfaState(next_number=self.next_number, known=KnownRows(self.next_row))


Summaries = Mapping[int, MatchSummary]
"""Summaries of some keys, by the positions of these."""


class StoredSummaries:
    """The summaries of the keys of one subtask.

    Args:
        context: the operator.
        name: the name of the store.
    """

    def __init__(self, context: OperatorContext, name: str) -> None:
        codec = context.state.keyed.codec
        self._rows = RowsOfKeys(context, name, "what is known of keys with many partial matches", codec, _SCHEMA)

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._rows.begin_epoch(0)

    def end_epoch(self) -> None:
        """Puts what has changed into state."""
        self._rows.end_epoch()

    def find(self, keys: KeyColumn) -> dict[int, MatchSummary]:
        """Return what is known of different keys, which are in the order of hash and key."""
        found = self._rows.find(keys)
        if not len(found):
            return {}
        columns = dict(zip(_FIELDS, (fixed_width(column).tolist() for column in found.rows.columns), strict=True))
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        return {position: MatchSummary(**row) for position, row in zip(found.of_keys.tolist(), rows, strict=True)}

    def write(self, keys: KeyColumn, written: Summaries, gone: Collection[int]) -> None:
        """Writes summaries.

        Args:
            keys: different keys, in the order of hash and key.
            written: what is known of some of them now.
            gone: the positions of others, of which nothing is known any more.
        """
        if not (written or gone):
            return
        positions = sorted(written)
        columns = [pa.array([getattr(written[each], name) for each in positions], pa.int64()) for name in _FIELDS]
        rows = StoredRows(np.array(positions, np.int64), pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))
        self._rows.write(keys, rows, np.array(sorted(gone), np.int64))
