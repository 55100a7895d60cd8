"""What the program with two sinks on a cluster and its test both know."""

from __future__ import annotations

SPLITS = 4
COUNT = 4_000
EPOCHS = 8
KEYS = 64

_AN_EPOCH = SPLITS * COUNT // EPOCHS

MARKS = {
    "first": (2 * _AN_EPOCH + 77,),
    "second": (3 * _AN_EPOCH + 1_111,),
    "last": (1 * _AN_EPOCH + 1_500, 4 * _AN_EPOCH + 1_901, 6 * _AN_EPOCH + 1_702),
}
"""By stage, the records at which the executor is killed: five in all, each in an epoch of its own."""


def point(stage: str, number: int) -> str:
    """The name of a kill in a plan."""
    return f"the executor dies in the {stage} stage at {number}"
