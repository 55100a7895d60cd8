"""Whether windows that an assigner of the program has made come back from state as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.errors import InvalidTypeError
from headrace.operators.user_code import record_text
from headrace.windowing.windows import Window

if TYPE_CHECKING:
    from headrace.windowing.assigner import WindowAssigner
    from headrace.windowing.serializers import WindowSerializer


class KeptWindows:
    """Looks at one window of each class that an assigner gives.

    Args:
        assigner: the assigner.
        windows: makes namespaces of its windows.
    """

    def __init__(self, assigner: WindowAssigner[Any, Any], windows: WindowSerializer[Any]) -> None:
        self._assigner = assigner
        self._windows = windows
        self._known: set[type] = set()

    def check(self, window: Any, method: str) -> None:
        """Refuse what does not come back from state as it was: what it holds would never be shown.

        Args:
            window: the window.
            method: the assigner's method that gives it.

        Raises:
            InvalidTypeError: when it is no window, or none that the assigner's serializer is for.
        """
        if window.__class__ in self._known:
            return
        given = f"{type(self._assigner).__name__}.{method}"
        if not isinstance(window, Window):
            raise InvalidTypeError(f"{given} has to give windows, not {record_text(window)}")
        try:
            namespace = self._windows.namespace_of(window)
            back = self._windows.window_of(namespace)
        except (AttributeError, TypeError, ValueError) as error:
            what = f"does not take it ({type(error).__name__}: {error})"
            raise InvalidTypeError(self._wrong_serializer(given, window, what)) from error
        same_place = isinstance(window, type(back)) and self._windows.namespace_of(back) == namespace
        if back != window and not same_place:
            raise InvalidTypeError(self._wrong_serializer(given, window, f"makes {back!r} of it"))
        self._known.add(window.__class__)

    def _wrong_serializer(self, given: str, window: Any, what: str) -> str:
        serializer = type(self._assigner.get_window_serializer()).__name__
        owner = type(self._assigner).__name__
        return (
            f"{given} gives {window!r}, but the {serializer} of {owner}.get_window_serializer {what}: "
            "both have to be for the same class of windows"
        )
