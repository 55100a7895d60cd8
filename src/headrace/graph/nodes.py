"""The logical job graph: immutable nodes joined by immutable edges.

A node is one operator that the user asked for. Unions, side outputs and partitioning are not nodes but properties of
edges, as in Flink's stream graph: they move records, they do not work on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.common.call_site import UNKNOWN_CALL_SITE, CallSite
from headrace.common.typeinfo.composite import declares_changes
from headrace.graph.partitioning import FORWARD
from headrace.graph.specs import SinkSpec
from headrace.state.renamed_fields import NOTHING_RENAMED

if TYPE_CHECKING:
    from headrace.common.output_tag import OutputTag
    from headrace.common.typeinfo import TypeInformation
    from headrace.graph.keys import KeySelection
    from headrace.graph.partitioning import Partitioning
    from headrace.graph.specs import OperatorSpec
    from headrace.state.renamed_fields import RenamedFields


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
class OutputSchema:
    """What is known of a node's outputs.

    Attributes:
        output_type: that of the main output; None for a sink.
        side_types: those of the side outputs, by tag id.
        has_changes: whether the main output is known to be more than insertions.
    """

    output_type: TypeInformation | None = None
    side_types: Mapping[str, TypeInformation] = field(default_factory=dict)
    has_changes: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of the job.

    Attributes:
        id: unique within the graph, in the order of creation.
        spec: what the operator does.
        name: shown to the user.
        inputs: where its records come from; empty for a source.
        tags: the side outputs that the program asked for beside those that the operator has by itself.
        uid: the stable identity that the user gave; None when there is none.
        parallelism: how many subtasks; None for the job's default.
        max_parallelism: how many key groups; None for the job's default.
        call_site: the line of the user's program that asked for it.
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
        """Whether the node has no inputs."""
        return not self.inputs

    @property
    def is_sink(self) -> bool:
        """Whether nothing follows the node."""
        return isinstance(self.spec, SinkSpec)

    @property
    def role(self) -> str:
        """What Flink's plan calls a ``pact``: ``Data Source``, ``Operator`` or ``Data Sink``."""
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
        """Whether one of the node's outputs is known to be more than insertions."""
        return self.outputs.has_changes if side_output is None else declares_changes(self.type_of(side_output))
