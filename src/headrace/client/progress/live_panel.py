"""The part of a terminal that is redrawn in place while others go on printing above it."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Final

from rich.live import Live

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console, RenderableType

_REFRESHES_PER_SECOND: Final = 4


class LivePanel:
    """Shows something at its own pace until it is closed, and then takes it away.

    What is printed meanwhile appears above it: by ``print``, and by handlers of logging that were made before and so
    know the terminal itself.

    Args:
        console: where to draw.
        draw: gives what is to be shown.
    """

    def __init__(self, console: Console, draw: Callable[[], RenderableType]) -> None:
        streams = (sys.stdout, sys.stderr)
        self._live = Live(
            console=console,
            get_renderable=draw,
            refresh_per_second=_REFRESHES_PER_SECOND,
            transient=True,
            # What goes into a file or a pipe must not pass through the terminal
            redirect_stdout=getattr(sys.stdout, "isatty", bool)(),
        )
        self._live.start()
        self._handlers = _redirect({id(old): new for old, new in zip(streams, (sys.stdout, sys.stderr), strict=True)})

    def close(self) -> None:
        """Take it away; what was redirected goes where it went before."""
        for handler, stream in self._handlers:
            handler.setStream(stream)
        self._live.stop()


def _redirect(streams: dict[int, Any]) -> list[tuple[logging.StreamHandler[Any], Any]]:
    """Have the handlers of the root logger write to other streams.

    Args:
        streams: by the identity of the one that a handler has, the one that it gets.

    Returns:
        The handlers that were changed, each with the stream that it had.
    """
    changed = []
    for handler in logging.getLogger().handlers:
        # A handler for files is one, too; its own class says where it writes
        if type(handler) is logging.StreamHandler and streams.get(id(handler.stream)) not in (None, handler.stream):
            changed.append((handler, handler.stream))
            handler.setStream(streams[id(handler.stream)])
    return changed
