"""``OperatorTransformation``: where the state of an operator in a savepoint may come from.

What functions make out of records is made by a job of its own, whose last checkpoint has it.
"""

from __future__ import annotations

import shutil
import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from operator import methodcaller
from pathlib import Path
from typing import Any, Final, Generic

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.client.running import current_defaults, submission_defaults
from headrace.common import Duration, Time, options
from headrace.common.configuration import Configuration
from headrace.common.durable import TemporaryFolder
from headrace.common.errors import InvalidProgramError, InvalidTypeError, expect, refused
from headrace.common.logs import get_logger
from headrace.common.type_variables import K_contra, T_contra
from headrace.common.typeinfo import DeclaredType, TypeInformation, Types
from headrace.common.typeinfo.composite import CompositeTypeInfo
from headrace.datastream import DataStream, KeyedStream, StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSource
from headrace.datastream.functions import (
    CheckpointedFunction,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    ProcessFunction,
)
from headrace.formats.bulk_files import type_of_schema
from headrace.formats.parquet import ParquetFormat
from headrace.graph.process_specs import ProcessSpec, StateBootstrapSpec
from headrace.operators.functions import has_own
from headrace.savepoint.metadata import TableFile
from headrace.savepoint.stored_job import open_job
from headrace.savepoint.tables import write_table
from headrace.state.exported_tables import ExportedTable
from headrace.state.protocols import KEYED, WITHOUT_KEYS, StateKind, StateKinds, kind_of_store
from headrace.state_processor.state_columns import column_of, fitted
from headrace.state_processor.state_tables import (
    StatePlacement,
    StateTables,
    StateTransformation,
    default_parallelism,
    is_spark_dataframe,
    is_table,
    table_of,
)
from headrace.storage.file_system import PosixFileSystem
from headrace.storage.folder import Folder
from headrace.storage.locations import open_storage
from headrace.time.watermark_strategy import WatermarkStrategy
from headrace.windowing.assigners import WindowAssigner
from headrace.windowing.definition import AccumulationMode
from headrace.windowing.evictors import Evictor
from headrace.windowing.trigger import Trigger
from headrace.windowing.triggers import ContinuousProcessingTimeTrigger
from headrace.windowing.windows import TimeWindowSerializer

logger = get_logger(__name__)

_OF_OTHER_JOBS: Final = (options.RECOVERY_PATH, options.CHECKPOINT_DIR, options.RUNTIME_MODE, options.UID_MAPPING)
"""Settings that are meant for the user's own jobs."""


def _check_columns(table: pa.Table, type_: TypeInformation) -> None:
    """Refuse a table whose columns are no fields of the declared records."""
    if not isinstance(type_, CompositeTypeInfo):
        raise refused(f"records of a table have fields, which are its columns: {type_} has none")
    for name, kind in zip(type_.field_names, type_.field_types, strict=True):
        if name not in table.column_names:
            raise refused(f"the table has no column {name!r}: its columns are {', '.join(table.column_names)}")
        try:
            fitted(kind, column_of(table, name))
        except InvalidTypeError as error:
            raise refused(f"column {name!r}: {error}", InvalidTypeError) from error


