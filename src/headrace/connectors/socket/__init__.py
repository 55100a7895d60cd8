"""Lines of text from a TCP server."""

from __future__ import annotations

from headrace.connectors.socket.source import SocketSource

__all__ = ["SocketSource"]
