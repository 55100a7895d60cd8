"""The order in which a watermark has the keys of a pattern looked at, which is that of Flink's timers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext
from headrace.operators.pattern.match_results import Ranks
from headrace.operators.window.table.firing_order import TIMERS_OF_RECORDS, Fed, TimerFiringOrder
from headrace.state.keys import KeyColumn

if TYPE_CHECKING:
    from headrace.state.keys import KeyCodec

SetTimer = tuple[int, int, int]
"""When it was set, as the place of a watermark among those that have come; the position of the key; its time."""


class KeyOrder:
    """Follows the timers that a pattern operator has in Flink: one for each event, and one where a window ends.

    Args:
        codec: the codec of the keys.
    """

    def __init__(self, codec: KeyCodec) -> None:
        self._firing = TimerFiringOrder(TIMERS_OF_RECORDS, codec)
        self._fed: list[Fed] = []

    def open(self, context: OperatorContext) -> None:
        """Restores the state."""
        self._firing.open(context)

    def begin_epoch(self, scope: EpochScope) -> None:
        """Takes up what the last epoch left."""
        self._firing.begin_epoch(scope)

    def end_epoch(self) -> None:
        """Puts what has changed into state."""
        self.ranks([], None, [])
        self._firing.end_epoch()

    def add(self, batch: KeyedBatch) -> None:
        """Takes events that are not late."""
        self._fed.append(Fed(batch.keys, batch.timestamps, batch.watermarks))

    def ranks(self, watermarks: Sequence[int], keys: KeyColumn | None, timers: Sequence[SetTimer]) -> Ranks | None:
        """The order of keys at each watermark; None where it is that of hash and key.

        Args:
            watermarks: those that have come since, ascending.
            keys: the keys that may be looked at; None for none.
            timers: the timers that were set when these were.
        """
        fed, self._fed = self._fed, []
        set_at: dict[int, dict[object, list[int]]] = {}
        if timers and keys is not None:
            names = keys.values.to_pylist()
            for step, position, time in timers:
                set_at.setdefault(watermarks[step], {}).setdefault(names[position], []).append(time)
        places = self._firing.looked_at(fed, watermarks, set_at)
        if not places or keys is None:
            return None
        steps = {watermark: step for step, watermark in enumerate(watermarks)}
        positions = {name: position for position, name in enumerate(keys.values.to_pylist())}
        return {
            (steps[watermark], positions[key]): place for (watermark, key), place in places.items() if key in positions
        }
