"""State that functions make out of records: by a job of its own, whose last checkpoint has it."""

import shutil
import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.client.defaults import current_defaults, submission_defaults
from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.durable import TemporaryFolder
from headrace.common.errors import InvalidProgramError, InvalidTypeError, refused
from headrace.common.logs import get_logger
from headrace.common.type_variables import K_contra, T_contra
from headrace.common.typeinfo import DeclaredType, TypeInformation, Types
from headrace.common.typeinfo.composite import CompositeTypeInfo
from headrace.datastream import DataStream, StreamExecutionEnvironment
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
from headrace.savepoint.stored_job import open_job
from headrace.savepoint.tables import write_table
from headrace.state.exported_tables import ExportedTable
from headrace.state.protocols import KEYED, WITHOUT_KEYS, StateKind, StateKinds, kind_of_store
from headrace.state_processor.state_columns import column_of, fitted
from headrace.state_processor.state_tables import (
    StateTransformation,
    WriteTarget,
    WrittenState,
    default_parallelism,
    is_spark_dataframe,
    is_table,
    table_of,
)
from headrace.storage.file_system import PosixFileSystem
from headrace.storage.folder import Folder
from headrace.storage.locations import open_storage
from headrace.time.watermark_strategy import WatermarkStrategy

logger = get_logger(__name__)

_OF_OTHER_JOBS: Final = (options.RECOVERY_PATH, options.CHECKPOINT_DIR, options.RUNTIME_MODE, options.UID_MAPPING)
"""Settings that are meant for the user's own jobs."""


@dataclass(frozen=True, slots=True)
class Records:
    """What state is made of.

    Attributes:
        data: a table of any library, or elements.
        type: the type of the elements; found out when there is none.
        assigner: gives their timestamps, if anything does.
    """

    data: Any
    type: DeclaredType | None = None
    assigner: Any = None

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
    """What a function makes of records; :meth:`OperatorTransformation.bootstrap_with` begins it.

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
        records: Records,
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

    def write(self, target: WriteTarget) -> WrittenState:
        place = target.place
        with _folders(target.configuration) as (folder, checkpoints):
            self._run(target, folder, checkpoints)
            job = open_job(checkpoints, target.configuration.storage_options())
            tables = [
                write_table(target.savepoint, self._checked(table), place.stage, partition)
                for _, partition, table in job.task_tables(None)
                if table.uid == place.uid
            ]
            return WrittenState(tables, job.manifest.epoch)

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

    def _run(self, target: WriteTarget, folder: Path, checkpoints: str) -> None:
        place = target.place
        configuration = _configuration(target.configuration, is_spark=is_spark_dataframe(self._records.data))
        own = {options.CHECKPOINT_DIR.key: checkpoints, options.RUNTIME_MODE.key: "STREAMING"}
        others = {option.key for option in _OF_OTHER_JOBS}
        given = {key: value for key, value in current_defaults().settings.items() if key not in others}
        with submission_defaults({**given, **own}):
            environment = StreamExecutionEnvironment.get_execution_environment(configuration)
            results = self._build(self._records.stream(environment, folder, f"{place.uid} records"))
            results.uid(place.uid).set_parallelism(place.parallelism).set_max_parallelism(place.max_parallelism)
            with closing(results.execute_and_collect(f"state of {place.uid}")) as found:
                self._check_results(place.uid, found)


def keyed(records: Records, selector: Any, key_type: Any, function: Any) -> BootstrapTransformation:
    """The state of keys that a function makes."""
    _check_no_timers(function)

    def build(stream: DataStream) -> DataStream:
        grouped = stream.key_by(selector, key_type)
        return grouped._apply(StateBootstrapSpec(function, Types.PICKLED_BYTE_ARRAY()), "StateBootstrap")

    return BootstrapTransformation(records, KEYED, build, _refuse_results)


def windowed(records: Records, build: Callable[[DataStream], DataStream]) -> BootstrapTransformation:
    """What windows hold of the records of each key, which ``build`` puts into them."""

    def build_open(stream: DataStream) -> DataStream:
        results = build(stream)
        results._update(keeps_windows_open=True)
        return results

    return BootstrapTransformation(records, KEYED, build_open, _warn_of_results)


def without_keys(records: Records, function: object) -> BootstrapTransformation:
    """The state of subtasks that a function makes, each of its share of the records."""
    spec = ProcessSpec(function, Types.PICKLED_BYTE_ARRAY())
    kinds = WITHOUT_KEYS - {StateKind.BROADCAST}
    return BootstrapTransformation(
        records, kinds, lambda stream: stream.rebalance()._apply(spec, "StateBootstrap"), _refuse_results
    )


def in_common(records: Records, function: object) -> BootstrapTransformation:
    """The state that a function makes in all subtasks alike, each of all records."""
    spec = ProcessSpec(function, Types.PICKLED_BYTE_ARRAY())
    kinds = frozenset({StateKind.BROADCAST})
    return BootstrapTransformation(
        records, kinds, lambda stream: stream.broadcast()._apply(spec, "StateBootstrap"), _refuse_results
    )


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


def _check_no_timers(function: object) -> None:
    if has_own(function, "on_timer"):
        raise InvalidProgramError(
            f"{type(function).__name__} has a method on_timer, which is never called here: timers fire in the job that "
            "begins with the savepoint"
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
