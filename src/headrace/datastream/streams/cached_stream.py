"""``CachedDataStream``: a stream that the first job computes, and later ones read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common import options
from headrace.common.arguments import refused
from headrace.common.type_variables import T_co
from headrace.connectors.source import Boundedness
from headrace.datastream.streams.data_stream import DataStream
from headrace.graph.partitioning import FORWARD
from headrace.graph.specs import SourceSpec

if TYPE_CHECKING:
    from headrace.graph.nodes import Edge


class CachedDataStream(DataStream[T_co]):
    """What ``cache()`` gives: the same stream, which is computed once.

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
        self._cache = self._transformations.caches.of(self._edges[0])

    def invalidate(self) -> None:
        """Lets go of the records; the next job that uses the stream computes and keeps them again."""
        self._transformations.caches.invalidate(self._cache)


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
