"""``OperatorTransformation``: where the state of an operator in a savepoint may come from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.common.arguments import expect, refused
from headrace.state_processor.bootstrap import BootstrapTransformation, Records, in_common, keyed, without_keys
from headrace.state_processor.functions import (
    BroadcastStateBootstrapFunction,
    KeyedStateBootstrapFunction,
    StateBootstrapFunction,
)
from headrace.state_processor.given_data import is_spark_dataframe, is_table
from headrace.state_processor.state_tables import StateTables
from headrace.state_processor.windowed_transformation import WindowedOperatorTransformation, in_counts, in_windows

if TYPE_CHECKING:
    from headrace.common.typeinfo import DeclaredType
    from headrace.windowing.assigner import WindowAssigner


class OperatorTransformation:
    """Begins the description of an operator's state, for :meth:`SavepointWriter.with_operator`.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.state import ListStateDescriptor
        >>> from headrace.state_processor import OperatorTransformation
        >>> words = ListStateDescriptor("words", Types.STRING())
        >>> tables = OperatorTransformation.from_tables(Types.LONG())
        >>> tables = tables.with_state(words, [{"key": 1, "value": "tea"}, {"key": 1, "value": "cake"}])
    """

    @staticmethod
    def from_tables(key_type: DeclaredType[Any] | None = None) -> StateTables:
        """State from tables, each with the rows of one state.

        Args:
            key_type: the type of keys that the program gives to ``key_by``, or that follows from the field there; any
                object when left out.
        """
        return StateTables(key_type)

    @staticmethod
    def bootstrap_with(data: Any, type_info: DeclaredType[Any] | None = None) -> OneInputTransformation:
        """State that a function makes out of records.

        A job of its own makes it when the savepoint is written: on Spark where ``data`` is one of its DataFrames,
        else in this process, unless :meth:`SavepointWriter.with_configuration` says ``headrace.runtime``.

        Args:
            data: a table of Arrow, pandas, Polars, DuckDB or Spark, whose records are rows with a field for each
                column; or elements.
            type_info: the type of the records; found out when left out. Not for a DataFrame of Spark.

        Raises:
            InvalidTypeError: when there is nothing to go through.
            InvalidProgramError: for a type of what Spark has types for.
        """
        if is_spark_dataframe(data):
            if type_info is not None:
                raise refused(
                    "the records of a DataFrame of Spark are rows of what its columns are: leave out type_info, and "
                    "give columns other names and types in Spark (select, cast)"
                )
        elif not is_table(data):
            expect(data, Iterable, "bootstrap_with")
            data = list(data)  # an iterator would have nothing left where state is written twice
        return OneInputTransformation(Records(data, type_info))


class OneInputTransformation:
    """Records that state is made of.

    Args:
        records: the records.

    Examples:
        >>> from headrace.state_processor import OperatorTransformation
        >>> words = OperatorTransformation.bootstrap_with([("tea", 1), ("cake", 2)])
        >>> timed = words.assign_timestamps(lambda word, _: word[1] * 1000)
        >>> keyed = timed.key_by(lambda word: word[0], str)
    """

    def __init__(self, records: Records) -> None:
        self._records = records

    def assign_timestamps(self, assigner: Any) -> OneInputTransformation:
        """The same records with timestamps, which ``ctx.timestamp()`` gives; nothing makes event time rise.

        Args:
            assigner: as for ``WatermarkStrategy.with_timestamp_assigner``.
        """
        return OneInputTransformation(replace(self._records, assigner=assigner))

    def key_by(self, key_selector: Any, key_type: DeclaredType[Any] | None = None) -> KeyedOperatorTransformation:
        """Divides the records by keys.

        Args:
            key_selector: as for ``DataStream.key_by``.
            key_type: the type of the keys; it has to be that of the program.
        """
        return KeyedOperatorTransformation(self._records, key_selector, key_type)

    def transform(self, function: StateBootstrapFunction[Any]) -> BootstrapTransformation:
        """What a function makes of the records: lists of subtasks, or what all of them have in common.

        Args:
            function: a :class:`StateBootstrapFunction`, or a :class:`BroadcastStateBootstrapFunction`.

        Raises:
            InvalidTypeError: when it is something else.
        """
        expect(function, StateBootstrapFunction, "transform")
        if isinstance(function, BroadcastStateBootstrapFunction):
            return in_common(self._records, function)
        return without_keys(self._records, function)


class KeyedOperatorTransformation:
    """Records by keys.

    Args:
        records: the records.
        key_selector: gives the key of a record.
        key_type: the type of the keys.

    Examples:
        >>> from headrace.state_processor import OperatorTransformation
        >>> keyed = OperatorTransformation.bootstrap_with(["tea", "cake"]).key_by(len, int)
    """

    def __init__(self, records: Records, key_selector: Any, key_type: DeclaredType[Any] | None) -> None:
        self._records = records
        self._selector = key_selector
        self._key_type = key_type

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedOperatorTransformation:
        """Puts the records into windows of event time, or without end; they need timestamps for the former.

        Raises:
            InvalidTypeError: when it is no window assigner.
            InvalidProgramError: when its windows are of the clock.
        """
        return in_windows(self._records, self._selector, self._key_type, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedOperatorTransformation:
        """Cuts the records of each key into windows of ``size`` records; those that are not full are kept."""
        return in_counts(self._records, self._selector, self._key_type, size, slide)

    def transform(self, function: KeyedStateBootstrapFunction[Any, Any]) -> BootstrapTransformation:
        """What a function makes of the records of each key: states and timers.

        Raises:
            InvalidTypeError: when it is something else.
            InvalidProgramError: when it has a method ``on_timer``, which is never called here.
        """
        expect(function, KeyedStateBootstrapFunction, "transform")
        return keyed(self._records, self._selector, self._key_type, function)
