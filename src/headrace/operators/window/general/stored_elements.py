"""The elements of windows that fire, in the columns of state: records are made while they are gone through.

The columns are pieces of files that are mapped into memory, one for each run. They are never put together: a window may
hold more than memory does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol, overload

import numpy as np

from headrace.common.columns import array_to_values
from headrace.common.other_names import names_explained
from headrace.operators.arrays import concat, gather

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt
    import pyarrow as pa

    from headrace.common.typeinfo import TypeInformation
    from headrace.state.runs.grouping import Groups

    Longs = npt.NDArray[np.int64]

BLOCK: Final = 1 << 14
"""Of so many elements records are made together."""

MOST_IN_LIST: Final = 1 << 17
"""A function is given a list of so many elements at most."""

_IS_NO_LIST: Final = "so many elements are no list, but read from state whenever they are gone through: {}"
_MAKE_LIST: Final = _IS_NO_LIST.format("make one by list(elements), where memory allows")


class ElementColumn(Protocol):
    """Elements as they are stored."""

    def values(self, rows: Longs) -> list[Any]:
        """The values in these rows."""


@dataclass(frozen=True)
class ColumnPieces:
    """A column in pieces, one after the other.

    Attributes:
        type: the type of its values.
        pieces: the pieces, of which there is at least one.
    """

    type: TypeInformation
    pieces: list[pa.Array]

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def whole(self) -> pa.Array:
        """All of it in one piece."""
        return concat(self.pieces)

    def values(self, rows: Longs) -> list[Any]:
        """The values in these rows."""
        return array_to_values(self.type, self._take(rows))

    def _take(self, rows: Longs) -> pa.Array:
        if len(self.pieces) == 1:
            return gather(self.pieces[0], rows)
        starts = np.cumsum([0, *map(len, self.pieces)])
        piece_of = np.searchsorted(starts, rows, side="right") - 1
        order = np.argsort(piece_of, kind="stable")
        bounds = np.searchsorted(piece_of[order], np.arange(len(starts))).tolist()
        taken = [
            gather(piece, rows[order[first:last]] - start)
            for piece, start, (first, last) in zip(self.pieces, starts[:-1], pairwise(bounds), strict=True)
            if first < last
        ]
        found = concat(taken)
        return found if len(taken) == 1 else gather(found, np.argsort(order))


@dataclass(frozen=True)
class ElementsOfKeys:
    """The elements of each key of a window, made while it is gone through.

    Attributes:
        values: all of them.
        groups: where those of each key are among them.
    """

    values: ElementColumn
    groups: Groups

    def __iter__(self) -> Iterator[Sequence[Any]]:
        for block in self.groups.blocks(BLOCK):
            bounds = pairwise([*block.segments.starts.tolist(), block.segments.total])
            if block.segments.total > MOST_IN_LIST:  # of one key at least there are many
                yield from (self._of_key(block.order[start:stop]) for start, stop in bounds)
            else:
                elements = self.values.values(block.order)
                yield from (elements[start:stop] for start, stop in bounds)

    def _of_key(self, rows: Longs) -> Sequence[Any]:
        return StoredElements(self.values, rows) if len(rows) > MOST_IN_LIST else self.values.values(rows)


@names_explained(
    "the elements of a window",
    {
        "sort": _IS_NO_LIST.format("sorted(elements) makes a sorted list"),
        **dict.fromkeys(("append", "clear", "copy", "extend", "insert", "pop", "remove", "reverse"), _MAKE_LIST),
    },
)
class StoredElements(Sequence[Any]):
    """The elements that a window holds of a key, if these are very many. They may be gone through any number of times.

    Args:
        values: a column that they are in.
        rows: which rows of it they are.
    """

    def __init__(self, values: ElementColumn, rows: Longs) -> None:
        self._values = values
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Any]:
        return self._in_blocks(self._rows)

    def __reversed__(self) -> Iterator[Any]:
        return self._in_blocks(self._rows[::-1])

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return list(self._in_blocks(self._rows[index]))
        return self._values.values(self._rows[[index]])[0]

    def __repr__(self) -> str:
        return f"<{len(self)} elements of a window>"

    def _in_blocks(self, rows: Longs) -> Iterator[Any]:
        for start in range(0, len(rows), BLOCK):
            yield from self._values.values(rows[start : start + BLOCK])
