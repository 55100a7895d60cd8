"""``PartList``: the parts of one window, side by side in the columns of a table; and their description as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from headrace.common.typeinfo import Types
from headrace.operators.window.parts import (
    CountRows,
    CountValues,
    Edge,
    Extreme,
    KeyField,
    Part,
    SumFloats,
    SumIntegers,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from headrace.operators.window.kernels import Segments
    from headrace.operators.window.parts import GroupedRows, Input

_KINDS: dict[str, type[Part]] = {
    kind.__name__: kind for kind in (CountRows, CountValues, Edge, Extreme, KeyField, SumFloats, SumIntegers)
}


@dataclass(frozen=True)
class PartList:
    """What is remembered for a key and window; each part has some of the columns.

    Attributes:
        parts: the parts in the order of their columns, all different.
    """

    parts: tuple[Part, ...]

    def begin(self, rows: GroupedRows) -> list[pa.Array]:
        """The columns of the partial result of each group of rows."""
        return [column for part in self.parts for column in part.begin(rows)]

    def merge(self, columns: Sequence[pa.Array], segments: Segments) -> list[pa.Array]:
        """The columns of each group of partial results, which lie group after group."""
        parts = zip(self.parts, self._split(columns), strict=True)
        return [column for part, own in parts for column in part.merge(own, segments)]

    def results(self, columns: Sequence[pa.Array]) -> dict[Part, pa.Array]:
        """The value of each part."""
        return {part: part.result(own) for part, own in zip(self.parts, self._split(columns), strict=True)}

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """What the parts look at, each once."""
        found = (getattr(part, "column", None) for part in self.parts)
        return tuple(dict.fromkeys(source for source in found if source is not None))

    def to_json(self) -> list[dict[str, Any]]:
        """What has to be known to merge partial results, without the program that made them."""
        return [
            {"kind": type(part).__name__}
            | {name: getattr(part, name) for name in ("name", "is_largest", "is_last") if hasattr(part, name)}
            for part in self.parts
        ]

    @staticmethod
    def for_merging(described: Sequence[dict[str, Any]]) -> PartList:
        """Parts that merge as the ones described do; the columns and types of the input are not known any more."""
        return PartList(tuple(_for_merging(dict(entry)) for entry in described))

    def _split(self, columns: Sequence[pa.Array]) -> list[list[pa.Array]]:
        """The columns of each part."""
        bounds = [0, *accumulate(len(part.fields) for part in self.parts)]
        return [list(columns[start:stop]) for start, stop in pairwise(bounds)]


def _for_merging(entry: dict[str, Any]) -> Part:
    kind = _KINDS[entry.pop("kind")]
    unknown: dict[str, Any] = {"column": -1, "type": Types.PICKLED_BYTE_ARRAY()}
    return kind(**entry, **{name: value for name, value in unknown.items() if name in kind.__dataclass_fields__})
