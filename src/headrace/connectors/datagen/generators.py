"""Making records from their numbers, so that record ``i`` depends on the seed and ``i`` alone."""

from __future__ import annotations

import inspect
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.errors import InvalidTypeError
from headrace.connectors.ranges import runs
from headrace.connectors.source import SourceReader, SourceRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy.typing as npt

    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.source import Json

    GeneratorFunction = Callable[..., Any]
    BatchGenerator = Callable[[npt.NDArray[np.int64], np.random.Generator], pa.RecordBatch | Mapping[str, Any]]

BLOCK = 4096
"""A batch generator is called for whole blocks of so many indices, each with a generator of its own seed."""

_SEED_BITS = 2**64 - 1


def wants_random(function: GeneratorFunction) -> bool:
    """Whether a generator function takes a source of randomness besides the index."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    required = [
        p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    return len(required) > 1


class RowReader(SourceReader):
    """Calls a function for every record."""

    def __init__(self, function: GeneratorFunction, seed: int) -> None:
        self._function = function
        self._seed = seed
        self._wants_random = wants_random(function)

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        for start, end in runs(piece):
            yield SourceRecords(rows=self._rows(start, end))

    def _rows(self, start: int, end: int) -> list[Any]:
        function = self._function
        if not self._wants_random:
            return [function(index) for index in range(start, end)]
        rng = random.Random()
        rows = []
        for index in range(start, end):
            rng.seed((index << 64) + (self._seed & _SEED_BITS))
            rows.append(function(index, rng))
        return rows


class BatchReader(SourceReader):
    """Calls a function for every block of indices and hands over the part that was asked for."""

    def __init__(self, function: BatchGenerator, seed: int, kind: TypeInformation) -> None:
        self._function = function
        self._seed = seed
        self._kind = kind

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        start, end = piece
        while start < end:
            block, skipped = divmod(start, BLOCK)
            taken = min(BLOCK - skipped, end - start)
            columns = generate_block(self._function, self._seed, block, self._kind)
            yield SourceRecords(columns=columns.slice(skipped, taken))
            start += taken


def generate_block(function: BatchGenerator, seed: int, block: int, kind: TypeInformation) -> pa.RecordBatch:
    """The records of one block, under the schema of their type.

    Raises:
        InvalidTypeError: when the function does not give one record for each index, of the declared type.
    """
    indices = np.arange(BLOCK, dtype=np.int64) + np.int64(block * BLOCK)
    made = function(indices, np.random.default_rng([seed & _SEED_BITS, block]))
    columns = _fit(made, layout_of(kind).schema)
    if columns.num_rows != BLOCK:
        raise InvalidTypeError(f"the batch generator was given {BLOCK} indices but made {columns.num_rows} records")
    return columns


def _fit(made: Any, schema: pa.Schema) -> pa.RecordBatch:
    if isinstance(made, pa.RecordBatch):
        made = dict(zip(made.schema.names, made.columns, strict=True))
    missing = [name for name in schema.names if name not in made]
    if missing:
        raise InvalidTypeError(f"the batch generator made no column {missing[0]!r}; it made {', '.join(made)}")
    try:
        arrays = [_column(made[field.name], field.type) for field in schema]
    except pa.ArrowInvalid as error:
        raise InvalidTypeError(f"the batch generator's columns do not fit the declared type: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(values: Any, kind: pa.DataType) -> pa.Array:
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return array if array.type == kind else array.cast(kind)
