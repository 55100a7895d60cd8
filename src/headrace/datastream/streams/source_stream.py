"""Streams that begin: of a source, or of the records that an earlier job has kept; and how jobs keep them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.common import options
from headrace.common.errors import refused
from headrace.common.job_status import JobStatus
from headrace.common.type_variables import T_co
from headrace.connectors.driver_sink import CachedSource, CacheFiles, DriverSink
from headrace.connectors.source import Boundedness, Source
from headrace.datastream.streams.checks import is_needed
from headrace.datastream.streams.data_stream import DataStream
from headrace.datastream.streams.types import TypeOrigin
from headrace.graph.partitioning import FORWARD, HASH, ForwardByKey
from headrace.graph.specs import SinkSpec, SourceSpec, TimestampsSpec
from headrace.graph.stream_graph import Edge, Node, StreamGraph
from headrace.operators.checkpointed import CheckpointedFunction
from headrace.time.watermark_strategy import WatermarkStrategy

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient
    from headrace.datastream.stream_execution_environment import StreamExecutionEnvironment


class DataStreamSource(DataStream[T_co]):
    """The stream of a source. Event time is assigned by a node of its own that follows the source wherever it goes.

    What is set on the stream (name, uid, parallelism) is set on the source; the node that assigns timestamps takes its
    name and uid from it. Side outputs are those of the source.

    Args:
        environment: where the stream belongs.
        source: where records come from.
        strategy: how event time is taken from them.
        name: the name of the source.
        origin: where the type of the records comes from.

    Examples:
        >>> from headrace.common import WatermarkStrategy
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors import NumberSequenceSource
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> numbers = env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "numbers")
        >>> numbers.uid("numbers").execute_and_collect(limit=10)
        [1, 2, 3]
    """

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        source: Source,
        strategy: WatermarkStrategy,
        name: str,
        *,
        origin: TypeOrigin = TypeOrigin.DECLARED,
    ) -> None:
        graph = environment.transformations.graph
        if isinstance(source, CheckpointedFunction):
            raise refused(
                f"{type(source).__name__} is a source, and what a source knows is in its splits and its enumerator: "
                "leave CheckpointedFunction out"
            )
        node = graph.add(SourceSpec(source), name)
        self._source_id = last = node.id
        if is_needed(strategy):
            last = graph.add(TimestampsSpec(strategy), f"{name} Watermarks", (Edge(node.id),)).id
        super().__init__(environment, (Edge(last),), origin=origin)

    def _operator(self) -> Node:
        return self._transformations.graph[self._source_id]

    def _update(self, **changes: object) -> None:
        graph = self._transformations.graph
        graph.update(self._source_id, **changes)
        watermarks_id = self._edges[0].source
        if watermarks_id != self._source_id:
            if "name" in changes:
                graph.update(watermarks_id, name=f"{changes['name']} Watermarks")
            if "uid" in changes:
                graph.update(watermarks_id, uid=f"{changes['uid']}-watermarks")
            for setting in changes.keys() & {"parallelism", "max_parallelism"}:
                graph.update(watermarks_id, **{setting: changes[setting]})


@dataclass(eq=False, slots=True)
class StreamCache:
    """The records that are kept of one output.

    Attributes:
        output: the edge that it is read by.
        files: the records; None as long as no job has made all of them.
    """

    output: Edge
    files: CacheFiles | None = None

    @property
    def uid(self) -> str:
        """The uid of the operators that fill it and read it; they have no state."""
        return f"cache-{self.output.source}-{self.output.side_output or ''}"

    def feeds(self, edge: Edge) -> bool:
        """Return whether the records of an edge are those that are kept."""
        return (edge.source, edge.side_output) == (self.output.source, self.output.side_output)


class Caches:
    """The caches of an environment, by the output that they keep."""

    def __init__(self) -> None:
        self._caches: dict[tuple[int, str | None], StreamCache] = {}
        self._begun: list[tuple[StreamCache, CacheFiles]] = []
        self._running: list[tuple[JobClient, StreamCache, CacheFiles]] = []

    def of(self, output: Edge) -> StreamCache:
        """The cache of an output; an empty one where there is none yet."""
        return self._caches.setdefault((output.source, output.side_output), StreamCache(output))

    def applied(self, graph: StreamGraph, wanted: Collection[int]) -> StreamGraph:
        """The graph of a job that reads what there is, and fills the others that it comes by.

        Args:
            graph: the graph.
            wanted: the ids of the nodes that the job is for.
        """
        self._take_what_is_whole()
        for cache in self._caches.values():
            if cache.files is not None:
                graph = _reading(cache, cache.files, graph).subgraph(wanted)
        self._begun = []
        made = {node.id for node in graph}
        for cache in self._caches.values():
            if cache.files is None and cache.output.source in made:
                self._begun.append((cache, _filling(cache, graph)))
        return graph

    def filled_by(self, client: JobClient) -> None:
        """The job whose graph was made last runs: when it has finished, what it has filled is whole."""
        self._running += [(client, cache, files) for cache, files in self._begun]
        self._begun = []

    def invalidate(self, cache: StreamCache) -> None:
        """Forget what is kept, and what jobs that run are about to."""
        cache.files = None
        self._running = [entry for entry in self._running if entry[1] is not cache]

    def clear(self) -> None:
        """Forget all that is kept."""
        for cache in self._caches.values():
            self.invalidate(cache)

    def _take_what_is_whole(self) -> None:
        """Looks for jobs that have finished; one that failed, or was ended, has not made all records."""
        running, self._running = self._running, []
        for client, cache, files in running:
            status = client.get_job_status().result()
            if status is JobStatus.FINISHED:
                cache.files = files
            elif not status.is_terminal_state():
                self._running.append((client, cache, files))


def _filling(cache: StreamCache, graph: StreamGraph) -> CacheFiles:
    """Has a job put the records into a cache beside all else that it does."""
    files = CacheFiles()
    node = graph.add(SinkSpec(DriverSink(files.take)), f"Cache: {graph[cache.output.source].name}", (cache.output,))
    graph.update(node.id, uid=cache.uid)
    return files


def _reading(cache: StreamCache, files: CacheFiles, graph: StreamGraph) -> StreamGraph:
    """Has a job read what is kept, in the place of the operator that would make it again."""
    readers: list[Node] = []

    def read(node: Node, made: StreamGraph) -> Iterator[Node]:
        if any(map(cache.feeds, node.inputs)):
            if not readers:
                readers.append(_reader(cache, files, graph, made.new_id()))
                yield readers[0]
            inputs = (_from(readers[0], edge) if cache.feeds(edge) else edge for edge in node.inputs)
            node = replace(node, inputs=tuple(inputs))
        yield node

    return graph.transform(read)


def _reader(cache: StreamCache, files: CacheFiles, graph: StreamGraph, node_id: int) -> Node:
    producer = graph[cache.output.source]
    return Node(
        id=node_id,
        spec=SourceSpec(CachedSource(files, graph.record_type(cache.output))),
        name=f"Cache: {producer.name}",
        uid=cache.uid,
        parallelism=producer.parallelism,
        call_site=producer.call_site,
    )


def _from(reader: Node, edge: Edge) -> Edge:
    """Let an edge read the cache, where records are in no subtask of their key any more."""
    partitioning = HASH if isinstance(edge.partitioning, ForwardByKey) else edge.partitioning
    return replace(edge, source=reader.id, side_output=None, partitioning=partitioning)


class CachedDataStream(DataStream[T_co]):
    """The stream behind ``cache()``, which is computed once.

    The first job of the environment that uses it, and that finishes, keeps its records in temporary files of the
    driver; later ones read them there, with their timestamps. They are gone with the program.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> squares = env.from_sequence(1, 4).map(lambda number: number * number, output_type=int).cache()
        >>> list(squares.execute_and_collect())
        [1, 4, 9, 16]
        >>> list(squares.map(lambda square: -square, output_type=int).execute_and_collect())  # squares nothing again
        [-1, -4, -9, -16]
        >>> squares.invalidate()
    """

    def __init__(self, origin: DataStream[T_co]) -> None:
        super().__init__(origin._environment, (_output_of(origin),), origin=origin._type_origin)
        if self._transformations.caches is None:
            self._transformations.caches = Caches()
        self._caches = self._transformations.caches
        self._cache = self._caches.of(self._edges[0])

    def invalidate(self) -> None:
        """Lets go of the records; the next job that uses the stream computes and keeps them again."""
        self._caches.invalidate(self._cache)


def _output_of(stream: DataStream[T_co]) -> Edge:
    """The edge of a stream that can be kept.

    Raises:
        InvalidProgramError: when it cannot.
    """
    edges, graph = stream._edges, stream._transformations.graph
    if len(edges) > 1 or edges[0].key is not None or edges[0].partitioning is not FORWARD:
        raise refused(
            "cache() is for what an operator makes: a stream that is keyed, united or spread has none of it, so call "
            "cache() before key_by(...) and the like, or behind the next operator"
        )
    for node in graph.subgraph({edges[0].source}):
        if isinstance(node.spec, SourceSpec) and node.spec.source.boundedness is not Boundedness.BOUNDED:
            raise refused(f"cache() needs a stream that ends, but source {node.name!r} is unbounded")
    if stream._environment.get_configuration().get(options.CHECKPOINT_DIR) is not None:
        raise refused(
            f"cache() keeps records in this program alone, and with {options.CHECKPOINT_DIR.key} a job may go on that "
            "another program has begun: leave out one of the two, or write the stream to files"
        )
    return edges[0]
