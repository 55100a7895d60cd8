"""A machine that loses power between two steps that change a folder: this process stands for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

from headrace.storage.folder import Folder

CHANGES = ("make", "create", "write", "remove", "remove_unfinished", "remove_empty_folders")


class PowerFailureError(BaseException):
    """Nothing in the engine catches it."""


class Machine:
    """Counts the steps that change folders of some kind, and fails at one; from then on no folder changes any more.

    Args:
        counts: tells by its path whether a change of a folder counts.

    Attributes:
        steps: so many have been done.
    """

    def __init__(self, counts: Callable[[str], bool]) -> None:
        self._counts = counts
        self._last: int | None = None
        self.steps = 0
        self.is_off = False

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Have all folders of this process be on the machine."""
        for name in CHANGES:
            patch.setattr(Folder, name, self._watched(getattr(Folder, name)))

    def fail_at(self, step: int | None) -> None:
        """Be on; lose power once so many steps more have been done; never for None."""
        self.steps, self._last, self.is_off = 0, step, False

    def _watched(self, change: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(change)
        def step(folder: Folder, *arguments: Any, **more: Any) -> Any:
            if self.is_off or (self._counts(str(folder)) and self.steps == self._last):
                self.is_off = True
                raise PowerFailureError
            result = change(folder, *arguments, **more)
            self.steps += self._counts(str(folder))
            return result

        return step