class BootstrapTransformation(StateTransformation):
    """State that a function makes of records; :meth:`OperatorTransformation.bootstrap_with` begins it.

    Args:
        records: the records.
        state_kinds: the kinds of state that the function makes.
        build: puts the function behind the stream of records.
        check_results: is given the operator and what it emits.

    Examples:
        >>> from headrace.state_processor import OperatorTransformation
        >>> words = OperatorTransformation.bootstrap_with(["tea", "cake"])
        >>> keyed = words.key_by(lambda word: word, str)
    """

    def __init__(
        self,
        records: OneInputTransformation,
        state_kinds: StateKinds,
        build: Callable[[DataStream], DataStream],
        check_results: Callable[[str, Iterable[Any]], None],
    ) -> None:
        self._records = records
        self._kinds = state_kinds
        self._build = build
        self._check_results = check_results

    @property
    def parallelism(self) -> int:
        return default_parallelism(self._records.data)

    @property
    def state_kinds(self) -> StateKinds:
        return self._kinds

    def write(
        self, savepoint: Folder, place: StatePlacement, configuration: Configuration
    ) -> tuple[list[TableFile], int]:
        with _folders(configuration) as (folder, checkpoints):
            self._run(place, configuration, folder, checkpoints)
            job = open_job(checkpoints, configuration.storage_options())
            tables = [
                write_table(savepoint, self._checked(table), place.stage, partition)
                for _, partition, table in job.task_tables(None)
                if table.uid == place.uid
            ]
            return tables, job.manifest.epoch

    def _checked(self, table: ExportedTable) -> ExportedTable:
        """Refuse a state that belongs to another kind of function: subtasks would have it of some records."""
        kind = kind_of_store(table.store) or StateKind.KEYED
        if kind not in self._kinds:
            of_all, of_shares = "BroadcastStateBootstrapFunction", "StateBootstrapFunction"
            name = table.store.partition("/")[2]
            raise InvalidProgramError(
                f"operator {table.uid!r}: its function makes the {kind.value} state {name!r}, which is for a "
                f"{of_all if kind is StateKind.BROADCAST else of_shares} to make"
            )
        return table

    def _run(self, place: StatePlacement, given: Configuration, folder: Path, checkpoints: str) -> None:
        configuration = _configuration(given, is_spark=is_spark_dataframe(self._records.data))
        own = {options.CHECKPOINT_DIR.key: checkpoints, options.RUNTIME_MODE.key: "STREAMING"}
        others = {option.key for option in _OF_OTHER_JOBS}
        defaults = {key: value for key, value in current_defaults().settings.items() if key not in others}
        with submission_defaults({**defaults, **own}):
            environment = StreamExecutionEnvironment.get_execution_environment(configuration)
            results = self._build(self._records.stream(environment, folder, f"{place.uid} records"))
            results.uid(place.uid).set_parallelism(place.parallelism).set_max_parallelism(place.max_parallelism)
            with closing(results.execute_and_collect(f"state of {place.uid}")) as found:
                self._check_results(place.uid, found)


def _refuse_results(uid: str, results: Iterable[object]) -> None:
    for result in results:
        raise InvalidProgramError(
            f"operator {uid!r}: its function gives {result!r}, and one that makes state gives nothing: write "
            "process_element without yield and return"
        )


def _warn_of_results(uid: str, results: Iterable[object]) -> None:
    shown = sum(1 for _ in results)
    if shown:
        logger.warning(
            "operator %r: its trigger had windows fire while they were filled: %d results, which go nowhere", uid, shown
        )


def _configuration(given: Configuration, *, is_spark: bool) -> Configuration:
    configuration = Configuration(given)
    for option in _OF_OTHER_JOBS:
        configuration.remove_config(option.key)
    if not is_spark and not configuration.contains_key(options.RUNTIME.key):
        configuration.set(options.RUNTIME, "local")
    return configuration


@contextmanager
def _folders(configuration: Configuration) -> Iterator[tuple[Path, str]]:
    """A folder of this machine, and a checkpoint directory: below the configured one, which tasks elsewhere see too."""
    temporary = TemporaryFolder("bootstrap-")
    shared = configuration.get(options.CHECKPOINT_DIR)
    checkpoints = str(temporary.path / "checkpoints") if shared is None else f"{shared}/bootstrap-{uuid.uuid4().hex}"
    try:
        yield temporary.path, checkpoints
    finally:
        temporary.remove()
        _remove(open_storage(checkpoints, options=configuration.storage_options()))


