"""Clients that a process keeps for its tasks: connections outlast the readers and writers that use them."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from headrace.common.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Hashable

logger = get_logger(__name__)

_MOST_KEPT: Final = 64


class Closable(Protocol):
    """Holds connections."""

    def close(self) -> None:
        """Let go of them."""


C = TypeVar("C", bound=Closable)


class KeptClients:
    """The clients of one process and one run of a job that nobody uses now.

    Tasks change places between the processes of a machine again and again, and some clients take longer to be ready
    than an epoch takes. A client has one user at a time. Who takes one makes no use of what the user before has done
    with it: where to read, and what to write, the epoch says.
    """

    def __init__(self) -> None:
        self._idle: OrderedDict[Hashable, list[Closable]] = OrderedDict()

    def take(self, key: Hashable, kind: type[C]) -> C | None:
        """A client that was kept under a key, for the caller alone; None where there is none.

        Args:
            key: what it is connected to, and for what.
            kind: its class.
        """
        kept = self._idle.get((kind, key))
        if not kept:
            return None
        client = kept.pop()
        if not kept:
            del self._idle[kind, key]
        assert isinstance(client, kind)
        return client

    def keep(self, key: Hashable, client: Closable) -> None:
        """Take a client back that is as good as new; the one that nobody has used for longest makes room.

        Args:
            key: as for :meth:`take`.
            client: the client.
        """
        self._idle.setdefault((type(client), key), []).append(client)
        self._idle.move_to_end((type(client), key))
        while sum(map(len, self._idle.values())) > _MOST_KEPT:
            oldest = next(iter(self._idle))
            _close(self._idle[oldest].pop(0))
            if not self._idle[oldest]:
                del self._idle[oldest]

    def close(self) -> None:
        """Close all that are kept; what closing them fails with is logged."""
        idle, self._idle = self._idle, OrderedDict()
        for clients in idle.values():
            for client in clients:
                _close(client)


def _close(client: Closable) -> None:
    try:
        client.close()
    except Exception:
        logger.warning("closing %s failed", type(client).__name__, exc_info=True)
