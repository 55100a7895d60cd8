"""``KeyScope``: which key is being processed, and when; what all states of an operator share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.state.key_entries import NO_KEY, KeyEntries

if TYPE_CHECKING:
    from headrace.state.key_entries import AnyKeyEntry, NoKey
    from headrace.state.keys import KeyCodec, KeyColumn


class KeyScope:
    """The keys of an epoch and the current one.

    Attributes:
        codec: how keys are stored.
        current: the key that is being processed; an operator sets it before it calls user code, and to ``NO_KEY``
            after it.
        clock: the processing time of the epoch, in milliseconds.
        entries: the keys of the epoch.
    """

    def __init__(self, codec: KeyCodec) -> None:
        self.codec = codec
        self.current: AnyKeyEntry | NoKey = NO_KEY
        self.clock = 0
        self.entries = KeyEntries(codec)

    def bind(self, keys: KeyColumn) -> list[AnyKeyEntry]:
        """The entry of each key; equal keys have the same entry throughout an epoch."""
        return self.entries.bind(keys)

    def forget_keys(self) -> None:
        """Lets go of the keys of the epoch.

        At its end rather than when the next one begins: Spark collects garbage in between, and would look at them all.
        """
        self.current = NO_KEY
        self.entries = KeyEntries(self.codec)
