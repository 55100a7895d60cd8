"""Ends of a stream: sinks, and the program that runs the job."""

from __future__ import annotations

from typing import Any, Generic, overload

from headrace.common.arguments import expect
from headrace.common.type_variables import T_co
from headrace.connectors.driver_sink import PrintSink
from headrace.connectors.sink import Sink
from headrace.connectors.sink.checks import check_properties
from headrace.datastream.streams.pre_write import NO_TOPOLOGY, PreWriteTopology, before_writers
from headrace.datastream.streams.results import CloseableIterator, collected, collected_later, to_dataframe
from headrace.datastream.streams.stream import Stream
from headrace.datastream.streams.stream_sink import DataStreamSink
from headrace.datastream.streams.types import TypeOrigin
from headrace.graph.specs import SinkSpec


class EndOperators(Stream[T_co], Generic[T_co]):
    """Where the records of a stream may go."""

    def sink_to(self, sink: Sink[T_co]) -> DataStreamSink:
        """Writes the records to a sink.

        Raises:
            InvalidTypeError: when the sink cannot write records of this type.
        """
        expect(sink, Sink, "sink_to")
        check_properties(sink)
        graph = self._transformations.graph
        known = len(graph)
        stream = before_writers(sink, self)
        sink.validate(stream._type)
        return stream._end(sink, f"Sink: {type(sink).__name__}", PreWriteTopology.of(graph, known))

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Prints the records in the driver; lines begin with ``sink_identifier`` if there is one.

        Raises:
            InvalidTypeError: when ``sink_identifier`` is no text.
        """
        if sink_identifier is not None:
            expect(sink_identifier, str, "print")
        sink = PrintSink(sink_identifier, is_declared=self._type_origin is TypeOrigin.DECLARED)
        return self._end(sink, "Print to Std. Out")

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator[T_co]: ...
    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[T_co]: ...
    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[T_co]: ...
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[T_co] | list[T_co]:
        """Runs the job, with everything else that was built, and gives the records to the program.

        Args:
            job_execution_name: the name of the job.
            limit: how many records are wanted; the job is cancelled when they are there.

        Returns:
            A list of at most ``limit`` records; without a limit an iterator over all of them while the job runs. Use
            it in a ``with`` statement, or close it: that ends the job.
        """
        return collected(self, job_execution_name, limit)

    def collect_async(self) -> CloseableIterator[T_co]:
        """Gives the records of the stream to the program while the next job runs, which it starts itself.

        So several streams of one job can be collected. Start the job with ``execute_async()``, and take the records of
        all of them: it waits where four epochs of one are waiting to be taken. With ``execute()`` they are all kept in
        memory until the job is over.

        Raises:
            InvalidProgramError: of the iterator, when it is asked for records before the job was started.

        Examples:
            >>> from headrace.datastream import StreamExecutionEnvironment
            >>> env = StreamExecutionEnvironment.get_execution_environment()
            >>> numbers = env.from_sequence(1, 4)
            >>> squares = numbers.map(lambda number: number * number, output_type=int).collect_async()
            >>> halves = numbers.filter(lambda number: number % 2 == 0).collect_async()
            >>> _ = env.execute_async("squares and halves")
            >>> list(squares), list(halves)
            ([1, 4, 9, 16], [2, 4])
        """
        return collected_later(self)

    def to_dataframe(self, job_name: str | None = None) -> Any:
        """Runs the bounded job, with everything else that was built, and gives its records as a Spark DataFrame.

        Raises:
            InvalidProgramError: when a source is unbounded.
            UnsupportedOperationError: when the runtime has no DataFrames.
        """
        return to_dataframe(self, job_name)

    def _end(self, sink: Sink, name: str, pre_write: PreWriteTopology = NO_TOPOLOGY) -> DataStreamSink:
        node = self._transformations.add(SinkSpec(sink), name, self._edges)
        return DataStreamSink(self._environment, node.id, pre_write)
