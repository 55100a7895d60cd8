"""The logical graph: what the program describes, and what the planner works on."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from headrace.common.call_site import UNKNOWN_CALL_SITE, CallSite, caller
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import TypeInformation
from headrace.common.typeinfo.composite import declares_changes
from headrace.graph.partitioning import FORWARD, KeySelection, Partitioning
from headrace.graph.specs import CHANGES, InputKind, InputSchema, OperatorSpec, OutputSchema
from headrace.operators.checkpointed import check_checkpointed
from headrace.state.evolution import NOTHING_RENAMED, RenamedFields


@dataclass(frozen=True, slots=True)
class Edge:
    """Records of one node on their way to another.

    Attributes:
        source: id of the node that makes the records.
        partitioning: how they are spread over the consumer's subtasks.
        key: how they are keyed; None when they are not.
        side_output: id of the side output they come from; None for the main output.
        input_index: which of the consumer's inputs they belong to; several edges with one index are a union.
    """

    source: int
    partitioning: Partitioning = FORWARD
    side_output: str | None = None
    input_index: int = 0
    key: KeySelection | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of the job.

    Attributes:
        id: unique within the graph, in the order of creation.
        spec: what the operator does.
        name: shown to the user.
        inputs: where its records come from; empty for a source.
        tags: the side outputs that the program reads beside those that the operator has by itself.
        uid: the stable identity that the user gave; None when there is none.
        parallelism: how many subtasks; None for the job's default.
        max_parallelism: how many key groups; None for the job's default.
        call_site: the line of the user's program that added it.
        description: a longer text for the user.
        renamed_fields: which fields of the records that it keeps have other names than in what is stored.
        keeps_windows_open: whether its windows are filled for another job, in which they fire.
        outputs: what the spec makes of the inputs; the graph that takes the node finds it out, anew each time.
    """

    id: int
    spec: OperatorSpec
    name: str
    inputs: tuple[Edge, ...] = ()
    tags: tuple[OutputTag, ...] = ()
    uid: str | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    call_site: CallSite = UNKNOWN_CALL_SITE
    description: str | None = None
    renamed_fields: RenamedFields = field(default=NOTHING_RENAMED, compare=False)
    keeps_windows_open: bool = False
    outputs: OutputSchema = field(default=OutputSchema(), compare=False)

    @property
    def is_source(self) -> bool:
        """Return whether the node has no inputs."""
        return not self.inputs

    @property
    def is_sink(self) -> bool:
        """Return whether nothing follows the node."""
        return self.spec.is_sink

    @property
    def role(self) -> str:
        """Return what Flink's plan calls a ``pact``: ``Data Source``, ``Operator`` or ``Data Sink``."""
        if self.is_source:
            return "Data Source"
        return "Data Sink" if self.is_sink else "Operator"

    def type_of(self, side_output: str | None) -> TypeInformation:
        """The type of one of the node's outputs."""
        if side_output is not None:
            return self.outputs.side_types[side_output]
        assert self.outputs.output_type is not None, f"{self.name} is a sink and has no output"
        return self.outputs.output_type

    def has_changes(self, side_output: str | None) -> bool:
        """Return whether one of the node's outputs is known to be more than insertions."""
        return self.outputs.has_changes if side_output is None else declares_changes(self.type_of(side_output))


Rule = Callable[[Node, "StreamGraph"], "Iterable[Node]"]
"""Makes nodes of a node: itself, changed or not, and others before or behind it, producers first.

It also gets the graph made so far, in which all that the node reads from is as the rule has left it, and which has ids
for new nodes. Those that read from the node go on reading from the one that keeps its id.
"""


