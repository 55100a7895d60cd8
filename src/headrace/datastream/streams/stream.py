"""The operators of an environment, handles that name and place them, and the root of all streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self

from headrace.common.constants import UPPER_BOUND_MAX_PARALLELISM
from headrace.common.errors import HeadraceError, InvalidProgramError, InvalidTypeError, expect, is_unicode, refused
from headrace.common.output_tag import OutputTag
from headrace.common.type_variables import T_co
from headrace.common.typeinfo import TypeInformation
from headrace.datastream.execution_config import ExecutionConfig
from headrace.datastream.streams.misuse import check_types_exist, check_uses_no_keyed_state
from headrace.datastream.streams.types import Role, TypeOrigin, is_untyped, never_fits, origin_of, result_type
from headrace.graph.specs import OperatorSpec
from headrace.graph.stream_graph import Edge, Node, StreamGraph
from headrace.state.evolution import RenamedFields

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient
    from headrace.datastream.stream_execution_environment import StreamExecutionEnvironment
    from headrace.datastream.streams.data_stream import DataStream
    from headrace.datastream.streams.source_stream import Caches


class WhenStarted(Protocol):
    """Is called when a job was started."""

    def __call__(self, client: JobClient, *, is_awaited: bool) -> None:
        """The job runs; the program may wait for its end before it does anything else."""


class Transformations:
    """The operators of all jobs of an environment, and which of them the next job is for.

    As in Flink, ``execute()`` takes what was built since the last one, together with all that comes before it. So a
    stream made for one job can go on in the next, which then reads its source again.

    Attributes:
        graph: every operator that was ever added.
        caches: what jobs have left of streams for later ones; None until a stream is cached.
    """

    def __init__(self) -> None:
        self.graph = StreamGraph()
        self.caches: Caches | None = None
        self._pending: set[int] = set()
        self._when_started: list[WhenStarted] = []
        self._starting: list[WhenStarted] = []

    def add(self, spec: OperatorSpec, name: str, inputs: tuple[Edge, ...]) -> Node:
        """Add an operator that is no source; one belongs to a job only when something reads from it."""
        node = self.graph.add(spec, name, inputs)
        self._pending.add(node.id)
        return node

    @property
    def pending(self) -> int:
        """Return how many operators were added since the last job; sources do not count."""
        return len(self._pending)

    def next_job(self) -> StreamGraph:
        """The graph of the next job.

        Raises:
            InvalidProgramError: when nothing was built since the last job.
        """
        if not self._pending:
            raise InvalidProgramError(
                "the job has no operators: nothing was built since the last execute(); end a stream in print() or "
                "sink_to(), then call execute()"
            )
        job = self.graph.subgraph(self._pending)
        return job if self.caches is None else self.caches.applied(job, self._pending)

    def when_started(self, call: WhenStarted) -> None:
        """Have the next job call something when it was started."""
        self._when_started.append(call)

    def take_next_job(self) -> StreamGraph:
        """Return the graph of :meth:`next_job`, and begin the one after it anew."""
        job, self._starting = self.next_job(), self._when_started
        self._when_started = []
        self._pending.clear()
        return job

    def started(self, client: JobClient, *, is_awaited: bool) -> None:
        """The job that was taken last runs.

        Args:
            client: the job.
            is_awaited: whether the program waits for its end.
        """
        if self.caches is not None:
            self.caches.filled_by(client)
        starting, self._starting = self._starting, []
        for call in starting:
            call(client, is_awaited=is_awaited)

    def discard(self) -> None:
        """Forget what the next job would have been."""
        self._pending.clear()
        self._when_started.clear()


class OperatorHandle:
    """Stands for an operator that was just added to the graph, so that it can be named and placed.

    Args:
        transformations: the operators of the environment.
    """

    def __init__(self, transformations: Transformations) -> None:
        self._transformations = transformations

    def name(self, name: str) -> Self:
        """Names the operator, for plans, logs and errors.

        Raises:
            InvalidProgramError: when this is not directly the output of an operator (but keyed, a union or a side
                output), or the name is empty.
        """
        self._update(name=checked_text("name", name))
        return self

    def uid(self, uid: str) -> Self:
        """Gives the operator an identity that lasts: its state is found by it when the program has changed.

        Raises:
            InvalidProgramError: as :meth:`name`; two operators with one uid are refused when the job is run.
        """
        self._update(uid=checked_text("uid", uid))
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Sets how many subtasks the operator has; ``ExecutionConfig.PARALLELISM_DEFAULT`` for as many as others.

        Raises:
            InvalidProgramError: as :meth:`name`, or when the number is not between 1 and 32768.
        """
        is_default = parallelism == ExecutionConfig.PARALLELISM_DEFAULT
        self._update(parallelism=None if is_default else _subtasks("parallelism", parallelism))
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Sets how many key groups the operator's state has: the highest parallelism it can be rescaled to.

        It is fixed by the first run; the environment's number holds for operators that have none of their own.

        Raises:
            InvalidProgramError: as :meth:`set_parallelism`.
        """
        self._update(max_parallelism=_subtasks("max_parallelism", max_parallelism))
        return self

    def force_non_parallel(self) -> Self:
        """Has the operator run in one subtask, whatever the job's parallelism.

        Raises:
            InvalidProgramError: as :meth:`name`.
        """
        return self.set_parallelism(1).set_max_parallelism(1)

    def set_description(self, description: str) -> Self:
        """Gives the operator a longer text, for plans.

        Raises:
            InvalidProgramError: as :meth:`name`.
        """
        self._update(description=checked_text("description", description))
        return self

    def set_renamed_fields(self, renamed: Mapping[str, str]) -> Self:
        """Says which fields of the records that the operator keeps have other names than in what is stored.

        That is what windows hold (elements, what ``reduce`` and an ``AggregateFunction`` have made of them, fields that
        built-in aggregates look at), what rolling aggregates have of each key, what joins keep, and what waits for
        event time. States of functions have :meth:`StateDescriptor.set_renamed_fields`. Once a job has gone on from
        what an earlier version had stored, this may stay in the program, or go. PyFlink has no such method.

        Args:
            renamed: new names by old ones. A field of an inner record is given by its path in the stored type, as in
                ``{"address.zip": "postcode"}``. Paths begin with ``left.`` and ``right.`` where two streams are joined,
                with ``first.`` and ``second.`` where connected ones wait for event time, and with ``result.`` for what
                windows have shown and may take back.

        Raises:
            InvalidProgramError: as :meth:`name`; and when the operator keeps no records, or those that it keeps have no
                field of a new name.

        Examples:
            >>> from headrace.common import Types
            >>> from headrace.datastream import StreamExecutionEnvironment
            >>> env = StreamExecutionEnvironment.get_execution_environment()
            >>> orders = env.from_collection([("tea", 3)], Types.ROW_NAMED(["item", "price"], [str, int]))
            >>> dearest = orders.key_by("item").max_by("price").uid("dearest").set_renamed_fields({"amount": "price"})
        """
        node, given = self._operator(), RenamedFields.given(renamed)
        kept = node.spec.kept_records(self._transformations.graph.input_schemas(node))
        if not kept:
            raise refused(
                f"operator {node.name!r} keeps no records by itself: call set_renamed_fields() on the descriptors of "
                "the states that its functions have"
            )
        unfit = given.unfit(kept)
        if unfit:
            raise refused(f"the fields that operator {node.name!r} keeps: {'; '.join(unfit)}")
        self._update(renamed_fields=given)
        return self

    def _repr_html_(self) -> str:
        """HTML for notebooks: the graph up to here."""
        from headrace.datastream.notebook import stream_html

        return stream_html(type(self).__name__, self._facts(), self._transformations.graph, self._operator_ids())

    def _facts(self) -> dict[str, object]:
        """The facts that notebooks show beside the graph, by name."""
        raise NotImplementedError

    def _operator_ids(self) -> set[int]:
        """The operators that it stands for, or that its records come from."""
        raise NotImplementedError

    def _operator(self) -> Node:
        """The operator that this handle stands for.

        Raises:
            InvalidProgramError: when it stands for none.
        """
        raise NotImplementedError

    def _update(self, **changes: object) -> None:
        self._transformations.graph.update(self._operator().id, **changes)


def not_an_operator(what: str) -> HeadraceError:
    """The error for settings of a stream that is not directly the output of an operator."""
    return refused(
        f"{what} is no operator, so it has no name, uid, parallelism and side outputs: set and get them on the stream "
        "that the operator itself gave"
    )


def checked_text(what: str, text: object) -> str:
    """A name, a uid or the like.

    Raises:
        InvalidProgramError: when it is no string, or an empty one, or no text.
    """
    if not isinstance(text, str) or not text:
        raise refused(f"the {what} of an operator is a string that is not empty, not {text!r}")
    if not is_unicode(text):
        raise refused(f"the {what} of an operator is text that UTF-8 can write, not {text!r}")
    return text


def _subtasks(what: str, number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= UPPER_BOUND_MAX_PARALLELISM:
        raise refused(f"{what} is a number from 1 to {UPPER_BOUND_MAX_PARALLELISM}, not {number!r}")
    return number


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

    def _apply(self, spec: OperatorSpec, name: str, *more: Stream, origin: TypeOrigin | None = None) -> DataStream:
        """The stream behind a new operator.

        Args:
            spec: what the operator does.
            name: its name.
            more: what its other inputs read; this stream is the first.
            origin: where the type of the results comes from; where that of this stream does, unless it is said.
        """
        if spec.functions:
            check_uses_no_keyed_state(spec)
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
        function: object,
        output_type: object,
        role: Role = Role.MANY,
    ) -> DataStream:
        """The stream of what a function makes of the records; ``kind`` makes a spec of it and of its results' type."""
        found = result_type(output_type, function, role)
        return self._apply(kind(function, found), name, origin=origin_of(output_type))

    def _without_keys(self) -> DataStream[T_co]:
        """This stream, before it was keyed."""
        raise NotImplementedError

    def _unkeyed_edges(self) -> tuple[Edge, ...]:
        """The edges that its records come by, without their keys."""
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


