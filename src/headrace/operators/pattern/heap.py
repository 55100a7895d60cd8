"""A heap that orders equal elements as ``java.util.PriorityQueue`` does.

Python's ``heapq`` moves elements differently when one is taken, and so returns others first among equal ones. Which of
several matches with one start is found first decides what a skip strategy leaves, so the order has to be this one.
Elements are compared by their first item.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T", bound=tuple[Any, ...])


def offer(heap: list[T], element: T) -> None:
    """Add an element."""
    at = len(heap)
    heap.append(element)
    key = element[0]
    while at:
        above = (at - 1) >> 1
        if key >= heap[above][0]:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = element


def poll(heap: list[T]) -> T:
    """Take the least element."""
    least = heap[0]
    last = heap.pop()
    if heap:
        _sift_down(heap, 0, last)
    return least


def remove(heap: list[T], is_gone: Callable[[T], bool]) -> bool:
    """Remove elements; return whether there were any."""
    kept = [element for element in heap if not is_gone(element)]
    if len(kept) == len(heap):
        return False
    heap[:] = kept
    for at in range((len(heap) >> 1) - 1, -1, -1):
        _sift_down(heap, at, heap[at])
    return True


def _sift_down(heap: list[T], at: int, element: T) -> None:
    size = len(heap)
    key = element[0]
    while (below := 2 * at + 1) < size:
        right = below + 1
        if right < size and heap[below][0] > heap[right][0]:
            below = right
        if key <= heap[below][0]:
            break
        heap[at] = heap[below]
        at = below
    heap[at] = element
