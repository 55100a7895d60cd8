"""Sources whose position is a number, of which an epoch's share is a range: sequences, collections, generators."""

import inspect
import operator
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.batch import Kinds
from headrace.common.columns import infer_from_values, layout_of
from headrace.common.errors import InvalidProgramError, InvalidTypeError, expect
from headrace.common.type_variables import T_co
from headrace.common.typeinfo import DeclaredType, TypeInformation, Types
from headrace.connectors.source import (
    Boundedness,
    EnumeratorContext,
    FunctionReader,
    Json,
    Pending,
    ReadBudget,
    Source,
    SourceReader,
    SourceRecords,
    SplitEnumerator,
    SplitRead,
)

GeneratorFunction = Callable[..., Any]
BatchGenerator = Callable[[npt.NDArray[np.int64], np.random.Generator], pa.RecordBatch | Mapping[str, Any]]


READ_RECORDS = 1 << 15
"""A reader hands over at most so many records at once."""


def plan_range(
    split_id: str, position: int, available: int | None, budget: ReadBudget, record_bytes: int = 8
) -> SplitRead | None:
    """An epoch's share of the numbers from ``position`` up to ``available``.

    Args:
        split_id: the split.
        position: the next number.
        available: the end of what can be read now; None when there is no end.
        budget: how much the epoch may take.
        record_bytes: what a record is guessed to take.
    """
    count = share(position, available, budget, record_bytes)
    if not count:
        return None
    end = position + count
    pieces = tuple(cut_evenly(position, end, budget.pieces))
    return SplitRead(split_id, position, end, pieces, records=count, bytes=count * record_bytes)


