"""What all parts of a ``DataStream`` know of it, and how an operator is added to it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic

from headrace.common.function_types import Role
from headrace.common.type_variables import T_co
from headrace.datastream.streams.handle import OperatorHandle, not_an_operator
from headrace.datastream.streams.state_misuse import check_asks_for_no_state_of_keys, check_types_exist
from headrace.datastream.streams.types import TypeOrigin, origin_of, result_type
from headrace.graph.nodes import Edge

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.common.typeinfo import TypeInformation
    from headrace.datastream.execution_config import ExecutionConfig
    from headrace.datastream.stream_execution_environment import StreamExecutionEnvironment
    from headrace.datastream.streams.data_stream import DataStream
    from headrace.graph.nodes import Node
    from headrace.graph.specs import OperatorSpec


class Stream(OperatorHandle, Generic[T_co]):
    """Records of one type. What may be done with them is in classes that extend this one, a subject in each.

    Args:
        environment: where the stream belongs.
        edges: where its records come from; several are a union.
        origin: where the type of its records comes from.
    """

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        edges: tuple[Edge, ...],
        *,
        origin: TypeOrigin = TypeOrigin.DECLARED,
    ) -> None:
        super().__init__(environment.transformations)
        self._environment = environment
        self._edges = edges
        self._type = self._transformations.graph.record_type(edges[0])
        self._type_origin = origin

    def get_type(self) -> TypeInformation[T_co]:
        """The type of the records."""
        return self._type

    def get_name(self) -> str:
        """The name of the operator that the stream comes from.

        Raises:
            InvalidProgramError: when it is keyed, a union or a side output.
        """
        return self._operator().name

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment that the stream belongs to."""
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        """The settings of the environment."""
        return self._environment.get_config()

    # --- for the classes of this package -----------------------------------------------------------------------------

    def _apply(self, spec: OperatorSpec, name: str, *more: Stream[Any], origin: TypeOrigin | None = None) -> DataStream:
        """The stream behind a new operator.

        Args:
            spec: what the operator does.
            name: its name.
            more: what its other inputs read; this stream is the first.
            origin: where the type of the results comes from; where that of this stream does, unless it is said.
        """
        check_asks_for_no_state_of_keys(spec)
        check_types_exist(spec)
        streams = enumerate((self, *more))
        edges = tuple(replace(edge, input_index=index) for index, stream in streams for edge in stream._edges)
        node = self._transformations.add(spec, name, edges)
        found = self._type_origin if origin is None else origin
        return self._environment._stream((Edge(node.id),), found)

    def _transform(
        self,
        kind: Callable[[Any, TypeInformation], OperatorSpec],
        name: str,
        function: Any,
        output_type: Any,
        role: Role = Role.MANY,
    ) -> DataStream:
        """The stream of what a function makes of the records; ``kind`` makes a spec of it and of its results' type."""
        found = result_type(output_type, function, role)
        return self._apply(kind(function, found), name, origin=origin_of(output_type))

    def _without_keys(self) -> DataStream[T_co]:
        """This stream, before it was keyed."""
        raise NotImplementedError

    def _unkeyed_edges(self) -> tuple[Edge, ...]:
        """Where its records come from, without their keys."""
        return self._edges

    def _facts(self) -> dict[str, object]:
        return {"records": self._type}

    def _operator_ids(self) -> set[int]:
        return {edge.source for edge in self._edges}

    def _operator(self) -> Node:
        if len(self._edges) == 1 and self._edges[0].side_output is None:
            return self._transformations.graph[self._edges[0].source]
        raise not_an_operator("a union" if len(self._edges) > 1 else "a side output")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._type})"
