"""Where the log of a source or a sink is, as the program says it."""

from __future__ import annotations

import os

from headrace.common.arguments import refused
from headrace.common.errors import InvalidTypeError


def location_of(given: str | os.PathLike[str]) -> str:
    """The text of a location.

    Raises:
        InvalidTypeError: when it is neither text nor a path.
        InvalidProgramError: when it is empty.
    """
    if not isinstance(given, str | os.PathLike):
        raise refused(f"set_log takes a path or a URI, not {given!r}", InvalidTypeError)
    text = os.fspath(given)
    if not text.strip():
        raise refused("set_log: the path is empty (was it to come from a variable that is not set?)")
    return text
