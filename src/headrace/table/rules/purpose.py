"""What a plan is made for."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class PlanPurpose:
    """What a plan is made for.

    Flink's planner does not prune all columns that are not used. Plans that are shown have them, too, and those that
    are executed have not.

    Attributes:
        is_shown: whether it is shown, and not executed.
        is_batch: whether the statement runs in batch mode.
    """

    is_shown: bool = False
    is_batch: bool = False


EXECUTED: Final = PlanPurpose()
"""That of a plan of a stream that is executed."""
