"""The check that is made of every record and of every value that goes into state, compiled for its type.

The only generated code of headrace: one expression for a record and all its fields. A closure that calls one for each
field takes 1.25 to 3 times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headrace.common.values.handler import TypeHandler


_FUNCTION: Final = """
def check(value):
    try:
        return {condition}
    except Exception:  # the comparison of a user's object may raise anything: pandas.NA == "a" has no truth value
        return False
"""


class CheckSource:
    """The source of one check, while it is being written: expressions are made of positions, ranges and names alone."""

    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}
        self._variables = 0

    @staticmethod
    def compiled(handler: TypeHandler, *, takes_none: bool = True) -> Callable[[Any], bool]:
        """The check of a handler: whether a value is coerced; without ``takes_none``, whether it is and is not None."""
        source = CheckSource()
        condition = source.or_none(handler, "value") if takes_none else handler.add_check(source, "value")
        exec(_FUNCTION.format(condition=condition), source._objects)
        check: Callable[[Any], bool] = source._objects["check"]
        return check

    def or_none(self, handler: TypeHandler, value: str) -> str:
        """An expression: whether what the expression ``value`` gives is ``None``, or coerced."""
        return f"({handler.add_check(self, value)} or {value} is None)"

    def name_of(self, item: Any) -> str:
        """The name that stands for an object in the expression."""
        name = f"object_{len(self._objects)}"
        self._objects[name] = item
        return name

    def bind(self, value: str) -> tuple[str, str]:
        """Two expressions for what the expression ``value`` gives: where it is used first, and where it is again."""
        if value.isidentifier():
            return value, value
        self._variables += 1
        variable = f"part_{self._variables}"
        return f"({variable} := {value})", variable