def share(position: int, available: int | None, budget: ReadBudget, record_bytes: int) -> int:
    """The count of numbers that an epoch takes; the arguments are those of :func:`plan_range`."""
    count = max(1, min(budget.records, budget.bytes // max(record_bytes, 1)))
    return count if available is None else max(0, min(count, available - position))


def pending_numbers(position: int, available: int | None, record_bytes: int = 8) -> Pending:
    """The backlog beyond ``position``; the arguments are those of :func:`plan_range`."""
    if available is None:
        return Pending()
    records = max(0, available - position)
    return Pending(records, records * record_bytes)


def cut_evenly(start: int, end: int, pieces: int) -> Iterator[list[int]]:
    """``[start, end)`` in at most ``pieces`` ranges of about equal length, none of them empty."""
    pieces = max(1, min(pieces, end - start))
    for index in range(pieces):
        yield [start + (end - start) * index // pieces, start + (end - start) * (index + 1) // pieces]


def runs(piece: Json, length: int = READ_RECORDS) -> Iterator[tuple[int, int]]:
    """The runs in which a reader hands a piece over: cut at the multiples of ``length``."""
    at, end = piece
    while at < end:
        start, at = at, min(at - at % length + length, end)
        yield start, at


class RangeEnumerator(SplitEnumerator):
    """Plans one split of the numbers from 0 up to a known count.

    Args:
        split_id: the name of the split.
        count: how many records there are; None for no end.
        record_bytes: what a record is guessed to take.
    """

    def __init__(self, split_id: str, count: int | None, record_bytes: int = 8) -> None:
        self._split_id = split_id
        self._count = count
        self._record_bytes = record_bytes

    def discover(self, now: int) -> Sequence[str]:
        return (self._split_id,)

    def initial_position(self, split_id: str) -> Json:
        return 0

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        return plan_range(split_id, position, self._available(position, now), budget, self._record_bytes)

    def pending(self, split_id: str, position: Json, now: int) -> Pending:
        return pending_numbers(position, self._available(position, now), self._record_bytes)

    def is_finished(self, split_id: str, position: Json) -> bool:
        return self._count is not None and position >= self._count

    def _available(self, position: int, now: int) -> int | None:
        """The end of what can be read now; None when there is no end."""
        return self._count


def reader_of_ranges(records: Callable[[int, int], SourceRecords], length: int = READ_RECORDS) -> SourceReader:
    """Reads pieces of numbers.

    Args:
        records: gives the records of the numbers from a first one up to an end.
        length: at whose multiples a piece is cut.
    """

    def read(piece: Json) -> Iterator[SourceRecords]:
        # A generator: to starmap a StopIteration of the program's function would be the end of the piece.
        for start, end in runs(piece, length):
            yield records(start, end)

    return FunctionReader(read)


_SEQUENCE = "sequence"


class NumberSequenceSource(Source[int]):
    """The numbers from ``start`` to ``end``, both included, as ``LONG`` records in rising order.

    Flink cuts the sequence into one split per reader, so that order and watermarks depend on the parallelism. Here it
    is one split that is read in pieces: in order, whatever the parallelism.

    Args:
        start: the first number.
        end: the last number; one less than ``start`` for no numbers.

    Raises:
        InvalidProgramError: when the bounds are no longs or the wrong way round.

    Examples:
        >>> from headrace.common import WatermarkStrategy
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors import NumberSequenceSource
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> numbers = env.from_source(NumberSequenceSource(1, 5), WatermarkStrategy.no_watermarks(), "numbers")
        >>> sorted(numbers.execute_and_collect(limit=10))
        [1, 2, 3, 4, 5]
    """

    boundedness = Boundedness.BOUNDED
    gives_timestamps = False
    reads_in_pieces = True

    def __init__(self, start: int, end: int) -> None:
        self._start = _long(start)
        self._end = _long(end)
        if self._start > self._end + 1:
            raise InvalidProgramError(f"NumberSequenceSource cannot run from {start} down to {end}")

    @property
    def produced_type(self) -> TypeInformation:
        return Types.LONG()

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        return RangeEnumerator(_SEQUENCE, self._end - self._start + 1)

    def create_reader(self) -> SourceReader:
        return reader_of_ranges(partial(_sequence, self._start))

    def __repr__(self) -> str:
        return f"NumberSequenceSource({self._start}, {self._end})"


def _long(bound: int) -> int:
    try:
        number = operator.index(bound)
    except TypeError:
        raise InvalidProgramError(f"NumberSequenceSource needs whole numbers as its bounds, not {bound!r}") from None
    if not -(2**63) <= number < 2**63:
        raise InvalidProgramError(f"NumberSequenceSource needs bounds of 64 bits, not {bound!r}")
    return number


def _sequence(first: int, start: int, end: int) -> SourceRecords:
    # The offset is added to an array that starts at 0: the end may be the largest long.
    numbers = np.arange(end - start, dtype=np.int64) + np.int64(first + start)
    schema = layout_of(Types.LONG()).schema
    return SourceRecords(columns=pa.RecordBatch.from_arrays([pa.array(numbers)], schema=schema))


_COLLECTION = "collection"


class CollectionSource(Source[T_co]):
    """A bounded source of the given elements, in their order.

    The elements are checked against the type here, once, and are kept as columns when the type has any
    and all rows are insertions (``RowKind``).

    Args:
        elements: the elements; read once, now.
        type_info: their type, or a class or type hint that stands for one; inferred from the elements when left out.

    Raises:
        InvalidTypeError: when an element does not fit the type, or ``elements`` would give characters, keys or names of
            columns.
    """

    boundedness = Boundedness.BOUNDED
    gives_timestamps = False
    reads_in_pieces = True

    def __init__(self, elements: Iterable[object], type_info: TypeInformation | type | None = None) -> None:
        _check_rows(elements)
        rows = list(elements)
        self._type = infer_from_values(rows) if type_info is None else Types.of(type_info)
        self._records = SourceRecords(rows=rows)
        if self._type.arrow_type is not None:
            columns, kinds = layout_of(self._type).rows_to_columns_and_kinds(rows)
            if kinds is None:
                self._records = SourceRecords(columns=columns)

    @property
    def produced_type(self) -> TypeInformation[T_co]:
        return self._type

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        columns, count = self._records.columns, len(self._records)
        size = 64 if columns is None else columns.nbytes // max(count, 1) + 1
        return RangeEnumerator(_COLLECTION, count, size)

    def create_reader(self) -> SourceReader:
        return reader_of_ranges(self._records.part)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._records)} elements of {self._type})"


class ColumnsSource(CollectionSource[object]):
    """A bounded source of the rows of a batch, in their order.

    Args:
        type_info: their type.
        columns: the rows, under the schema of the type.
        kinds: what they do in a changelog; None where all are insertions.
    """

    def __init__(self, type_info: TypeInformation, columns: pa.RecordBatch, kinds: Kinds | None = None) -> None:
        self._type, self._records = type_info, SourceRecords(columns=columns, kinds=kinds)


