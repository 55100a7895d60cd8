"""The socket of a server, and the loop that accepts connections on it; both bounded.

A job lives in the same process, and needs descriptors of files, too. So a connection counts from the moment at which it
is accepted: of one that never gets through the handshake of TLS no protocol knows.
"""

import asyncio
import socket
from typing import Any, Final
from weakref import WeakSet

MOST_CONNECTIONS: Final = 256
"""The largest number of clients at the same time; the connections of others are closed."""

BACKLOG: Final = 128
"""So many connections may wait to be accepted."""

_HANDSHAKE_SECONDS: Final = 10.0
"""The time limit for the handshake of TLS."""


class BoundedListener(socket.socket):
    """A listening socket that closes connections at once while too many are open."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._accepted = WeakSet[socket.socket]()

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection.

        Raises:
            ConnectionAbortedError: when it is one too many, which loops take for a client that went away.
        """
        connection, address = super().accept()
        if sum(each.fileno() >= 0 for each in self._accepted) >= MOST_CONNECTIONS:
            connection.close()
            raise ConnectionAbortedError
        self._accepted.add(connection)
        return connection, address


class ServerLoop(asyncio.SelectorEventLoop):
    """A loop whose servers do not wait for a handshake for long."""

    async def create_server(self, *args: Any, **kwargs: Any) -> asyncio.Server:
        """A server, as in :mod:`asyncio`."""
        if kwargs.get("ssl") is not None:
            kwargs["ssl_handshake_timeout"] = _HANDSHAKE_SECONDS
        return await super().create_server(*args, **kwargs)
