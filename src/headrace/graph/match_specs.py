"""The spec of ``MATCH_RECOGNIZE``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from headrace.common.typeinfo import TypeInformation
from headrace.graph.changelog_specs import codec_of
from headrace.graph.specs import InputKind, InputSchema, OperatorParameters, OperatorSpec, OutputSchema, output_of
from headrace.operators.base import Operator
from headrace.operators.changelog.order import SortField
from headrace.operators.pattern.automaton import Automaton
from headrace.operators.pattern.matched_rows import MatchExpressions
from headrace.state.protocols import KEYED, StateKinds


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchSpec(OperatorSpec):
    """Looks for a pattern among the rows of each key, and emits a row for each match, or for each of its rows.

    Attributes:
        automaton: the compiled pattern.
        expressions: the columns of the emitted rows.
        variables: the variables of the pattern, by number.
        result_type: the type of the emitted rows.
        time_field: the position of the column of event times; None where the time is that of the clock.
        order: the sort fields of rows with equal times.
    """

    kind: ClassVar[str] = "Match"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED,)
    state_kinds: ClassVar[StateKinds] = KEYED
    automaton: Automaton
    expressions: MatchExpressions
    variables: tuple[str, ...]
    result_type: TypeInformation
    time_field: int | None
    order: tuple[SortField, ...] = ()

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return output_of(self.result_type)

    def kept_records(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        return {"": inputs[0].record_type}

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "what has become part of a match is not taken out of it again"

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.pattern.match_columns import MatchColumns
        from headrace.operators.pattern.preferred_pattern_operator import PreferredPatternOperator
        from headrace.operators.pattern.row_pattern_operator import RowPatternOperator

        operator = RowPatternOperator if self.automaton.preference is None else PreferredPatternOperator
        type_, has_timestamps = parameters.inputs[0].record_type, self.time_field is not None
        return operator(
            self.automaton,
            MatchColumns(self.expressions, self.variables, type_, self.result_type, has_timestamps=has_timestamps),
            type_,
            self.time_field,
            self.order,
            is_batch=parameters.task.is_batch,
            codec=codec_of(parameters.inputs[0]),
        )