def _check_rows(elements: object) -> None:
    """Refuse what can be iterated, but gives something else than the records that were meant."""
    if isinstance(elements, str | bytes):
        raise InvalidTypeError(f"a collection is a list of elements, not {elements!r}: write [{elements!r}]")
    if isinstance(elements, Mapping):
        raise InvalidTypeError(
            "a collection is a list of elements, and a dict gives its keys only: write list(d.items())"
        )
    if hasattr(elements, "columns"):  # of pandas, Polars, Arrow, Spark
        raise InvalidTypeError(
            f"a collection is a list of elements, and a {type(elements).__name__} gives its columns: write "
            "list(frame.itertuples(index=False, name=None)) of pandas, frame.rows() of Polars, table.to_pylist() of "
            "Arrow, or env.from_dataframe(frame) of Spark"
        )
    expect(elements, Iterable, "from_collection")


@dataclass(frozen=True, slots=True)
class RateLimiterStrategy:
    """A limit on generated records, over all tasks together.

    Attributes:
        records_per_second: how many records become available in a second of the job's clock; None for no limit.
        records_per_checkpoint: how many records an epoch may take; None for no limit.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
        >>> slowly = RateLimiterStrategy.per_second(100)
        >>> source = DataGeneratorSource(lambda index: index, 1_000_000, slowly, Types.LONG())
    """

    records_per_second: float | None = None
    records_per_checkpoint: int | None = None

    @staticmethod
    def per_second(records_per_second: float) -> "RateLimiterStrategy":
        """Limit the records of a second; a job that falls behind catches up.

        Raises:
            InvalidProgramError: when the rate is not above 0.
        """
        _check_positive(records_per_second)
        return RateLimiterStrategy(records_per_second=records_per_second)

    @staticmethod
    def per_checkpoint(records_per_checkpoint: int) -> "RateLimiterStrategy":
        """Limit the records of an epoch.

        Raises:
            InvalidProgramError: when the number is not above 0.
        """
        _check_positive(records_per_checkpoint)
        return RateLimiterStrategy(records_per_checkpoint=records_per_checkpoint)

    @staticmethod
    def no_op() -> "RateLimiterStrategy":
        """Set no limit."""
        return RateLimiterStrategy()

    def available(self, position: int, elapsed: int) -> int | None:
        """The number of records since the start of the job that may be read now; None when there is no limit.

        Args:
            position: how many have been read.
            elapsed: milliseconds since the start.
        """
        if self.records_per_checkpoint is not None:
            return position + self.records_per_checkpoint
        if self.records_per_second is None:
            return None
        return max(position, int(elapsed * self.records_per_second / 1000))


def _check_positive(rate: float) -> None:
    if not rate > 0:
        raise InvalidProgramError(f"a rate is above 0, not {rate!r}")


BLOCK = 4096
"""A batch generator is called for whole blocks of so many indices, each with a generator of its own seed."""

_SEED_BITS = 2**64 - 1


