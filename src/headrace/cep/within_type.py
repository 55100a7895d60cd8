"""Between which events of a match the time is measured that ``within`` allows."""

from enum import Enum


class WithinType(Enum):
    """Between which events of a match the time is measured that ``within`` allows.

    Examples:
        >>> from headrace.cep import Pattern, WithinType
        >>> from headrace.common import Duration
        >>> pattern = Pattern.begin("a").followed_by("b")
        >>> soon = pattern.within(Duration.of_seconds(5), WithinType.PREVIOUS_AND_CURRENT)
    """

    PREVIOUS_AND_CURRENT = "previous and current"
    """From the event before the stage to the first event of the stage."""

    FIRST_AND_LAST = "first and last"
    """From the first event of the match to its last one."""
