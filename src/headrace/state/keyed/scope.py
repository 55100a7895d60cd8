"""``KeyScope``: which key is being processed, and when; what all states of an operator share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from headrace.common.constants import MIN_WATERMARK
from headrace.state.keys.entries import NO_KEY, KeyEntries

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from headrace.state.keyed.namespaces import Namespace
    from headrace.state.keys import KeyCodec, KeyColumn
    from headrace.state.keys.entries import AnyKeyEntry, NoKey


class Entries(Protocol):
    """What was met in an epoch: keys, or pairs of key and namespace, numbered by ``ordinal``."""

    @property
    def all(self) -> Sequence[Any]:
        """Them, by ordinal."""

    def columns(self, start: int, stop: int) -> KeyColumn:
        """Those with the ordinals from ``start`` up to ``stop``, as they are stored."""

    def take(self, ordinals: npt.NDArray[Any]) -> KeyColumn:
        """Those with these ordinals, as they are stored."""


class StateScope(Protocol):
    """What a state is kept by: the keys of an operator, or pairs of key and namespace."""

    @property
    def current(self) -> Any:
        """What is being processed; its ``ordinal`` says where a state keeps what it holds for it."""

    @property
    def clock(self) -> int:
        """The processing time of the epoch, in milliseconds."""

    @property
    def event_time(self) -> int:
        """The event time that what is being processed meets, in milliseconds."""

    @property
    def entries(self) -> Entries:
        """What was met in this epoch."""


class KeyScope:
    """The keys of an epoch and the current one.

    Attributes:
        codec: how keys are stored.
        current: the key that is being processed; an operator sets it before it calls user code, and to ``NO_KEY``
            after it.
        namespace: the namespace that state of a key and namespace is used in.
        clock: the processing time of the epoch, in milliseconds.
        event_time: the event time that what is being processed meets; an operator that hands over records with
            watermarks, or timers, sets it as it goes.
        entries: the keys of the epoch.
    """

    def __init__(self, codec: KeyCodec) -> None:
        self.codec = codec
        self.current: AnyKeyEntry | NoKey = NO_KEY
        self.namespace: Namespace = None
        self.clock = 0
        self.event_time = MIN_WATERMARK
        self.entries = KeyEntries(codec)

    def bind(self, keys: KeyColumn) -> list[AnyKeyEntry]:
        """The entry of each key; equal keys have the same entry throughout an epoch."""
        return self.entries.bind(keys)

    def expect(self, pairs: Iterable[tuple[AnyKeyEntry, Namespace]]) -> None:
        """Says which keys will be current in which namespaces; nothing has to come of it."""

    def forget_keys(self) -> None:
        """Lets go of the keys of the epoch.

        At its end rather than when the next one begins: Spark collects garbage in between, and would look at them all.
        """
        self.current = NO_KEY
        self.entries = KeyEntries(self.codec)
