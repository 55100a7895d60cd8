"""``Records``: what has reached a sink, a list that can say how it differs from what a test expects."""

from __future__ import annotations

from typing import Any, Final

_SHOWN: Final = 20
"""So many records of one kind are shown at most."""


class Records(list[Any]):
    """Records in the order in which they came; equal to a list of the same."""

    def difference(self, expected: list[Any]) -> list[str]:
        """How they differ from what was expected: lines of text, none where they are equal.

        Args:
            expected: the records that should have come, in order.
        """
        if self == expected:
            return []
        missing, surplus = _without(expected, self), _without(self, expected)
        if missing or surplus:
            return [*_listed("expected, but not there", missing), *_listed("there, but not expected", surplus)]
        place = next(i for i, (found, wanted) in enumerate(zip(self, expected, strict=True)) if found != wanted)
        return [
            f"the same {len(self)} records in another order, from number {place} on",
            f"  found:    {self[place]!r}",
            f"  expected: {expected[place]!r}",
        ]


def _without(records: list[Any], others: list[Any]) -> list[Any]:
    """The records that are not among others, each as often as it is not."""
    left, kept = list(others), []
    for record in records:
        try:
            left.remove(record)
        except ValueError:
            kept.append(record)
    return kept


def _listed(title: str, records: list[Any]) -> list[str]:
    if not records:
        return []
    lines = [f"{title}: {len(records)}", *(f"  {record!r}" for record in records[:_SHOWN])]
    return lines if len(records) <= _SHOWN else [*lines, f"  and {len(records) - _SHOWN} more"]
