"""The ends of streams: sinks, operators that they add before their writers, and records for the program itself."""

from __future__ import annotations

import contextlib
import threading
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, Self

from headrace.common.errors import InvalidTypeError, expect, refused
from headrace.common.notebooks import framed
from headrace.common.output_tag import OutputTag
from headrace.common.type_variables import OUT, T, T_co
from headrace.connectors.driver_sink import CollectSink
from headrace.connectors.sink import Sink
from headrace.connectors.source import Boundedness
from headrace.datastream.streams.stream import OperatorHandle, Stream, side_stream
from headrace.graph.specs import SinkSpec, SourceSpec
from headrace.graph.stream_graph import Node

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient
    from headrace.datastream.stream_execution_environment import StreamExecutionEnvironment
    from headrace.datastream.streams.data_stream import DataStream


class SupportsPreWriteTopology(ABC):
    """Extended by a sink that transforms the stream before its writers: by a key, by a function, to other subtasks.

    Examples:
        >>> from headrace.datastream.connectors import Sink
        >>> from headrace.datastream.connectors.base import SupportsPreWriteTopology
        >>> class ByCountry(Sink, SupportsPreWriteTopology):
        ...     def add_pre_write_topology(self, input_data_stream):
        ...         return input_data_stream.key_by("country")
        ...     def create_writer(self, context):
        ...         raise NotImplementedError("left out here")
        >>> isinstance(ByCountry(), Sink)
        True
    """

    @abstractmethod
    def add_pre_write_topology(self, input_data_stream: DataStream) -> DataStream:
        """The stream that the writers get; called once, by ``sink_to()``.

        What the operators that it adds do not say themselves, of uid and parallelism, follows from the sink: with the
        uid ``totals`` they are ``totals/pre-write-0`` and so on, in the order in which they are added.
        """


_FOLLOWING: Final = ("uid", "parallelism", "max_parallelism")
"""Settings of a sink that the operators take over which it has added, unless they have their own."""


def with_pre_write_topology(sink: SupportsPreWriteTopology, stream: DataStream) -> tuple[DataStream, Sequence[Node]]:
    """The stream that the writers of a sink get of another one, and the operators that the sink has added for it.

    Raises:
        InvalidTypeError: when the sink gives something that cannot be written.
    """
    graph = stream._transformations.graph
    known = len(graph)
    made: Any = sink.add_pre_write_topology(stream)
    if not hasattr(made, "sink_to"):
        method = f"{type(sink).__name__}.add_pre_write_topology"
        raise refused(f"{method} returned {made!r}: return the stream that its writers get", InvalidTypeError)
    return made, list(graph)[known:]


class DataStreamSink(OperatorHandle):
    """The end of a stream: a sink that was added to it.

    Args:
        environment: the environment.
        node_id: the sink among its operators.
        added: the operators that the sink has added before itself.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> sink = env.from_collection([1, 2]).print().name("to the terminal").uid("terminal")
        >>> sink.get_name()
        'to the terminal'
    """

    def __init__(self, environment: StreamExecutionEnvironment, node_id: int, added: Sequence[Node] = ()) -> None:
        super().__init__(environment.transformations)
        self._environment = environment
        self._node_id = node_id
        self._added = added

    def get_name(self) -> str:
        """The name of the sink."""
        return self._operator().name

    def get_side_output(self, output_tag: OutputTag[OUT]) -> DataStream[OUT]:
        """The records that the sink cannot write, as ``(where, raw, reason)``, where it was given this tag for them.

        Raises:
            InvalidProgramError: when it was not.
            InvalidTypeError: when they cannot be of the type of the tag.
        """
        return side_stream(self._environment, self, output_tag)

    def __repr__(self) -> str:
        node = self._operator()
        uid = "no uid" if node.uid is None else f"uid {node.uid}"
        return f"DataStreamSink({node.name!r}, {uid})"

    def _facts(self) -> dict[str, object]:
        spec = self._operator().spec
        return {"sink": type(spec.sink).__name__} if isinstance(spec, SinkSpec) else {}

    def _operator_ids(self) -> set[int]:
        return {self._node_id}

    def _operator(self) -> Node:
        return self._transformations.graph[self._node_id]

    def _update(self, **changes: object) -> None:
        super()._update(**changes)
        for number, node in enumerate(self._added):
            for setting in _FOLLOWING:
                if setting in changes and getattr(node, setting) is None:
                    value = f"{changes[setting]}/pre-write-{number}" if setting == "uid" else changes[setting]
                    self._transformations.graph.update(node.id, **{setting: value})


