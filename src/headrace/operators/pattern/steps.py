"""Events that matches have taken, as chains from the last one back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Optional

EventId = tuple[int, int]
"""The timestamp of an event, and a number that grows with the events of a key that partial matches take."""

Step = tuple[int, EventId, Any, Optional["Step"]]
"""An event that was taken: the index of the state that took it, its id, the event, and the step before.

Partial matches that go on from the same events share them, so one costs what is new in it.
"""


def steps_of(step: Step | None) -> Iterator[Step]:
    """The steps of a match, from its last one back."""
    while step is not None:
        yield step
        step = step[3]
