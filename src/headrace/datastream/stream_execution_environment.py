"""``StreamExecutionEnvironment``: where a program begins."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, overload

from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.errors import InvalidTypeError, UnsupportedOperationError, expect, refused
from headrace.common.job_execution_result import JobExecutionResult
from headrace.common.options import RuntimeExecutionMode
from headrace.common.public_module import public_module
from headrace.common.type_variables import T, T_co
from headrace.common.typeinfo import DeclaredType
from headrace.common.types import Row
from headrace.connectors.ranges import CollectionSource, NumberSequenceSource
from headrace.connectors.source import Source
from headrace.datastream.checkpoint_config import CheckpointConfig
from headrace.datastream.checkpointing_mode import CheckpointingMode
from headrace.datastream.dependencies import ConfiguredEnvironment
from headrace.datastream.execution_config import ExecutionConfig
from headrace.datastream.state_backend import StateBackend
from headrace.datastream.streams.checks import check_strategy
from headrace.datastream.streams.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
from headrace.datastream.streams.data_stream import DataStream
from headrace.datastream.streams.keyed_stream import KeyedStream
from headrace.datastream.streams.source_stream import CachedDataStream, DataStreamSource
from headrace.datastream.streams.stream import Transformations, checked_text
from headrace.datastream.streams.types import TypeOrigin, declared_type
from headrace.graph.partitioning import HASH, KeySelection, Partitioning
from headrace.graph.stream_graph import Edge
from headrace.state.descriptors import MapStateDescriptor
from headrace.time.watermark_strategy import WatermarkStrategy

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient
    from headrace.formats.avro.files import AvroInputFormat
    from headrace.plan.job_plan import JobPlan

__all__ = ["StreamExecutionEnvironment"]


class StreamExecutionEnvironment(ConfiguredEnvironment):
    """Makes streams from sources, and runs jobs.

    Streams only describe what is to be done; ``execute()`` runs everything that was built since the last one. Made by
    :meth:`get_execution_environment`.

    Attributes:
        transformations: what was built; for the classes of this package.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> _ = env.set_parallelism(1)
        >>> _ = env.from_collection(["to", "be"]).map(str.upper, output_type=str).print()
        >>> _ = env.execute("shouting")
        TO
        BE
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration(configuration)
        self.transformations = Transformations()
        self._state_backend: StateBackend | None = None

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """A new environment.

        Args:
            configuration: settings to begin with; a copy is made.

        Raises:
            InvalidTypeError: when it is no ``Configuration``.
        """
        if configuration is not None:
            expect(configuration, Configuration, "get_execution_environment")
        return StreamExecutionEnvironment(configuration)

    # --- settings ----------------------------------------------------------------------------------------------------

    def get_config(self) -> ExecutionConfig:
        """The settings of jobs."""
        return ExecutionConfig(self._configuration)

    def get_configuration(self) -> Configuration:
        """All settings, as keys and values; a copy."""
        return Configuration(self._configuration)

    def configure(self, configuration: Configuration) -> None:
        """Adds settings; they win over those from before.

        Raises:
            InvalidTypeError: when it is no ``Configuration``.
        """
        expect(configuration, Configuration, "configure")
        self._configuration.add_all(configuration)

    def get_parallelism(self) -> int:
        """Return how many subtasks an operator has unless it says otherwise; this machine's cores when not set."""
        return self.get_config().get_parallelism()

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Sets how many subtasks an operator has that does not say otherwise.

        Raises:
            ConfigurationError: when the number is not between 1 and 32768.
        """
        self.get_config().set_parallelism(parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return how many key groups a job has: the highest parallelism that it can be rescaled to."""
        return self.get_config().get_max_parallelism()

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Sets how many key groups a job has; it is fixed by the first run.

        Raises:
            ConfigurationError: when the number is not between 1 and 32768.
        """
        self.get_config().set_max_parallelism(max_parallelism)
        return self

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """Sets whether jobs run in streaming or batch mode; ``AUTOMATIC`` is batch when all sources are bounded.

        Raises:
            InvalidTypeError: when it is no ``RuntimeExecutionMode``.
        """
        expect(execution_mode, RuntimeExecutionMode, "set_runtime_mode")
        self._configuration.set(options.RUNTIME_MODE, execution_mode)
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        """The settings of checkpoints."""
        return CheckpointConfig(self._configuration)

    def set_state_backend(self, state_backend: StateBackend) -> StreamExecutionEnvironment:
        """Sets what keeps state, as it is declared now: ``hashmap``, or ``rocksdb`` with its options.

        Raises:
            InvalidTypeError: when it is no ``StateBackend``.
        """
        expect(state_backend, StateBackend, "set_state_backend")
        for option, value in state_backend.settings():
            self._configuration.set(option, value)
        self._state_backend = state_backend
        return self

    def get_state_backend(self) -> StateBackend | None:
        """Gives back what was set; None when nothing was."""
        return self._state_backend

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> StreamExecutionEnvironment:
        """Sets the longest time between two checkpoints.

        Args:
            interval: milliseconds, above zero.
            mode: the guarantee that the job requests; it gets exactly once, which is at least once too.

        Raises:
            InvalidProgramError: when one of them is something else.
        """
        config = self.get_checkpoint_config().set_checkpoint_interval(interval)
        if mode is not None:
            config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """The longest time between two checkpoints in milliseconds; -1 when there is no such limit."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """The guarantee that the job requests."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """Return the same as :meth:`get_checkpointing_mode`, under its newer name."""
        return self.get_checkpointing_mode()

    # --- sources -----------------------------------------------------------------------------------------------------

    @overload
    def from_collection(self, collection: Iterable[T], type_info: None = None) -> DataStream[T]: ...
    @overload
    def from_collection(self, collection: Iterable[Any], type_info: DeclaredType[T]) -> DataStream[T]: ...
    def from_collection(self, collection: Iterable[Any], type_info: Any = None) -> DataStream:
        """A bounded stream of the given elements, in their order.

        Args:
            collection: the elements; they are read now, and travel with the job.
            type_info: their type; found out from all of them when left out.

        Raises:
            InvalidTypeError: when an element does not fit the type, or ``collection`` is a string, a dict or a table.
        """
        declared = None if type_info is None else declared_type(type_info)
        source = CollectionSource(collection, declared)
        origin = TypeOrigin.OBSERVED if declared is None else TypeOrigin.DECLARED
        return self._from(source, "Collection Source", origin)

    def from_sequence(self, start: int, end: int) -> DataStream[int]:
        """A bounded stream of the numbers from ``start`` to ``end``, both included.

        Raises:
            InvalidProgramError: when the bounds are no 64-bit numbers, or the wrong way round.
        """
        return self._from(NumberSequenceSource(start, end), "Sequence Source")

    def from_source(
        self,
        source: Source[T],
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: DeclaredType | None = None,
    ) -> DataStream[T]:
        """A stream of what a source reads.

        Unlike in PyFlink a timestamp assigner within the strategy counts. Event time is kept for each split of the
        source (partition, say), so a split that is behind is not late.

        Args:
            source: where records come from.
            watermark_strategy: how event time is taken from them; ``WatermarkStrategy.no_watermarks()`` for none.
            source_name: the name of the source.
            type_info: the type of the records; sources know it themselves, so it can only be confirmed.

        Raises:
            InvalidTypeError: when an argument is something else, or the source does not produce ``type_info``.
        """
        expect(source, Source, "from_source")
        checked_text("name", source_name)
        if type_info is not None and declared_type(type_info) != source.produced_type:
            raise refused(
                f"source {source_name!r} produces {source.produced_type}, not {declared_type(type_info)}: leave "
                "type_info out, and map() the records",
                InvalidTypeError,
            )
        check_strategy(watermark_strategy, source.produced_type)
        return DataStreamSource(self, source, watermark_strategy, source_name)

    def create_input(self, input_format: AvroInputFormat) -> DataStream:
        """A bounded stream of what files hold, by PyFlink's old name; new programs say ``from_source``.

        Args:
            input_format: the format, which knows the path.

        Raises:
            InvalidTypeError: when the argument is something else.
        """
        from headrace.connectors.file_system.source import FileSource
        from headrace.formats.avro.files import AvroInputFormat

        expect(input_format, AvroInputFormat, "create_input")
        return self._from(FileSource.for_bulk_file_format(input_format, input_format.path).build(), "Avro Files")

    def socket_text_stream(
        self, hostname: str, port: int, delimiter: str = "\n", max_retry: int = 0
    ) -> DataStream[str]:
        """A stream of the lines of text that a TCP server sends, for trying things out.

        The driver reads them, and they cannot be read again: those that no checkpoint holds are lost when the job
        restarts. The arguments are those of :class:`~headrace.datastream.connectors.socket.SocketSource`.
        """
        from headrace.connectors.socket import SocketSource

        return self._from(SocketSource(hostname, port, delimiter, max_retry), "Socket Stream")

    def from_dataframe(
        self, dataframe: Any, watermark_strategy: WatermarkStrategy | None = None, source_name: str = "DataFrame Source"
    ) -> DataStream[Row]:
        """A bounded stream of the rows of a static Spark DataFrame; Spark evaluates it when the job first starts.

        Raises:
            UnsupportedOperationError: for a streaming DataFrame, and when the runtime has no DataFrames.
            InvalidTypeError: for a DataFrame of another library, and naming the column that has no type in headrace.
        """
        try:
            from headrace.runtime.spark.dataframe import DataFrameSource
        except ModuleNotFoundError as error:
            raise UnsupportedOperationError(
                "from_dataframe() is not supported: write the DataFrame to Parquet and read it with a FileSource"
            ) from error
        strategy = WatermarkStrategy.no_watermarks() if watermark_strategy is None else watermark_strategy
        return self.from_source(DataFrameSource(dataframe), strategy, source_name)

    # Streams ask for others here: their classes cannot import one another.

    def _stream(self, edges: tuple[Edge, ...], origin: TypeOrigin) -> DataStream:
        return DataStream(self, edges, origin=origin)

    def _cached(self, stream: DataStream[T_co]) -> CachedDataStream[T_co]:
        return CachedDataStream(stream)

    def _keyed(
        self, stream: DataStream[T_co], key: KeySelection, partitioning: Partitioning = HASH
    ) -> KeyedStream[T_co, Any]:
        return KeyedStream(stream, key, partitioning)

    def _connected(self, first: DataStream, second: Any) -> Any:
        if isinstance(second, BroadcastStream):
            return BroadcastConnectedStream(first, second)
        expect(second, DataStream, "connect")
        return ConnectedStreams(first, second)

    def _broadcast(self, stream: DataStream[T_co], descriptors: tuple[MapStateDescriptor, ...]) -> Any:
        return BroadcastStream(stream, descriptors) if descriptors else stream

    def _from(self, source: Source, name: str, origin: TypeOrigin = TypeOrigin.DECLARED) -> DataStream:
        strategy = WatermarkStrategy.no_watermarks()
        return DataStreamSource(self, source, strategy, name, origin=origin)

    # --- jobs --------------------------------------------------------------------------------------------------------

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Runs everything that was built since the last job, and waits for its end.

        Meanwhile SIGTERM stops all jobs at the end of their epochs, and then ends the program (exit code 143), unless
        the program has a handler for it; a second SIGTERM gives up the epochs. Ctrl-C gives up that of this job.

        Args:
            job_name: the name of the job; that of the configuration, or a default, when left out.

        Raises:
            InvalidProgramError: when nothing was built, or what was built cannot be run.
            JobExecutionError: when the job fails; a ``UserFunctionError`` when a function of the program raised.
        """
        from headrace.client.running import result_of

        return result_of(self._start(job_name, is_awaited=True))

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Starts everything that was built since the last job, and does not wait.

        Raises:
            InvalidProgramError: when nothing was built, or what was built cannot be run.
        """
        return self._start(job_name)

    def _start(self, job_name: str | None, *, is_awaited: bool = False) -> JobClient:
        from headrace.client.submission import submit

        if job_name is not None:
            expect(job_name, str, "execute")
        job = self.transformations.take_next_job()
        client = submit(job, self.get_configuration(), job_name)
        self.transformations.started(client, is_awaited=is_awaited)
        return client

    def get_execution_plan(self) -> str:
        """The plan of the next job as JSON, in Flink's shape: nodes with parallelism, predecessors and ship strategy.

        Raises:
            InvalidProgramError: when nothing was built, or what was built cannot be run.
        """
        from headrace.plan.explain import execution_plan_document

        return json.dumps(execution_plan_document(self._plan()), indent=2, ensure_ascii=False)

    def explain(self) -> str:
        """The plan of the next job as text: stages, what runs chained in them, what is shuffled between them.

        Raises:
            InvalidProgramError: when nothing was built, or what was built cannot be run.
        """
        from headrace.graph.diagram import draw_text
        from headrace.plan.explain import plan_diagram

        return draw_text(plan_diagram(self._plan()))

    def to_svg(self) -> str:
        """The plan of the next job as a picture: an SVG document, for a file or a page.

        Raises:
            InvalidProgramError: when nothing was built, or what was built cannot be run.
        """
        from headrace.graph.diagram_svg import draw_svg
        from headrace.plan.explain import plan_diagram

        return draw_svg(plan_diagram(self._plan()))

    def __repr__(self) -> str:
        pending = self.transformations.pending
        return f"{type(self).__name__}({pending} operator{'' if pending == 1 else 's'} for the next job)"

    def _repr_html_(self) -> str:
        """Return what notebooks show: the plan of the next job."""
        from headrace.datastream.notebook import environment_html

        job = self.transformations.next_job() if self.transformations.pending else None
        return environment_html(type(self).__name__, self._configuration, job, self._plan)

    def close(self) -> None:
        """Forgets what was built and not executed, and what ``cache()`` has kept."""
        self.transformations.discard()
        if self.transformations.caches is not None:
            self.transformations.caches.clear()

    def _plan(self) -> JobPlan:
        from headrace.client.submission import effective_configuration, plan_graph

        job = self.transformations.next_job()
        return plan_graph(job, effective_configuration(self._configuration), None, self.get_parallelism())


public_module(__name__)
