"""``ChangedWindows``: what becomes of what windows hold whose declaration is another one now."""

from __future__ import annotations

from enum import Enum


class ChangedWindows(Enum):
    """What becomes of what windows hold that the program declares otherwise now.

    Example:
        >>> ChangedWindows("drop")
        <ChangedWindows.DROP: 'drop'>
    """

    FAIL = "fail"
    """The job fails: nobody has said that it is meant so."""

    DROP = "drop"
    """It is dropped for good, and the new windows begin empty."""

    REAGGREGATE = "reaggregate"
    """It moves into the new windows, which have to consist of whole old ones."""
