"""Failures of sources, told so that whoever reads them knows which source it was."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from headrace.common.call_site import of_traceback
from headrace.common.errors import HeadraceError, UserFunctionError
from headrace.operators.user_code import what_happened

if TYPE_CHECKING:
    from types import TracebackType

    from headrace.common.call_site import CallSite


class NamingSource(AbstractContextManager[None]):
    """Has what is raised within name a source, and the line of the program that made it.

    What code of the program has raised, a source of its own or what it has given to one, becomes a
    :class:`UserFunctionError`. An ``OSError`` stays what it is: it may pass.

    Args:
        name: that of the source.
        call_site: the line.
    """

    def __init__(self, name: str, call_site: CallSite) -> None:
        self._name = name
        self._call_site = call_site

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, HeadraceError):
            name_source(error, self._name, self._call_site)
        elif isinstance(error, Exception) and not isinstance(error, OSError) and of_traceback(trace) is not None:
            lines = [f"source {self._name!r} failed", *what_happened(error), f"  source defined at {self._call_site}"]
            raise UserFunctionError("\n".join(lines)) from error


def name_source(error: HeadraceError, name: str, call_site: CallSite) -> None:
    """Add to an error's message which source it is of, unless it names an operator already."""
    told = f"  source {name!r} defined at {call_site}"
    if not isinstance(error, UserFunctionError) and told not in str(error):
        error.args = (f"{error}\n{told}", *error.args[1:])
