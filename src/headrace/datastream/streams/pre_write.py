"""Operators that a sink adds before its writers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, cast

from headrace.common.arguments import refused
from headrace.common.errors import InvalidTypeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.connectors.sink import Sink
    from headrace.datastream.streams.data_stream import DataStream
    from headrace.datastream.streams.end_operators import EndOperators
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
        """What the writers get of a stream; called once, by ``sink_to()``.

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
"""That of most sinks."""


def before_writers(sink: Sink, stream: EndOperators[Any]) -> EndOperators[Any]:
    """The stream that the writers of a sink get of another one.

    Raises:
        InvalidTypeError: when the sink gives something that cannot be written.
    """
    if not isinstance(sink, SupportsPreWriteTopology):
        return stream
    made: Any = sink.add_pre_write_topology(cast("DataStream[Any]", stream))
    if not hasattr(made, "sink_to"):
        method = f"{type(sink).__name__}.add_pre_write_topology"
        raise refused(f"{method} returned {made!r}: return the stream that its writers get", InvalidTypeError)
    found: EndOperators[Any] = made
    return found