_EPOCHS_HELD: Final = 4
"""The number of epochs whose records wait for the program before the job waits for it."""

_NO_RECORD: Final = object()


def collected(stream: DataStream[T], job_name: str | None, limit: int | None) -> CloseableIterator[T] | list[T]:
    """Runs the job of a stream's environment, with a sink at the stream's end that hands its records over.

    Returns:
        An iterator over all records, or a list of at most ``limit``; the job is cancelled when these are there.
    """
    if job_name is not None and not isinstance(job_name, str):
        hint = f": write execute_and_collect(limit={job_name})" if isinstance(job_name, int) else ""
        raise refused(f"execute_and_collect takes the job's name first, not {job_name!r}{hint}", InvalidTypeError)
    if limit is not None:
        expect(limit, int, "limit")
        if limit < 1:
            raise refused(f"limit is a number of records above zero, not {limit!r}")
    records = _ended(stream)
    records.begin(stream.get_execution_environment().execute_async(job_name), is_alone=True)
    if limit is None:
        return records
    with records:
        return list(islice(records, limit))


def collected_later(stream: DataStream[T]) -> CloseableIterator[T]:
    """Ends a stream in a sink that hands its records over, once the next job of its environment runs."""
    records = _ended(stream)
    stream.get_execution_environment().transformations.when_started(records.begin)
    return records


def _ended(stream: DataStream[T]) -> CloseableIterator[T]:
    handover = Handover()
    add_sink(stream, CollectSink(handover.put), "Collect")
    return CloseableIterator(handover)


def to_dataframe(stream: DataStream, job_name: str | None) -> Any:
    """Runs the job of a stream's environment, and reads what it wrote for the stream.

    Raises:
        InvalidProgramError: when a source of the stream is unbounded.
        InvalidTypeError: when the records have no columns.
        UnsupportedOperationError: when the runtime has no DataFrames.
        JobCancelledError: when Ctrl-C or SIGTERM has stopped the job before the end of its input.
    """
    from headrace.client.dataframe import dataframe_sink  # not at the top: most programs need no Parquet
    from headrace.client.running import result_of

    if job_name is not None:
        expect(job_name, str, "to_dataframe")
    _check_bounded(stream)
    environment = stream.get_execution_environment()
    sink, dataframe = dataframe_sink(stream.get_type(), environment.get_configuration())
    stream.sink_to(sink)
    client = environment.execute_async(job_name)
    result_of(client)
    if (interruption := client.interruption()) is not None:
        raise interruption
    return dataframe()


def _check_bounded(stream: Stream) -> None:
    graph = stream.get_execution_environment().transformations.graph
    for node in graph.subgraph({edge.source for edge in stream._edges}):
        if isinstance(node.spec, SourceSpec) and node.spec.source.boundedness is not Boundedness.BOUNDED:
            raise refused(
                f"to_dataframe() needs a job that ends, but source {node.name!r} is unbounded: use sink_to(...)"
            )


