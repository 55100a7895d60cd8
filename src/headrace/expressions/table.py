"""All functions of expressions by name: the one place to look for one, and to add one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.expressions import arithmetic, logic, temporal, text

if TYPE_CHECKING:
    from headrace.expressions.functions import Function

FUNCTIONS: Final[dict[str, Function]] = {
    **logic.FUNCTIONS,
    **arithmetic.FUNCTIONS,
    **text.FUNCTIONS,
    **temporal.FUNCTIONS,
}
