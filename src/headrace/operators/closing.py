"""``close_all``: what has to be closed, whatever one of it fails with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

logger = get_logger(__name__)


def close_all(closing: list[Callable[[], object]]) -> None:
    """Call all of these, the last first. Each leaves the list before, so that none is ever called again.

    Raises:
        Exception: the first failure; others are logged.
    """
    failure: Exception | None = None
    while closing:
        try:
            closing.pop()()
        except Exception as error:
            if failure is not None:
                logger.warning("closing something else beside it failed, too", exc_info=True)
            failure = failure or error
    if failure is not None:
        raise failure