def _remove(checkpoints: Folder) -> None:
    if isinstance(checkpoints.file_system, PosixFileSystem):
        shutil.rmtree(checkpoints.path, ignore_errors=True)
    else:
        logger.warning("%s was needed to make state, and may be removed", checkpoints)


class KeyedStateBootstrapFunction(KeyedProcessFunction[K_contra, T_contra, Any], Generic[K_contra, T_contra]):
    """Makes state and timers of keys out of records.

    It gets its states in ``open``, as a ``KeyedProcessFunction`` does, and sets timers by ``ctx.timer_service()``. They
    fire in the job that begins with the savepoint, even those that are due by then; here none does. It yields nothing.

    Examples:
        >>> import tempfile
        >>> import pyarrow as pa
        >>> from headrace.common import Types
        >>> from headrace.datastream.state import ValueStateDescriptor
        >>> from headrace.state_processor import KeyedStateBootstrapFunction, OperatorTransformation
        >>> from headrace.state_processor import SavepointReader, SavepointWriter
        >>> class Totals(KeyedStateBootstrapFunction):
        ...     def open(self, runtime_context):
        ...         self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        ...     def process_element(self, value, ctx):
        ...         self.total.update((self.total.value() or 0) + value.amount)
        ...         ctx.timer_service().register_event_time_timer(60_000)
        >>> orders = pa.table({"user": ["ann", "bob", "ann"], "amount": [1, 2, 3]})
        >>> keyed = OperatorTransformation.bootstrap_with(orders).key_by(lambda order: order.user, Types.STRING())
        >>> writer = SavepointWriter.new_savepoint().with_operator("totals", keyed.transform(Totals()))
        >>> path = writer.write(tempfile.mkdtemp() + "/first")
        >>> SavepointReader.read(path).read_keyed_state("totals", "total").sort_by("key").to_pylist()
        [{'key': 'ann', 'value': 4}, {'key': 'bob', 'value': 2}]
        >>> SavepointReader.read(path).read_timers("totals").num_rows
        2
    """

    @abstractmethod
    def process_element(self, value: T_contra, ctx: KeyedProcessFunction.Context[K_contra]) -> None:
        """Called for each record."""


class StateBootstrapFunction(ProcessFunction[T_contra, Any], CheckpointedFunction, Generic[T_contra]):
    """Makes the list and union list states of an operator out of records.

    Examples:
        >>> import tempfile
        >>> from headrace.common import Types
        >>> from headrace.datastream.state import ListStateDescriptor
        >>> from headrace.state_processor import OperatorTransformation, SavepointReader, SavepointWriter
        >>> from headrace.state_processor import StateBootstrapFunction
        >>> class Waiting(StateBootstrapFunction):
        ...     def initialize_state(self, context):
        ...         words = ListStateDescriptor("words", Types.STRING())
        ...         self.words = context.get_operator_state_store().get_list_state(words)
        ...     def process_element(self, value, ctx):
        ...         self.words.add(value)
        ...     def snapshot_state(self, context):
        ...         pass
        >>> waiting = OperatorTransformation.bootstrap_with(["tea", "cake"]).transform(Waiting())
        >>> path = SavepointWriter.new_savepoint().with_operator("pairs", waiting).write(tempfile.mkdtemp() + "/first")
        >>> SavepointReader.read(path).read_list_state("pairs", "words").column("value").to_pylist()
        ['tea', 'cake']
    """

    @abstractmethod
    def process_element(self, value: T_contra, ctx: ProcessFunction.Context) -> None:
        """Called for each record."""


