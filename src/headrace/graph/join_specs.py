"""What operators that join two streams do, as data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from headrace.common.errors import InvalidTypeError
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import TypeInformation
from headrace.expressions import Bound
from headrace.graph.specs import FunctionSpec, InputKind, InputSchema, OperatorParameters
from headrace.graph.window_specs import RowWindowSpec
from headrace.operators.base import Operator
from headrace.operators.join.find_pairs import SIDES, JoinInterval
from headrace.operators.join.results import INNER, Outer, tagged_type
from headrace.state.protocols import KEYED, StateKinds
from headrace.state.renamed_fields import RenamedFields

_SIDES_OF_TAGGED: Final = {"f1": SIDES[0], "f2": SIDES[1]}
"""The sides, by the fields that their records are in where windows hold those of both."""


@dataclass(frozen=True, slots=True)
class IntervalJoinSpec(FunctionSpec):
    """Pairs of records of two inputs with the same key whose times lie within an interval.

    Attributes:
        interval: which times match.
        late_tags: of each input the side output for records that come too late; None drops and counts them.
        columns: expressions over the pairs, where there is no function.
        outer: of which inputs records without a partner are shown as well.
    """

    kind: ClassVar[str] = "IntervalJoin"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED, InputKind.KEYED)
    state_kinds: ClassVar[StateKinds] = KEYED
    interval: JoinInterval
    late_tags: tuple[OutputTag | None, OutputTag | None]
    columns: tuple[Bound, ...] = ()
    outer: Outer = INNER

    @property
    def late_tag_ids(self) -> tuple[str | None, ...]:
        """The ids of these side outputs."""
        return tuple(None if tag is None else tag.tag_id for tag in self.late_tags)

    @property
    def emits_to_tags(self) -> bool:
        return self.function is not None

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "pairs that it has given are not taken back"

    def kept_records(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        return of_sides(inputs)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.join.interval_join import IntervalJoinOperator
        from headrace.operators.join.results import ColumnResults, FunctionResults, JoinResults

        types, tags = parameters.input_types, self.late_tag_ids
        results: JoinResults = (
            ColumnResults(self.columns, types, self.result_type)
            if self.function is None
            else FunctionResults(self.function, types, self.result_type, parameters.side_types)
        )
        return IntervalJoinOperator(self.interval, types, tags, results, self.outer)

    def side_types(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        types: dict[str, TypeInformation] = {}
        for tag_id, schema in zip(self.late_tag_ids, inputs, strict=True):
            if tag_id is None:
                continue
            if types.setdefault(tag_id, schema.record_type) != schema.record_type:
                raise InvalidTypeError(
                    f"the late records of both streams go to the side output {tag_id!r}, but they are of types "
                    f"{types[tag_id]} and {schema.record_type}: give each stream a tag of its own"
                )
        return types


@dataclass(frozen=True, slots=True)
class CoGroupSpec(RowWindowSpec):
    """Functions of the user over windows that hold the records of two inputs, each with a tag that says of which.

    Attributes:
        columns: expressions over the pairs of each window, where there is no function; only if :attr:`ends_at_once`.
        outer: of which inputs records without a partner are shown then as well.
    """

    kind: ClassVar[str] = "CoGroup"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED, InputKind.KEYED)
    columns: tuple[Bound, ...] = ()
    outer: Outer = INNER

    @property
    def ends_at_once(self) -> bool:
        """Return whether a window is shown once, for all keys together, and is gone then."""
        return self.definition.fixed_windows is not None and not self.definition.allowed_lateness

    def element_type(self, inputs: Sequence[InputSchema]) -> TypeInformation:
        left, right = inputs
        return tagged_type(left.record_type, right.record_type)

    def held_records(self, inputs: Sequence[InputSchema]) -> dict[str, TypeInformation]:
        return of_sides(inputs)

    def renamed_in_state(self, renamed: RenamedFields) -> RenamedFields:
        return renamed.of_parts(_SIDES_OF_TAGGED)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.join.results import ColumnResults
        from headrace.operators.join.window_join import CoGroupOperator, ColumnarWindowJoin, OrderedCoGroupOperator

        element_type = self.element_type(parameters.inputs)
        if not self.columns:
            kind = CoGroupOperator if self.definition.fixed_windows is None else OrderedCoGroupOperator
            return kind(
                self.definition,
                self.user_functions,
                element_type,
                self.result_type,
                parameters.side_types,
                is_batch=parameters.task.is_batch,
            )
        results = ColumnResults(self.columns, parameters.input_types, self.result_type)
        return ColumnarWindowJoin(self.definition, element_type, self.result_type, self.outer, results)


def of_sides(inputs: Sequence[InputSchema]) -> dict[str, TypeInformation]:
    """The types of the records of both sides."""
    return {side: schema.record_type for side, schema in zip(SIDES, inputs, strict=True)}
