"""``DataGeneratorSource``: records made from their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.type_variables import T_co
from headrace.common.typeinfo import Types
from headrace.connectors.datagen.generators import BatchReader, RowReader
from headrace.connectors.datagen.rate import RateLimiterStrategy
from headrace.connectors.ranges import RangeEnumerator, pending_numbers, plan_range
from headrace.connectors.source import Boundedness, Source

if TYPE_CHECKING:
    from headrace.common.typeinfo import DeclaredType, TypeInformation
    from headrace.connectors.datagen.generators import BatchGenerator, GeneratorFunction
    from headrace.connectors.source import (
        EnumeratorContext,
        Json,
        Pending,
        ReadBudget,
        SourceReader,
        SplitEnumerator,
        SplitRead,
    )

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
        batch_generator: called as ``function(indices, rng)`` with 4096 consecutive indices (more than are asked for
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

    @property
    def gives_timestamps(self) -> bool:
        return False

    @property
    def reads_in_pieces(self) -> bool:
        return True

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        return _GeneratorEnumerator(self._count, self._rate, context.state)

    def create_reader(self) -> SourceReader:
        if self._batch_function is not None:
            return BatchReader(self._batch_function, self._seed, self._type)
        return RowReader(_given(self._function), self._seed)


class _GeneratorEnumerator(RangeEnumerator):
    """Lets records become available at the given rate, from the first look on."""

    def __init__(self, count: int | None, rate: RateLimiterStrategy, state: Json | None) -> None:
        super().__init__(_SPLIT, count, _RECORD_BYTES)
        self._rate = rate
        self._started: int | None = None if state is None else state["started"]

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        return plan_range(split_id, position, self._available(position, now), budget, _RECORD_BYTES)

    def pending(self, split_id: str, position: Json, now: int) -> Pending:
        return pending_numbers(position, self._available(position, now), _RECORD_BYTES)

    def snapshot(self) -> Json:
        return {"started": self._started}

    def _available(self, position: int, now: int) -> int | None:
        """How many records there are by now, counted from the first one; None when there is no limit."""
        if self._started is None:
            self._started = now
        limits = (self._count, self._rate.available(position, now - self._started))
        return min((limit for limit in limits if limit is not None), default=None)


def _given(function: Any) -> Any:
    assert function is not None
    return function
