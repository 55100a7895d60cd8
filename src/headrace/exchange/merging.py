"""Sorted runs of records become one: vectorised, and stable, so that the order is the same at every attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace.common.batch import concat
from headrace.operators.keyed import KeyedBatch
from headrace.state.keys import KeyColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from headrace.common.batch import Batch

    Order = Callable[[Batch], npt.NDArray[np.int64]]


def merged(inputs: Mapping[int, Sequence[Batch]], order: Order) -> Iterator[tuple[int, Batch]]:
    """Merge the records of several inputs, cut wherever those of another input come between.

    Args:
        inputs: the batches of each input, each in order; records that are equal come input by input, batch by batch.
        order: gives what decides over the order of the records of a batch.

    Yields:
        Input and records.
    """
    runs = {number: _run(batches, order) for number, batches in inputs.items()}
    if len(runs) <= 1:
        yield from runs.items()
        return
    numbers = np.concatenate([np.full(len(run), number) for number, run in runs.items()])
    sequence = numbers[np.argsort(np.concatenate([order(run) for run in runs.values()]), kind="stable")]
    cuts = np.flatnonzero(sequence[1:] != sequence[:-1]) + 1
    taken = dict.fromkeys(runs, 0)
    for start, stop in zip(np.append(0, cuts).tolist(), np.append(cuts, len(sequence)).tolist(), strict=True):
        number = int(sequence[start])
        first = taken[number]
        taken[number] = first + stop - start
        yield number, runs[number].slice(first, taken[number])


def concat_keyed(batches: Sequence[Batch]) -> Batch:
    """The records of several batches of one stream, with their keys if they have any, one after the other."""
    if len(batches) > 1 and isinstance(batches[0], KeyedBatch):
        keys = KeyColumn.concat([batch.keys for batch in batches if isinstance(batch, KeyedBatch)])
        return KeyedBatch.of(concat(batches), keys)
    return concat(batches)


def _run(batches: Sequence[Batch], order: Order) -> Batch:
    batch = concat_keyed(batches)
    return batch if len(batches) == 1 else batch.take(np.argsort(order(batch), kind="stable"))
