"""The purpose of a plan: to be executed or shown, in batch mode or as a stream."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class PlanPurpose:
    """The purpose of a plan.

    Flink's planner does not prune all columns that are not used. Plans that are shown have them, too, and those that
    are executed have not.

    Attributes:
        is_shown: whether it is shown, and not executed.
        is_batch: whether the statement runs in batch mode.
    """

    is_shown: bool = False
    is_batch: bool = False


EXECUTED: Final = PlanPurpose()
"""The purpose of a plan of a stream that is executed."""