def side_stream(environment: StreamExecutionEnvironment, operator: OperatorHandle, output_tag: OutputTag) -> DataStream:
    """The stream of a side output of an operator, of the type that the tag says.

    Raises:
        InvalidProgramError: when the handle stands for no operator, or for one that never writes to it.
        InvalidTypeError: when the operator has it already with another type, or its records cannot be of that type.
    """
    expect(output_tag, OutputTag, "get_side_output")
    node = _with_side_output(operator, output_tag)
    edges = (Edge(node.id, side_output=output_tag.tag_id),)
    if is_untyped(output_tag.type_info):
        return environment._stream(edges, TypeOrigin.ANNOTATED)
    records = environment._stream(edges, TypeOrigin.DECLARED)
    if never_fits(records._type, output_tag.type_info):
        raise refused(
            f"the records of the side output {output_tag.tag_id!r} are of type {records._type}, and the tag says "
            f"{output_tag.type_info}: leave the type of the tag out",
            InvalidTypeError,
        )
    return records._converted(output_tag.type_info)


def _with_side_output(operator: OperatorHandle, tag: OutputTag) -> Node:
    """The operator, which has the side output of a tag from now on."""
    node = operator._operator()
    known = node.outputs.side_types.get(tag.tag_id)
    if known is None:
        if not node.spec.emits_to_tags:
            raise refused(
                f"{node.name!r} never writes to the side output {tag.tag_id!r}: side outputs come from process(), "
                "from windows with side_output_late_data(tag), interval joins with side_output_left_late_data(tag), "
                "enrich with misses=tag, expect(name, condition, tag), and sources and sinks that were given this tag "
                "for what they cannot read or write"
            )
        operator._transformations.graph.update(node.id, tags=(*node.tags, tag))
        return node
    is_of_dead_letters = (node.is_source or node.is_sink) and not is_untyped(tag.type_info)
    if known != tag.type_info and (tag in node.tags or is_of_dead_letters):
        hint = ": leave the type of the tag out" if is_of_dead_letters else ""
        text = f"side output {tag.tag_id!r} of {node.name!r} is of type {known}, but the tag says {tag.type_info}"
        raise refused(text + hint, InvalidTypeError)
    return node