class BroadcastStateBootstrapFunction(StateBootstrapFunction[T_contra]):
    """Makes the broadcast state of an operator out of records: each subtask is given all of them.

    Examples:
        >>> import tempfile
        >>> from headrace.common import Types
        >>> from headrace.datastream.state import MapStateDescriptor
        >>> from headrace.state_processor import BroadcastStateBootstrapFunction
        >>> from headrace.state_processor import OperatorTransformation, SavepointReader, SavepointWriter
        >>> RATES = MapStateDescriptor("rates", Types.STRING(), Types.DOUBLE())
        >>> class Rates(BroadcastStateBootstrapFunction):
        ...     def initialize_state(self, context):
        ...         self.rates = context.get_operator_state_store().get_broadcast_state(RATES)
        ...     def process_element(self, value, ctx):
        ...         self.rates.put(value[0], value[1])
        >>> rates = OperatorTransformation.bootstrap_with([("USD", 1.1), ("USD", 1.2)]).transform(Rates())
        >>> path = SavepointWriter.new_savepoint().with_operator("priced", rates).write(tempfile.mkdtemp() + "/first")
        >>> SavepointReader.read(path).read_broadcast_state("priced", "rates").column("value").to_pylist()
        [1.2]
    """

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Called at the end of an epoch; the state is as records have left it."""


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
        return OneInputTransformation(data, type_info)


@dataclass(frozen=True, slots=True)
class OneInputTransformation:
    """Records that state is made of.

    Attributes:
        data: a table of any library, or elements.
        type: the type of the elements; found out when there is none.
        assigner: gives their timestamps, if anything does.

    Examples:
        >>> from headrace.state_processor import OperatorTransformation
        >>> words = OperatorTransformation.bootstrap_with([("tea", 1), ("cake", 2)])
        >>> timed = words.assign_timestamps(lambda word, _: word[1] * 1000)
        >>> keyed = timed.key_by(lambda word: word[0], str)
    """

    data: Any
    type: DeclaredType[Any] | None = None
    assigner: Any = None

    def assign_timestamps(self, assigner: Any) -> OneInputTransformation:
        """The same records with timestamps, which ``ctx.timestamp()`` gives; nothing makes event time rise.

        Args:
            assigner: as for ``WatermarkStrategy.with_timestamp_assigner``.
        """
        return replace(self, assigner=assigner)

    def key_by(self, key_selector: Any, key_type: DeclaredType[Any] | None = None) -> KeyedOperatorTransformation:
        """Divides the records by keys.

        Args:
            key_selector: as for ``DataStream.key_by``.
            key_type: the type of the keys; it has to be that of the program.
        """
        return KeyedOperatorTransformation(self, key_selector, key_type)

    def transform(self, function: StateBootstrapFunction[Any]) -> BootstrapTransformation:
        """Writes the records as operator state: as lists of subtasks, or as broadcast state.

        Args:
            function: a :class:`StateBootstrapFunction`, or a :class:`BroadcastStateBootstrapFunction`.

        Raises:
            InvalidTypeError: when it is something else.
        """
        expect(function, StateBootstrapFunction, "transform")
        spec = ProcessSpec(function, Types.PICKLED_BYTE_ARRAY())
        if isinstance(function, BroadcastStateBootstrapFunction):
            method, kinds = "broadcast", frozenset({StateKind.BROADCAST})
        else:
            method, kinds = "rebalance", WITHOUT_KEYS - {StateKind.BROADCAST}

        def build(stream: DataStream) -> DataStream:
            spread: DataStream = getattr(stream, method)()
            return spread._apply(spec, "StateBootstrap")

        return BootstrapTransformation(self, kinds, build, _refuse_results)

    def stream(self, environment: StreamExecutionEnvironment, folder: Path, uid: str) -> DataStream:
        """The records as a stream.

        Args:
            environment: the job that is built.
            folder: for what has to be written for it.
            uid: of the source.
        """
        strategy: WatermarkStrategy = WatermarkStrategy.no_watermarks()
        if self.assigner is not None:
            strategy = strategy.with_timestamp_assigner(self.assigner)
        if is_spark_dataframe(self.data):
            return environment.from_dataframe(self.data, strategy, "DataFrame").uid(uid)
        if not is_table(self.data):
            stream: DataStream = environment.from_collection(self.data, self.type).uid(uid)
            return stream if self.assigner is None else stream.assign_timestamps_and_watermarks(strategy)
        table = table_of(self.data)
        type_ = type_of_schema(table.schema) if self.type is None else Types.of(self.type)
        _check_columns(table, type_)
        file = folder / "records.parquet"
        pq.write_table(table, file)
        source = FileSource.for_bulk_file_format(ParquetFormat(type_info=type_), str(file)).build()
        return environment.from_source(source, strategy, "records").uid(uid)


@dataclass(frozen=True, slots=True)
class KeyedOperatorTransformation:
    """Records by keys.

    Attributes:
        records: the records.
        selector: gives the key of a record.
        key_type: the type of the keys.

    Examples:
        >>> from headrace.state_processor import OperatorTransformation
        >>> keyed = OperatorTransformation.bootstrap_with(["tea", "cake"]).key_by(len, int)
    """

    records: OneInputTransformation
    selector: Any
    key_type: Any

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedOperatorTransformation:
        """Puts the records into windows of event time, or without end; they need timestamps for the former.

        Raises:
            InvalidTypeError: when it is no window assigner.
            InvalidProgramError: when its windows are of the clock.
        """
        expect(window_assigner, WindowAssigner, "window")
        is_of_time = isinstance(window_assigner.get_window_serializer(), TimeWindowSerializer)
        if is_of_time and not window_assigner.is_event_time():
            raise refused(
                f"{window_assigner} are windows of the clock, which hold what comes while they are open: a savepoint "
                "has none"
            )
        return self._windows("window", window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedOperatorTransformation:
        """Cuts the records of each key into windows of ``size`` records; those that are not full are kept."""
        return self._windows("count_window", size, slide)

    def transform(self, function: KeyedStateBootstrapFunction[Any, Any]) -> BootstrapTransformation:
        """Writes the records of each key as keyed state and timers.

        Raises:
            InvalidTypeError: when it is something else.
            InvalidProgramError: when it has a method ``on_timer``, which is never called here.
        """
        expect(function, KeyedStateBootstrapFunction, "transform")
        if has_own(function, "on_timer"):
            raise InvalidProgramError(
                f"{type(function).__name__} has a method on_timer, which is never called here: timers fire in the job "
                "that begins with the savepoint"
            )
        spec = StateBootstrapSpec(function, Types.PICKLED_BYTE_ARRAY())
        return BootstrapTransformation(
            self.records, KEYED, lambda stream: self.grouped(stream)._apply(spec, "StateBootstrap"), _refuse_results
        )

    def grouped(self, stream: DataStream) -> KeyedStream:
        """The stream of the records, by key."""
        return stream.key_by(self.selector, self.key_type)

    def _windows(self, method: str, *arguments: Any) -> WindowedOperatorTransformation:
        return WindowedOperatorTransformation(self, (methodcaller(method, *arguments),))


@dataclass(frozen=True, slots=True)
class WindowedOperatorTransformation:
    """Records by key and window.

    What is said of the windows has to be what the program says, whose job goes on with them. They stay open, however
    late it is in event time: what is due fires in that job, at its first watermark. Java's class of this name is the
    model; methods return another transformation.

    Examples:
        >>> import tempfile
        >>> from headrace.common import Time, Types
        >>> from headrace.datastream.aggregates import count, sum
        >>> from headrace.datastream.window import TumblingEventTimeWindows
        >>> from headrace.state_processor import OperatorTransformation, SavepointReader, SavepointWriter
        >>> orders = OperatorTransformation.bootstrap_with([("ann", 3, 1_000), ("bob", 4, 2_000), ("ann", 5, 61_000)])
        >>> keyed = orders.assign_timestamps(lambda order, _: order[2]).key_by(lambda order: order[0], Types.STRING())
        >>> minutes = keyed.window(TumblingEventTimeWindows.of(Time.minutes(1)))
        >>> totals = minutes.aggregate(count(), sum(1).alias("total"))
        >>> path = SavepointWriter.new_savepoint().with_operator("totals", totals).write(tempfile.mkdtemp() + "/first")
        >>> for row in SavepointReader.read(path).read_table("totals", "windows").to_pylist():
        ...     print(row["window_end"], row["key"], row["records"], row["sum(f1)"])
        60000 ann 1 3
        60000 bob 1 4
        120000 ann 1 5

    Attributes:
        keyed: the records by key.
        calls: what is said of the windows, in order; the first call makes them.
    """

    keyed: KeyedOperatorTransformation
    calls: tuple[Callable[[Any], Any], ...]

    def trigger(self, trigger: Trigger[Any, Any]) -> WindowedOperatorTransformation:
        """Has another trigger say when windows fire; one that looks at elements may do so while they are filled.

        Raises:
            InvalidTypeError: when it is no trigger.
            InvalidProgramError: when it goes by the clock at intervals.
        """
        expect(trigger, Trigger, "trigger")
        if isinstance(trigger, ContinuousProcessingTimeTrigger):
            raise refused(
                f"{trigger} fires by the clock while windows are filled, and nobody would see it: a savepoint has no "
                "such windows"
            )
        return self._with("trigger", trigger)

    def evictor(self, evictor: Evictor[Any, Any]) -> WindowedOperatorTransformation:
        """Has an evictor remove elements when windows fire."""
        return self._with("evictor", evictor)

    def allowed_lateness(self, time_ms: int | Time | Duration | timedelta) -> WindowedOperatorTransformation:
        """Says how long windows are kept after their ends; a number is milliseconds."""
        return self._with("allowed_lateness", time_ms)

    def accumulation_mode(self, mode: AccumulationMode) -> WindowedOperatorTransformation:
        """Says what windows show when they fire again."""
        return self._with("accumulation_mode", mode)

    def reduce(
        self, reduce_function: Any, window_function: Any = None, output_type: DeclaredType[Any] | None = None
    ) -> BootstrapTransformation:
        """Windows that hold what a ``ReduceFunction`` makes of their elements; as ``WindowedStream.reduce``."""
        return self._filled("reduce", reduce_function, window_function, output_type)

    def aggregate(self, aggregate_function: Any, *more: Any, **named: Any) -> BootstrapTransformation:
        """Windows that hold accumulators, of built-in aggregates or of an ``AggregateFunction``.

        Args:
            aggregate_function: as for ``WindowedStream.aggregate``.
            more: more built-in aggregates, or a window function.
            named: ``window_function``, ``accumulator_type`` and ``output_type``, as there.
        """
        return self._filled("aggregate", aggregate_function, *more, **named)

    def apply(self, window_function: Any, output_type: DeclaredType[Any] | None = None) -> BootstrapTransformation:
        """Windows that hold all elements, for a ``WindowFunction``; as ``WindowedStream.apply``."""
        return self._filled("apply", window_function, output_type)

    def process(
        self, process_window_function: Any, output_type: DeclaredType[Any] | None = None
    ) -> BootstrapTransformation:
        """Windows that hold all elements, for a ``ProcessWindowFunction``; as ``WindowedStream.process``."""
        return self._filled("process", process_window_function, output_type)

    def _with(self, method: str, *arguments: Any) -> WindowedOperatorTransformation:
        return replace(self, calls=(*self.calls, methodcaller(method, *arguments)))

    def _filled(self, method: str, *arguments: Any, **named: Any) -> BootstrapTransformation:
        calls: tuple[Callable[[Any], Any], ...] = (*self.calls, methodcaller(method, *arguments, **named))

        def build(stream: DataStream) -> Any:
            filled: Any = self.keyed.grouped(stream)
            for call in calls:
                filled = call(filled)
            filled._update(keeps_windows_open=True)
            return filled

        return BootstrapTransformation(self.keyed.records, KEYED, build, _warn_of_results)
