"""Names that programs know from PySpark, pandas or Polars: asking for one says what it is called here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from headrace.common.call_site import caller
from headrace.common.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

C = TypeVar("C", bound=type)


def other_names(names: Mapping[str, str]) -> Callable[[C], C]:
    """Gives a class an answer to names that it does not have; ``hasattr`` and completion do not see them.

    Args:
        names: by name, what to write instead; begins in lower case.
    """

    def look_up(self: Any, name: str) -> Any:
        owner = type(self).__name__
        if name in names:
            raise UnknownNameError(f"{owner} has no {name!r}: {names[name]}\n  at {caller()}")
        raise AttributeError(f"{owner!r} object has no attribute {name!r}", name=name, obj=self)

    def add(cls: C) -> C:
        cls.__getattr__ = look_up  # type: ignore[attr-defined]
        return cls

    return add
