"""Lines of text from a TCP server."""

from headrace.common.public_module import public_module
from headrace.connectors.socket import SocketSource

__all__ = ["SocketSource"]

public_module(__name__)
