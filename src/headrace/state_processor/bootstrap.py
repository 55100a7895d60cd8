"""State that functions make out of records: by a job of its own, whose last checkpoint has it."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

from headrace.client.defaults import current_defaults, submission_defaults
from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.errors import InvalidProgramError
from headrace.common.logs import get_logger
from headrace.common.temporary import TemporaryFolder
from headrace.common.typeinfo import Types
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSource
from headrace.formats.arrow_types import type_of_schema
from headrace.formats.parquet import ParquetFormat
from headrace.graph.process_specs import ProcessSpec, StateBootstrapSpec
from headrace.operators.functions import has_own
from headrace.savepoint.stored_job import open_job
from headrace.savepoint.tables import write_table
from headrace.state.kinds import KEYED, WITHOUT_KEYS
from headrace.state_processor.given_data import is_spark_dataframe, is_table, table_of
from headrace.state_processor.transformation import StateTransformation
from headrace.storage.locations import open_storage
from headrace.storage.posix import PosixFolder
from headrace.time.watermark_strategy import WatermarkStrategy

if TYPE_CHECKING:
    from headrace.common.typeinfo import DeclaredType
    from headrace.datastream import DataStream
    from headrace.savepoint.metadata import TableFile
    from headrace.state.kinds import StateKinds
    from headrace.state_processor.transformation import WriteTarget
    from headrace.storage.folder import Folder

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
    type: DeclaredType[Any] | None = None
    assigner: Any = None

    def stream(self, environment: StreamExecutionEnvironment, folder: Path, uid: str) -> DataStream[Any]:
        """The records as a stream.

        Args:
            environment: the job that is built.
            folder: for what has to be written for it.
            uid: of the source.
        """
        strategy: WatermarkStrategy[Any] = WatermarkStrategy.no_watermarks()
        if self.assigner is not None:
            strategy = strategy.with_timestamp_assigner(self.assigner)
        if is_spark_dataframe(self.data):
            return environment.from_dataframe(self.data, strategy, "DataFrame").uid(uid)
        if not is_table(self.data):
            stream: DataStream[Any] = environment.from_collection(self.data, self.type).uid(uid)
            return stream if self.assigner is None else stream.assign_timestamps_and_watermarks(strategy)
        table = table_of(self.data)
        file = folder / "records.parquet"
        pq.write_table(table, file)
        type_ = type_of_schema(table.schema) if self.type is None else Types.of(self.type)
        source = FileSource.for_bulk_file_format(ParquetFormat(type_info=type_), str(file)).build()
        return environment.from_source(source, strategy, "records").uid(uid)


class BootstrapTransformation(StateTransformation):
    """What a function makes of records; :meth:`OperatorTransformation.bootstrap_with` begins it.

    Args:
        records: the records.
        state_kinds: the kinds of state that the function makes.
        build: puts the function behind the stream of records.

    Examples:
        >>> from headrace.state_processor import OperatorTransformation
        >>> words = OperatorTransformation.bootstrap_with(["tea", "cake"])
        >>> keyed = words.key_by(lambda word: word, str)
    """

    def __init__(
        self, records: Records, state_kinds: StateKinds, build: Callable[[DataStream[Any]], DataStream[Any]]
    ) -> None:
        self._records = records
        self._kinds = state_kinds
        self._build = build

    @property
    def parallelism(self) -> int:
        data = self._records.data
        return int(data.sparkSession.sparkContext.defaultParallelism) if is_spark_dataframe(data) else 1

    @property
    def state_kinds(self) -> StateKinds:
        return self._kinds

    def write(self, target: WriteTarget) -> list[TableFile]:
        place = target.place
        with _folders(target.configuration) as (folder, checkpoints):
            self._run(target, folder, checkpoints)
            return [
                write_table(target.savepoint, table, place.stage, partition)
                for _, partition, table in open_job(checkpoints, target.configuration.storage_options()).task_tables(
                    None
                )
                if table.uid == place.uid
            ]

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
                for result in found:
                    raise InvalidProgramError(
                        f"operator {place.uid!r}: its function gives {result!r}, and one that makes state gives "
                        "nothing: write process_element without yield and return"
                    )


def keyed(records: Records, selector: Any, key_type: Any, function: Any) -> BootstrapTransformation:
    """The state of keys that a function makes."""
    _check_no_timers(function)

    def build(stream: DataStream[Any]) -> DataStream[Any]:
        grouped = stream.key_by(selector, key_type)
        return grouped._apply(StateBootstrapSpec(function, Types.PICKLED_BYTE_ARRAY()), "StateBootstrap")

    return BootstrapTransformation(records, KEYED, build)


def without_keys(records: Records, function: Any) -> BootstrapTransformation:
    """The state of subtasks that a function makes."""
    return BootstrapTransformation(
        records,
        WITHOUT_KEYS,
        lambda stream: stream.rebalance()._apply(ProcessSpec(function, Types.PICKLED_BYTE_ARRAY()), "StateBootstrap"),
    )


def _check_no_timers(function: Any) -> None:
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
    if isinstance(checkpoints, PosixFolder):
        shutil.rmtree(checkpoints.path, ignore_errors=True)
    else:
        logger.warning("%s was needed to make state, and may be removed", checkpoints)
