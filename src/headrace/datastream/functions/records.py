"""Functions that are called for a record, and see nothing else."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Generic

from headrace.common.type_variables import ACC, K_co, K_contra, OUT_co, T, T_contra
from headrace.datastream.functions.function import Function

if TYPE_CHECKING:
    from collections.abc import Iterable


class MapFunction(Function, Generic[T_contra, OUT_co]):
    """Makes one record of each record.

    Examples:
        >>> from headrace.datastream import MapFunction, StreamExecutionEnvironment
        >>> class Length(MapFunction):
        ...     def map(self, value: str) -> int:
        ...         return len(value)
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection(["to", "be", "or"]).map(Length()).execute_and_collect(limit=10)
        [2, 2, 2]
    """

    @abstractmethod
    def map(self, value: T_contra) -> OUT_co:
        """The record that ``value`` becomes."""


class FlatMapFunction(Function, Generic[T_contra, OUT_co]):
    """Makes any number of records of each record.

    Examples:
        >>> from collections.abc import Iterator
        >>> from headrace.datastream import FlatMapFunction, StreamExecutionEnvironment
        >>> class Words(FlatMapFunction):
        ...     def flat_map(self, value: str) -> Iterator[str]:
        ...         yield from value.split()
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection(["to be", "or"]).flat_map(Words()).execute_and_collect(limit=10)
        ['to', 'be', 'or']
    """

    @abstractmethod
    def flat_map(self, value: T_contra) -> Iterable[OUT_co] | None:
        """Yields the records that ``value`` becomes, or returns something to iterate over."""


class FilterFunction(Function, Generic[T_contra]):
    """Keeps some of the records.

    Examples:
        >>> from headrace.datastream import FilterFunction, StreamExecutionEnvironment
        >>> class Short(FilterFunction):
        ...     def filter(self, value):
        ...         return len(value) < 3
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection(["to", "question"]).filter(Short()).execute_and_collect(limit=10)
        ['to']
    """

    @abstractmethod
    def filter(self, value: T_contra) -> bool:
        """Whether ``value`` is kept. The record must not be changed."""


class ReduceFunction(Function, Generic[T]):
    """Combines two records into one of the same type.

    Examples:
        >>> from headrace.datastream import ReduceFunction, StreamExecutionEnvironment
        >>> class Longest(ReduceFunction):
        ...     def reduce(self, value1, value2):
        ...         return max(value1, value2, key=len)
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> words = env.from_collection(["to", "tea", "be", "toast"]).key_by(lambda word: word[0])
        >>> words.reduce(Longest()).execute_and_collect(limit=10)
        ['to', 'tea', 'be', 'toast']
    """

    @abstractmethod
    def reduce(self, value1: T, value2: T) -> T:
        """What has been combined so far, ``value1``, and the next record made one."""


class AggregateFunction(Function, Generic[T_contra, ACC, OUT_co]):
    """Folds records into an accumulator and makes a result of that; all three may be of different types.

    Examples:
        >>> from headrace.datastream import AggregateFunction
        >>> class Mean(AggregateFunction):
        ...     def create_accumulator(self) -> tuple[float, int]:
        ...         return 0.0, 0
        ...     def add(self, value: float, accumulator: tuple[float, int]) -> tuple[float, int]:
        ...         return accumulator[0] + value, accumulator[1] + 1
        ...     def get_result(self, accumulator: tuple[float, int]) -> float:
        ...         return accumulator[0] / accumulator[1]
        ...     def merge(self, acc_a: tuple[float, int], acc_b: tuple[float, int]) -> tuple[float, int]:
        ...         return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]
        >>> mean = Mean()
        >>> mean.get_result(mean.add(4.0, mean.add(3.0, mean.create_accumulator())))
        3.5

        ``windows.aggregate(Mean())`` gives the mean of each window.
    """

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """The accumulator of no records."""

    @abstractmethod
    def add(self, value: T_contra, accumulator: ACC) -> ACC:
        """The accumulator with one more record; it may be changed in place and returned."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT_co:
        """The result of everything that was added."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """Two accumulators made one; only windows that merge (sessions) ask for it."""


class KeySelector(Function, Generic[T_contra, K_co]):
    """Takes the key from a record; the same record must always give the same key.

    Examples:
        >>> from headrace.datastream import KeySelector, StreamExecutionEnvironment
        >>> class Initial(KeySelector):
        ...     def get_key(self, value: str) -> str:
        ...         return value[0]
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection(["tea", "toast"]).key_by(Initial()).max(0).execute_and_collect(limit=10)
        ['tea', 'toast']
    """

    @abstractmethod
    def get_key(self, value: T_contra) -> K_co:
        """The key of ``value``; it has to be hashable."""


class Partitioner(Function, Generic[K_contra]):
    """Says which subtask gets a record, by its key.

    Examples:
        >>> from headrace.datastream import Partitioner, StreamExecutionEnvironment
        >>> class ByParity(Partitioner):
        ...     def partition(self, key: int, num_partitions: int) -> int:
        ...         return key % 2 % num_partitions
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> spread = env.from_collection([1, 2, 3]).partition_custom(ByParity(), lambda number: number)
        >>> sorted(spread.map(lambda number: number, output_type=int).execute_and_collect(limit=10))
        [1, 2, 3]
    """

    @abstractmethod
    def partition(self, key: K_contra, num_partitions: int) -> int:
        """The number of the subtask, from 0 to ``num_partitions - 1``. The same key must always give the same."""
