"""What windows of fixed ends hold, ordered by their ends: nobody looks at it before, so elements are added together."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from headrace.common.errors import InvalidProgramError
from headrace.operators.window.general.contents import WindowContents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy as np
    import numpy.typing as npt

    from headrace.operators.keyed import KeyedBatch
    from headrace.state.keyed.namespaces import GivenNamespace
    from headrace.state.keys import KeyColumn
    from headrace.windowing.intervals import Assignment

    Longs = npt.NDArray[np.int64]


class KeysOfWindow(NamedTuple):
    """What a window holds of all keys.

    Attributes:
        keys: the keys, in the order in which they fire.
        held: what it holds of each; to be gone through once.
        shown: makes of that what a function sees.
    """

    keys: KeyColumn
    held: Iterable[Any]
    shown: Callable[[Any], Sequence[Any]]


class OrderedContents(WindowContents):
    """What the windows of one subtask hold; the namespace of a window is its end."""

    @abstractmethod
    def add_all(self, batch: KeyedBatch, pairs: Assignment) -> None:
        """Adds elements to windows that have not fired yet: nobody sees in which order.

        Raises:
            UserFunctionError: when a function that folds them fails; it names the element.
        """

    @abstractmethod
    def recall(self, ends: Longs, keys: KeyColumn) -> None:
        """Reads together what windows hold for keys that single elements will be added to."""

    @abstractmethod
    def ends_between(self, after: int, upto: int) -> set[int]:
        """The ends of all windows whose largest timestamp is above ``after`` but not above ``upto``."""

    @abstractmethod
    def of_all_keys(self, end: int) -> KeysOfWindow:
        """What a window holds; keys by their hashes, then by themselves."""

    @abstractmethod
    def forget(self, watermark: int) -> None:
        """Drops the windows that go at this watermark, or have gone."""

    def clear(self, namespace: GivenNamespace) -> NoReturn:
        raise InvalidProgramError(
            "the trigger says of itself that it fires at the end of a window and does nothing else "
            "(fires_only_at_end), but it purges: leave fires_only_at_end as it is, False"
        )


def end_of(namespace: GivenNamespace) -> int:
    """The end of the window with a namespace."""
    assert isinstance(namespace, int), "windows of fixed ends are known by them"
    return namespace
