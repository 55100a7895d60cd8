"""What the program with dying workers and its test both know."""

from __future__ import annotations

from collections.abc import Iterator

SPLITS = 4
COUNT = 2_000
EPOCHS = 8
KEYS = 32

IN_A_RECORD = "the worker dies in the midst of a record"
IN_A_TIMER = "the worker dies in the midst of a timer"
IN_CLOSE = "the worker dies while it closes a function"

DYING_NUMBER = SPLITS * COUNT // 3


def timestamp_of(number: int) -> int:
    """When the timer of a number fires; every number has its own time."""
    return 10 * (number // SPLITS) + number % SPLITS + 1


DYING_TIMER = timestamp_of(2 * SPLITS * COUNT // 3)


def expected() -> Iterator[tuple[int, int]]:
    """Each number with its place among those of its key, and each timer with its key."""
    for number in range(SPLITS * COUNT):
        yield number, number // KEYS + 1
        yield -timestamp_of(number), number % KEYS
