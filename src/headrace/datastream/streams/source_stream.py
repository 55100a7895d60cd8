"""Streams that begin: of a source, or of the records that an earlier job has kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common import options
from headrace.common.errors import refused
from headrace.common.type_variables import T_co
from headrace.connectors.source import Boundedness, Source
from headrace.datastream.streams.checks import is_needed
from headrace.datastream.streams.data_stream import DataStream
from headrace.datastream.streams.types import TypeOrigin
from headrace.datastream.transformations import Caches
from headrace.graph.partitioning import FORWARD
from headrace.graph.specs import SourceSpec, TimestampsSpec
from headrace.graph.stream_graph import Edge, Node
from headrace.operators.checkpointed import CheckpointedFunction
from headrace.time.watermark_strategy import WatermarkStrategy

if TYPE_CHECKING:
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
