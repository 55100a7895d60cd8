"""What a class says of its methods, and what becomes of that where a derived class has other methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def keep_true(cls: type, promise: str, methods: Iterable[str], default: type) -> None:
    """Has a class take back what a base says of methods that the class overrides, unless it says it anew.

    So what is computed from ``promise`` in the place of the methods never passes over those of a program.

    Args:
        cls: the class, as it is made.
        promise: the name of the property or method that says it.
        methods: the names of those that it is about; the class need not have all of them.
        default: the class that promises nothing: its ``promise`` is what holds then.
    """
    lineage = cls.__mro__
    said = _first_with(lineage, promise)
    if lineage[said] is not default and any(_first_with(lineage, method) < said for method in methods):
        setattr(cls, promise, vars(default)[promise])


def _first_with(lineage: tuple[type, ...], name: str) -> int:
    """The position of the class that a name is found in; behind all classes when there is none."""
    return next((position for position, owner in enumerate(lineage) if name in vars(owner)), len(lineage))
