"""The first rows of each window and key in an order, once the window has ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.operators.changelog.event_time import EventTimeOperator, keys_of_due
from headrace.operators.changelog.order import SortField, millis_of, order_codes, places_of
from headrace.operators.window.table.firing_order import TIMERS_OF_ENDED_WINDOWS
from headrace.operators.window.table.local_time import LocalTime
from headrace.state.runs.grouping import in_order

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.base import KeyedBatch
    from headrace.operators.changelog.order import RankRange
    from headrace.operators.changelog.pending_rows import DueRows
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WindowOrder:
    """The order of the rows of a window.

    Attributes:
        fields: the columns.
        last_of_equal: whether rows that tie are in reverse order of arrival.
    """

    fields: tuple[SortField, ...]
    last_of_equal: bool = False


class WindowRankOperator(EventTimeOperator):
    """Keeps the rows of windows until they end, and emits those whose rank lies in a range.

    Args:
        type_: the type of the records.
        output_type: the type of the emitted rows.
        codec: the codec of the keys.
        end_field: the position of the column with the end of each row's window.
        clock: the clock by which windows end.
        order: the sort fields.
        ranks: the ranks to emit.
    """

    timers = TIMERS_OF_ENDED_WINDOWS

    def __init__(
        self,
        type_: TypeInformation,
        output_type: TypeInformation,
        codec: KeyCodec,
        *,
        end_field: int,
        clock: LocalTime,
        order: WindowOrder,
        ranks: RankRange,
    ) -> None:
        super().__init__(type_, codec, end_field)
        self._output_type, self._clock = output_type, clock
        self._order, self._last_of_equal, self._ranks = order.fields, order.last_of_equal, ranks

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        name = self._type.field_names[self._time_field]
        ends = millis_of(batch.columns.column(self._time_field), name)
        self._add(batch, self._clock.back(ends - 1))

    def handle(self, due: DueRows) -> None:
        _, segments = keys_of_due(due)
        ids = segments.ids
        codes = order_codes(due.rows, self._order)
        arrivals = -due.arrivals if self._last_of_equal else due.arrivals
        order = in_order(ids, due.times, *codes, arrivals)
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = (np.diff(ids[order]) != 0) | (np.diff(due.times[order]) != 0)
        starts = np.flatnonzero(is_first)
        places = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order))) + 1
        end = len(order) if self._ranks.end is None else self._ranks.end
        kept = (places >= self._ranks.start) & (places <= end)
        self._emit_ranked(due.take(order), places, kept, starts)

    def _emit_ranked(self, due: DueRows, places: Longs, kept: npt.NDArray[np.bool_], starts: Longs) -> None:
        lengths = np.diff(starts, append=len(due))
        came = np.repeat(np.minimum.reduceat(due.arrivals, starts), lengths)
        otherwise = places_of(in_order(due.times, came))
        ranks = np.repeat(np.minimum.reduceat(self.ranks(due, otherwise), starts), lengths)
        order = in_order(due.watermarks, ranks, places)
        chosen = order[kept[order]]
        more = [pa.array(places)] if self._ranks.shows_rank else []
        if len(chosen):
            self.emit(self._output_type, due, more, chosen)
