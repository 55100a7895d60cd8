"""Where open sessions are kept: by key, and their ends in the order of time.

The table by key has all open sessions of a key in the run that was written last for the key. So a session that grows,
or is merged with another one, is written with the others of its key. The ends tell which sessions are due; one whose
session has grown since is passed over, as no session with that end is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.operators.arrays import fixed_width, gather
from headrace.operators.window.columnar.keyed_windows import KeyedWindows
from headrace.operators.window.stores import ADVICE, SESSION_ENDS_STORE, SESSIONS_STORE
from headrace.state.key_table import merged_by_key
from headrace.state.keys import KeyColumn
from headrace.state.runs.layout import HASH, KEY
from headrace.state.runs.merging import register_merger, register_ordered_merger
from headrace.state.runs.ordered import LIVE, newest
from headrace.state.table_layout import TableLayout

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.state.runs import RunStore

    Longs = npt.NDArray[np.int64]
    Hashes = npt.NDArray[np.uint64]
    Mask = npt.NDArray[np.bool_]

_SESSIONS_KIND: Final = "sessions"
_ENDS_KIND: Final = "session-ends"
_END: Final = "window_end"
_START: Final = "window_start"
_WORDS: Final = {
    "keys": "key type",
    "gap": "session gap in milliseconds",
    "parts": "set of aggregates",
    "discards": "accumulation mode, which discards or does not",
}


@dataclass(frozen=True)
class SessionRows:
    """Sessions and what they hold, by hash, key and end.

    Attributes:
        keys: the key of each.
        starts: the first timestamp of each.
        ends: the gap after the last timestamp of each.
        columns: the columns of the aggregators.
    """

    keys: KeyColumn
    starts: Longs
    ends: Longs
    columns: list[pa.Array]

    def __len__(self) -> int:
        return len(self.ends)

    def take(self, rows: Longs) -> SessionRows:
        """The sessions at ``rows``, in that order."""
        columns = [gather(column, rows) for column in self.columns]
        return SessionRows(self.keys.take(rows), self.starts[rows], self.ends[rows], columns)


class SessionStore:
    """The open sessions of one subtask.

    Args:
        layout: the columns.
        gap: how long after its last record a session ends, in milliseconds.
        store: gives the runs of a store by its name.
        discards: whether what sessions that have fired hold is void; None where none that have fired are kept.

    Raises:
        StateMigrationError: when sessions of another kind are stored.
    """

    def __init__(
        self,
        layout: ColumnarWindowLayout,
        gap: int,
        store: Callable[[str], RunStore],
        *,
        discards: bool | None = None,
    ) -> None:
        end, key, *accumulators = layout.accumulator_schema
        place = [pa.field(HASH, pa.uint64()), key.with_name(KEY)]
        columns = [*place, end, pa.field(_START, pa.int64()), pa.field(LIVE, pa.bool_()), *accumulators]
        schema = pa.schema(columns)
        keys = {"keys": layout.codec.to_json(), "gap": gap}
        about = keys | {"parts": layout.aggregators.to_json()}
        if discards is not None:
            about["discards"] = discards
        sessions = TableLayout(
            "sessions", _SESSIONS_KIND, schema, 3, about, _WORDS, advice=ADVICE, named_now=layout.named_now
        )
        of_ends = TableLayout(
            "the ends of sessions", _ENDS_KIND, pa.schema([end, *place]), 3, keys, _WORDS, advice=ADVICE
        )
        self._windows = KeyedWindows(store(SESSIONS_STORE), sessions, store(SESSION_ENDS_STORE), of_ends)

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._windows.begin_epoch()

    def first_due(self, upto: int, rows: int) -> int:
        """Up to which end about ``rows`` sessions are due, of those with an end not above ``upto``."""
        return self._windows.first_due(upto, rows)

    def take_due(self, upto: int) -> KeyColumn | None:
        """The keys that may have sessions with an end not above ``upto``, each once at least; None when none has."""
        return self._windows.take_due(upto)

    def all_open(self) -> SessionRows:
        """All open sessions that were stored when the epoch began."""
        hashes, keys, ends, starts, _, *columns = self._windows.stored().columns
        found = KeyColumn(keys, fixed_width(hashes))
        return SessionRows(found, fixed_width(starts), fixed_width(ends), columns)

    def find(self, keys: KeyColumn) -> tuple[Longs, SessionRows]:
        """The open sessions of different keys, which are in order, and which of the keys each of them is of."""
        found, batch = self._windows.find(keys)
        _, _, ends, starts, _, *columns = batch.columns
        return found, SessionRows(keys.take(found), fixed_width(starts), fixed_width(ends), columns)

    def write(self, sessions: SessionRows, due_times: Longs, is_new_time: Mask, keys_without: KeyColumn) -> None:
        """Writes all open sessions of some keys.

        Args:
            sessions: them, by hash, key and end.
            due_times: the end that event time has to pass for each to fire, or to go.
            is_new_time: for which of them this was not written before.
            keys_without: keys that have no open sessions any more, but had some.
        """
        columns = [pa.array(sessions.ends), pa.array(sessions.starts), *sessions.columns]
        self._windows.write(sessions.keys, columns, keys_without, due_times, is_new_time)

    def end_epoch(self) -> None:
        """Puts what was written into state."""
        self._windows.end_epoch()


register_merger(_SESSIONS_KIND, merged_by_key)
register_ordered_merger(_ENDS_KIND, newest)