def wants_random(function: GeneratorFunction) -> bool:
    """Tell whether a generator function takes a source of randomness besides the index."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    required = [
        p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    return len(required) > 1


def _generated_rows(function: GeneratorFunction, seed: int | None, start: int, end: int) -> SourceRecords:
    """The rows that a function makes; a source of randomness is given to it where there is a seed."""
    if seed is None:
        return SourceRecords(rows=[function(index) for index in range(start, end)])
    rng, rows = random.Random(), []
    for index in range(start, end):
        rng.seed((index << 64) + (seed & _SEED_BITS))
        rows.append(function(index, rng))
    return SourceRecords(rows=rows)


def _generated_columns(
    function: BatchGenerator, seed: int, kind: TypeInformation, start: int, end: int
) -> SourceRecords:
    """The requested part of the block of indices in which it is."""
    block, skipped = divmod(start, BLOCK)
    return SourceRecords(columns=generate_block(function, seed, block, kind).slice(skipped, end - start))


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


def _column(values: object, kind: pa.DataType) -> pa.Array:
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return array if array.type == kind else array.cast(kind)


_SPLIT = "datagen"
_RECORD_BYTES = 64


class DataGeneratorSource(Source[T_co]):
    """Records that a function makes, the same ones at every run and however the job reads them.

    One of two functions makes them, record by record or column by column.

    Args:
        generator_function: called as ``function(index)``, or as ``function(index, rng)`` when it takes two arguments;
            ``rng`` is a :class:`random.Random` that is seeded with ``seed`` and the index.
        count: how many records there are; None for a stream that never ends.
        rate_limiter_strategy: how fast records become available; as fast as the job takes them when left out.
        type_info: the type of the records; pickled objects when left out, which a batch generator may not do.
        batch_generator: called as ``function(indices, rng)`` with 4096 consecutive indices (more than requested
            at the ends) and a :class:`numpy.random.Generator`; gives a record batch or a dict of columns.
        seed: what the randomness starts from.

    Raises:
        InvalidProgramError: when not exactly one of the two functions is given, or ``count`` is below 0.
        InvalidTypeError: when the records of a batch generator have no columns, or ``rate_limiter_strategy`` is none.

    Examples:
        >>> from headrace.common import Types, WatermarkStrategy
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors.datagen import DataGeneratorSource
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> source = DataGeneratorSource(lambda index: f"user {index}", 3, type_info=Types.STRING())
        >>> users = env.from_source(source, WatermarkStrategy.no_watermarks(), "users")
        >>> sorted(users.execute_and_collect(limit=10))
        ['user 0', 'user 1', 'user 2']

        Column by column:

        >>> prices = DataGeneratorSource(
        ...     batch_generator=lambda indices, rng: {"id": indices, "price": rng.uniform(1, 100, len(indices))},
        ...     type_info=Types.ROW_NAMED(["id", "price"], [Types.LONG(), Types.DOUBLE()]),
        ... )
    """

    gives_timestamps = False
    reads_in_pieces = True

    def __init__(
        self,
        generator_function: GeneratorFunction | None = None,
        count: int | None = None,
        rate_limiter_strategy: RateLimiterStrategy | None = None,
        type_info: DeclaredType[T_co] | None = None,
        *,
        batch_generator: BatchGenerator | None = None,
        seed: int = 0,
    ) -> None:
        if (generator_function is None) == (batch_generator is None):
            raise InvalidProgramError("DataGeneratorSource takes either a generator_function or a batch_generator")
        if count is not None and count < 0:
            raise InvalidProgramError(f"a count is not below 0: {count}")
        if hasattr(type(generator_function or batch_generator), "initialize_state"):
            raise InvalidProgramError(
                "a generator function has no state in checkpoints: a record follows from its number alone, which is "
                "the position of the source; leave CheckpointedFunction out"
            )
        if not isinstance(rate_limiter_strategy, RateLimiterStrategy | None):
            raise InvalidTypeError(
                f"rate_limiter_strategy is a RateLimiterStrategy, not {rate_limiter_strategy!r}: the type of the "
                "records is the argument after it, type_info"
            )
        self._function = generator_function
        self._batch_function = batch_generator
        self._count = count
        self._rate = rate_limiter_strategy or RateLimiterStrategy.no_op()
        self._type = Types.PICKLED_BYTE_ARRAY() if type_info is None else Types.of(type_info)
        self._seed = seed
        if batch_generator is not None and self._type.arrow_type is None:
            raise InvalidTypeError("a batch_generator needs type_info: the type of the records it makes")

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED if self._count is None else Boundedness.BOUNDED

    @property
    def produced_type(self) -> TypeInformation[T_co]:
        return self._type

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        return _GeneratorEnumerator(self._count, self._rate, context.state)

    def create_reader(self) -> SourceReader:
        if self._batch_function is not None:
            return reader_of_ranges(partial(_generated_columns, self._batch_function, self._seed, self._type), BLOCK)
        assert self._function is not None
        seed = self._seed if wants_random(self._function) else None
        return reader_of_ranges(partial(_generated_rows, self._function, seed))


class _GeneratorEnumerator(RangeEnumerator):
    """Lets records become available at the given rate, from the first look on."""

    def __init__(self, count: int | None, rate: RateLimiterStrategy, state: Json | None) -> None:
        super().__init__(_SPLIT, count, _RECORD_BYTES)
        self._rate = rate
        self._started: int | None = None if state is None else state["started"]

    def snapshot(self) -> Json:
        return {"started": self._started}

    def _available(self, position: int, now: int) -> int | None:
        if self._started is None:
            self._started = now
        limits = (self._count, self._rate.available(position, now - self._started))
        return min((limit for limit in limits if limit is not None), default=None)