class StreamGraph:
    """Nodes by id, in the order in which they were added; a node's inputs always come before it.

    Whatever changes nodes is done by :meth:`transform`, node by node, producers first.
    """

    def __init__(self) -> None:
        self._nodes: dict[int, Node] = {}
        self._next_id = 0

    def add(self, spec: OperatorSpec, name: str, inputs: tuple[Edge, ...] = (), parallelism: int | None = None) -> Node:
        """Add an operator, and remember the line of the user's program that called for it.

        Raises:
            InvalidTypeError: when the operator has no use for records of the types that reach it.
            InvalidProgramError: when its inputs are not what its spec wants, or a function only seems to have state.
        """
        check_checkpointed(spec.functions)
        call_site = caller()
        node = Node(self.new_id(), spec, name, inputs, parallelism=parallelism, call_site=call_site)
        try:
            return self._take(node)
        except (InvalidTypeError, InvalidProgramError) as error:
            raise type(error)(f"{error}\n  at {call_site}") from None

    def new_id(self) -> int:
        """An id for a new node."""
        self._next_id += 1
        return self._next_id - 1

    def update(self, node_id: int, **changes: Any) -> Node:
        """Replace attributes of a node (its name, its uid, its tags, …) that leave its main output as it is."""
        node = self._nodes[node_id] = replace(self._nodes[node_id], **changes)
        return self._take(node) if "tags" in changes else node

    def __getitem__(self, node_id: int) -> Node:
        return self._nodes[node_id]

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)

    def record_type(self, edge: Edge) -> TypeInformation:
        """The type of the records on an edge, as the node declares it that makes them."""
        return self._nodes[edge.source].type_of(edge.side_output)

    def input_schemas(self, node: Node) -> tuple[InputSchema, ...]:
        """Return what reaches each input of a node.

        Raises:
            InvalidProgramError: when that is not what its spec wants.
        """
        found: dict[int, InputSchema] = {}
        for edge in node.inputs:
            producer = self._nodes[edge.source]
            has_changes = producer.has_changes(edge.side_output)
            if edge.input_index not in found:  # of a union the first edge says what its records are
                found[edge.input_index] = InputSchema(producer.type_of(edge.side_output), edge.key, has_changes)
            elif has_changes:
                found[edge.input_index] = replace(found[edge.input_index], has_changes=True)
        wanted = node.spec.inputs
        if found.keys() != set(range(len(wanted))):
            numbers = ", ".join(map(str, sorted(found))) or "none"
            raise InvalidProgramError(
                f"operator {node.name!r} has {len(wanted)} inputs, but records for these (from 0): {numbers}"
            )
        schemas = tuple(map(found.__getitem__, range(len(wanted))))
        _check_keys(node, schemas)
        return schemas

    def transform(self, rule: Rule) -> "StreamGraph":
        """The graph in which each node is replaced by what a rule makes of it.

        Types are found anew where something has changed that they follow from, and behind it.
        """
        made = StreamGraph()
        made._next_id = max(self._nodes, default=-1) + 1
        for node in self:
            for replacement in rule(node, made):
                if self._has_same_types(node, replacement, made):
                    made._nodes[replacement.id] = replacement
                else:
                    made._take(replacement)
        return made

    def _has_same_types(self, node: Node, replacement: Node, made: "StreamGraph") -> bool:
        """Return whether the types of a node's outputs hold for its replacement: they come from the same objects."""
        if replacement.outputs is not node.outputs or replacement.spec is not node.spec:
            return False
        if replacement.tags is not node.tags or len(replacement.inputs) != len(node.inputs):
            return False
        return all(
            old.input_index == new.input_index
            and old.key is new.key
            and old.side_output == new.side_output
            and self._nodes[old.source].outputs is made._nodes[new.source].outputs
            for old, new in zip(node.inputs, replacement.inputs, strict=True)
        )

    def subgraph(self, node_ids: Iterable[int]) -> "StreamGraph":
        """The part of the graph that some nodes need: themselves and all that comes before them."""
        found, needed = StreamGraph(), self.needed_by(node_ids)
        found._nodes = {node.id: node for node in self if node.id in needed}
        found._next_id = self._next_id
        return found

    def needed_by(self, node_ids: Iterable[int]) -> set[int]:
        """The ids of some nodes and of all that comes before them."""
        needed: set[int] = set()
        stack = list(node_ids)
        while stack:
            node_id = stack.pop()
            if node_id not in needed:
                needed.add(node_id)
                stack.extend(map(attrgetter("source"), self._nodes[node_id].inputs))
        return needed

    def _take(self, node: Node) -> Node:
        """Keep a node, with the types of its outputs, which follow from its spec and its inputs.

        Outputs that are what they were stay the same object, so that those that read them need not be looked at.
        """
        inputs = self.input_schemas(node)
        spec = node.spec.resolved(inputs)
        if any(map(attrgetter("has_changes"), inputs)) and (why := spec.why_insertions_only(inputs)):
            raise InvalidProgramError(
                f"operator {node.name!r} takes insertions alone ({why}), but its records may be {CHANGES}"
            )
        outputs = spec.outputs(inputs)
        if node.tags:
            by_tags = {tag.tag_id: tag.type_info for tag in node.tags}
            outputs = replace(outputs, side_types={**outputs.side_types, **by_tags})
        made = replace(node, spec=spec, outputs=node.outputs if outputs == node.outputs else outputs)
        self._nodes[node.id] = made
        return made


def _check_keys(node: Node, inputs: Sequence[InputSchema]) -> None:
    """Refuse inputs without keys where keys are wanted, and keys of different types: state belongs to the key."""
    first: TypeInformation | None = None
    for number, kind in enumerate(node.spec.inputs):
        if kind is not InputKind.KEYED:
            continue
        key = inputs[number].key
        if key is None:
            raise InvalidProgramError(
                f"input {number} of operator {node.name!r} takes keyed records: call key_by(...) first"
            )
        first = first or key.codec.type
        if key.codec.type != first:
            raise InvalidProgramError(
                f"the inputs of operator {node.name!r} have keys of different types, {first} and {key.codec.type}: "
                "give key_by(...) the same key_type, since state belongs to the key"
            )
