"""The spec of a pattern that is looked for in a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import TypeInformation
from headrace.graph.specs import FunctionSpec, InputKind, InputSchema, OperatorParameters, OutputSchema, output_of
from headrace.operators.base import Operator
from headrace.operators.functions import method_of
from headrace.operators.pattern.automaton import Automaton
from headrace.state.protocols import KEYED, StateKinds


@dataclass(frozen=True, slots=True)
class PatternSpec(FunctionSpec):
    """Looks for a pattern among the events of each key (Flink's ``CepOperator``).

    Attributes:
        automaton: the compiled pattern.
        comparator: orders events with one timestamp; None where they come as they have arrived.
        in_processing_time: whether the time of events is that of the clock.
        late_tag: the side output for late events; None drops and counts them.
        handles_timeout: whether the function is told of partial matches that have timed out.
    """

    kind: ClassVar[str] = "Pattern"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED,)
    state_kinds: ClassVar[StateKinds] = KEYED
    emits_to_tags: ClassVar[bool] = True
    automaton: Automaton = field(kw_only=True)
    comparator: Any = field(default=None, kw_only=True)
    in_processing_time: bool = field(default=False, kw_only=True)
    late_tag: OutputTag | None = field(default=None, kw_only=True)
    handles_timeout: bool = field(default=False, kw_only=True)

    @property
    def functions(self) -> Sequence[object]:
        conditions = self.automaton.functions()
        return (self.function, *(() if self.comparator is None else (self.comparator,)), *conditions)

    @property
    def ignores_event_time(self) -> bool:
        return self.in_processing_time

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        late = {} if self.late_tag is None else {self.late_tag.tag_id: inputs[0].record_type}
        return replace(output_of(self.result_type), side_types=late)

    def kept_records(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        return {"": inputs[0].record_type}

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "what has become part of a match is not taken out of it again"

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.pattern.match_results import PatternFunction
        from headrace.operators.pattern.pattern_operator import PatternOperator, PatternSettings

        function = PatternFunction(
            self.function,
            self.result_type,
            parameters.side_types,
            handles_timeout=self.handles_timeout,
            has_timestamps=not self.in_processing_time,
        )
        settings = PatternSettings(
            None if self.comparator is None else method_of(self.comparator, "compare"),
            None if self.late_tag is None else self.late_tag.tag_id,
            self.in_processing_time,
            parameters.task.is_batch,
        )
        return PatternOperator(
            self.automaton,
            function,
            self.functions,
            parameters.inputs[0].record_type,
            settings,
        )
