"""``DataStreamSink``, the end of a stream, and the operators that a sink adds before its writers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from headrace.common.arguments import refused
from headrace.common.errors import InvalidTypeError
from headrace.datastream.streams.stream import OperatorHandle, side_stream
from headrace.graph.specs import SinkSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.common.output_tag import OutputTag
    from headrace.common.type_variables import OUT
    from headrace.connectors.sink import Sink
    from headrace.datastream.stream_execution_environment import StreamExecutionEnvironment
    from headrace.datastream.streams.data_stream import DataStream
    from headrace.graph.nodes import Node
    from headrace.graph.stream_graph import StreamGraph


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
    def add_pre_write_topology(self, input_data_stream: DataStream[Any]) -> DataStream[Any]:
        """The stream that the writers get; called once, by ``sink_to()``.

        What the operators that it adds do not say themselves, of uid and parallelism, follows from the sink: with the
        uid ``totals`` they are ``totals/pre-write-0`` and so on, in the order in which they are added.
        """


@dataclass(frozen=True, slots=True)
class PreWriteTopology:
    """The operators that a sink has added.

    Attributes:
        following: for each setting that they take over from the sink, those that have not set it themselves, each with
            its number among all.
    """

    following: Mapping[str, Mapping[int, int]]

    @classmethod
    def of(cls, graph: StreamGraph, known: int) -> Self:
        """The operators that were added to a graph since it had so many."""
        added = list(graph)[known:]
        settings = ("uid", "parallelism", "max_parallelism")
        unset = {
            setting: {node.id: number for number, node in enumerate(added) if getattr(node, setting) is None}
            for setting in settings
        }
        return cls(unset)

    def take_over(self, graph: StreamGraph, changes: Mapping[str, Any]) -> None:
        """Have the operators follow settings of the sink."""
        for setting in changes.keys() & self.following.keys():
            for node_id, number in self.following[setting].items():
                value = f"{changes[setting]}/pre-write-{number}" if setting == "uid" else changes[setting]
                graph.update(node_id, **{setting: value})


NO_TOPOLOGY: Final = PreWriteTopology({})
"""Most sinks add no operators."""


def before_writers(sink: Sink, stream: DataStream[Any]) -> DataStream[Any]:
    """The stream that the writers of a sink get of another one.

    Raises:
        InvalidTypeError: when the sink gives something that cannot be written.
    """
    if not isinstance(sink, SupportsPreWriteTopology):
        return stream
    made: Any = sink.add_pre_write_topology(stream)
    if not hasattr(made, "sink_to"):
        method = f"{type(sink).__name__}.add_pre_write_topology"
        raise refused(f"{method} returned {made!r}: return the stream that its writers get", InvalidTypeError)
    found: DataStream[Any] = made
    return found


class DataStreamSink(OperatorHandle):
    """The end of a stream: a sink that was added to it.

    Args:
        environment: the environment.
        node_id: the sink among its operators.
        pre_write: the operators that the sink has added before itself.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> sink = env.from_collection([1, 2]).print().name("to the terminal").uid("terminal")
        >>> sink.get_name()
        'to the terminal'
    """

    def __init__(
        self, environment: StreamExecutionEnvironment, node_id: int, pre_write: PreWriteTopology = NO_TOPOLOGY
    ) -> None:
        super().__init__(environment.transformations)
        self._environment = environment
        self._node_id = node_id
        self._pre_write = pre_write

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

    def _update(self, **changes: Any) -> None:
        super()._update(**changes)
        self._pre_write.take_over(self._transformations.graph, changes)
