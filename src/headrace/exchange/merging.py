"""Sorted runs of records become one: vectorised, and stable, so that the order is the same at every attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace.operators.keyed import concat_keyed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from headrace.common.batch import Batch

    Order = Callable[[Batch], npt.NDArray[np.int64]]
    Keys = Sequence[npt.NDArray[np.int64]]


def merged(inputs: Mapping[int, Sequence[Batch]], order: Order) -> Iterator[tuple[int, Batch]]:
    """Merge the records of several inputs, cut wherever those of another input come between.

    Args:
        inputs: the batches of each input; records that are equal come input by input, batch by batch.
        order: gives what decides over the order of the records of a batch.

    Yields:
        Input and records.
    """
    runs = {number: concat_keyed(batches) for number, batches in inputs.items()}
    yield from interleaved(runs, {number: (order(run),) for number, run in runs.items()})


def interleaved(runs: Mapping[int, Batch], keys: Mapping[int, Keys]) -> Iterator[tuple[int, Batch]]:
    """Merge the records of several inputs, cut wherever those of another input come between.

    Args:
        runs: the records of each input; those that are equal come input by input, and within one as they are.
        keys: for each input, what decides over the order of its records, the last one first.

    Yields:
        Input and records.
    """
    if len(runs) <= 1:
        for number, run in runs.items():
            yield number, run if _is_sorted(keys[number]) else run.take(np.lexsort(keys[number]))
        return
    starts = np.cumsum([0, *map(len, runs.values())])
    order = np.lexsort([np.concatenate(column) for column in zip(*keys.values(), strict=True)])
    places = np.searchsorted(starts, order, side="right") - 1
    cuts = np.flatnonzero(places[1:] != places[:-1]) + 1
    rows = [order[places == place] - start for place, start in enumerate(starts[:-1].tolist())]
    taken = [run.take(wanted) for run, wanted in zip(runs.values(), rows, strict=True)]
    numbers, done = list(runs), [0] * len(runs)
    for start, stop in zip(np.append(0, cuts).tolist(), np.append(cuts, len(order)).tolist(), strict=True):
        place = int(places[start])
        first = done[place]
        done[place] = first + stop - start
        yield numbers[place], taken[place].slice(first, done[place])


def _is_sorted(keys: Keys) -> bool:
    """Whether nothing has to move; that is so for most of what is large."""
    tied: npt.NDArray[np.bool_] | np.bool_ = np.bool_(True)
    for key in reversed(keys):
        if key.strides == (0,):  # one value that is repeated
            continue
        before, after = key[:-1], key[1:]
        if (tied & (before > after)).any():
            return False
        tied = tied & (before == after)
    return True