class Handover:
    """Takes records from the job's thread to the program's; the job waits when the program is slow."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._epochs: deque[list[Any]] = deque()
        self._is_ended = False
        self._is_closed = False
        self._holds_all = False
        self._error: BaseException | None = None

    def hold_all(self) -> None:
        """Hold all records: none are taken before the job is over, and it does not wait for that."""
        self._holds_all = True

    def put(self, records: list[Any]) -> None:
        """Hand over the records of an epoch; waits for the program unless it wants no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._holds_all or len(self._epochs) < _EPOCHS_HELD)
            if not self._is_closed:
                self._epochs.append(records)
                self._changed.notify_all()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def end(self, error: BaseException | None) -> None:
        """The job is over: nothing follows what was handed over, but what ended the job too early."""
        with self._changed:
            self._error = error
            self._is_ended = True
            self._changed.notify_all()

    def take(self) -> list[Any] | None:
        """The records of the next epoch that has any; None when there will be none.

        Raises:
            JobExecutionError: when the job has failed; or whatever else ended it.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._epochs or self._is_ended or self._is_closed)
            if self._epochs and not self._is_closed:
                records = self._epochs.popleft()
                self._changed.notify_all()
                return records
            if self._error is not None and not self._is_closed:
                raise self._error
            return None

    def close(self) -> None:
        """The program wants no more: the job never waits for it again."""
        with self._changed:
            self._is_closed = True
            self._epochs.clear()
            self._changed.notify_all()


def add_sink(stream: DataStream, sink: Sink, name: str, added: Sequence[Node] = ()) -> DataStreamSink:
    """Ends a stream in a sink, given the operators that the sink has added before itself."""
    node = stream._transformations.add(SinkSpec(sink), name, stream._edges)
    return DataStreamSink(stream._environment, node.id, added)


class CloseableIterator(Generic[T_co]):
    """The records of a job, epoch by epoch while it runs; to be closed, best by a ``with`` statement.

    One that is dropped while its job runs cancels it, with a ``ResourceWarning``, unless the job has other outputs too.
    Iterating raises what made the job fail, after the records of the epochs before; a ``JobCancelledError`` when Ctrl-C
    or SIGTERM has stopped it before the end of its input.

    Args:
        handover: where the job's sink puts the records.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> with env.from_collection([1, 2, 3]).execute_and_collect() as results:
        ...     print([number * 2 for number in results])
        [2, 4, 6]
    """

    def __init__(self, handover: Handover) -> None:
        self._handover = handover
        self._client: JobClient | None = None
        self._is_alone = False
        self._records: Iterator[T_co] = iter(())

    def begin(self, client: JobClient, *, is_awaited: bool = False, is_alone: bool = False) -> None:
        """Takes the records of a job that has been started.

        Args:
            client: the job.
            is_awaited: whether the program waits for its end before it comes for records.
            is_alone: whether the job was started for these records: it is canceled when they are not read any more.
        """
        self._client, self._is_alone = client, is_alone
        handover = self._handover  # and not this object: the job would keep it alive
        if is_awaited:
            handover.hold_all()
        client.get_job_execution_result().add_done_callback(
            lambda result: handover.end(result.exception() or client.interruption())
        )

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T_co:
        self.get_job_client()
        record: Any = next(self._records, _NO_RECORD)
        while record is _NO_RECORD:
            records = self._handover.take()
            if records is None:
                raise StopIteration
            self._records = iter(records)
            record = next(self._records, _NO_RECORD)
        found: T_co = record
        return found

    def next(self) -> T_co:
        """The next record, as PyFlink names it."""
        return next(self)

    def get_job_client(self) -> JobClient:
        """The job.

        Raises:
            InvalidProgramError: when none was started yet.
        """
        if self._client is None:
            raise refused("there are no records yet, as the job was not started: call execute_async() before")
        return self._client

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'no job yet' if self._client is None else repr(self._client)})"

    def _repr_html_(self) -> str:
        """HTML for notebooks: the job whose records these are."""
        job = "no job yet" if self._client is None else self._client._repr_html_()
        return framed(type(self).__name__, {}, job)

    def close(self) -> None:
        """Cancels the job if it runs, and waits for its end; a second time does nothing."""
        self._handover.close()
        self._records = iter(())
        if self._client is not None and not self._client.get_job_execution_result().done():
            self._client.cancel().result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        client = self._client
        if client is None or self._handover.is_closed or client.get_job_execution_result().done():
            return
        if not self._is_alone:  # the job has other outputs, and does not wait for this one any more
            self._handover.close()
            return
        warnings.warn(
            f"the records of {client!r} are not taken any more, so it is cancelled: close() what execute_and_collect() "
            "gives, best by a with statement",
            ResourceWarning,
            source=self,
            stacklevel=1,
        )
        # In a thread: what is collected as garbage may be so anywhere, in the middle of the job's own code, say.
        with contextlib.suppress(RuntimeError):  # no threads begin when the interpreter ends, nor does the job go on
            threading.Thread(target=_abandon, args=(self._handover, client), daemon=True).start()


def _abandon(handover: Handover, client: JobClient) -> None:
    handover.close()
    client.cancel()
