"""Names of columns."""

from collections.abc import Sequence


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names, made unique by appending the lowest number that makes a duplicate new."""
    taken: dict[str, None] = {}
    for name in names:
        found, number = name, 0
        while found in taken:
            found, number = f"{name}{number}", number + 1
        taken[found] = None
    return tuple(taken)
