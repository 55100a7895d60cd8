"""The specs of patterns: those that are looked for in streams, and ``MATCH_RECOGNIZE``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import TypeInformation
from headrace.graph.changelog_specs import codec_of
from headrace.graph.specs import (
    FunctionSpec,
    InputKind,
    InputSchema,
    OperatorParameters,
    OperatorSpec,
    OutputSchema,
    PassingSpec,
    dead_letters,
    output_of,
)
from headrace.operators.base import Operator
from headrace.operators.changelog.order import SortField
from headrace.operators.functions import method_of
from headrace.state.protocols import KEYED, StateKind, StateKinds

if TYPE_CHECKING:
    from headrace.operators.pattern.automaton import Automaton
    from headrace.operators.pattern.match_values import MatchExpressions
    from headrace.operators.pattern.patterns_at_work import PatternsAtWork
    from headrace.operators.pattern.rules import RuleReader


@dataclass(frozen=True, slots=True)
class PatternFilterSpec(PassingSpec):
    """Leaves out events that matter for no match, before they are shuffled; put in by the planner.

    Attributes:
        automaton: the compiled pattern.
    """

    kind: ClassVar[str] = "PatternFilter"
    ignores_event_time: ClassVar[bool] = True
    automaton: Automaton

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.pattern.pattern_filter import PatternFilterOperator

        return PatternFilterOperator(self.automaton, parameters.inputs[0].record_type)


@dataclass(frozen=True, slots=True)
class PatternsSpec(FunctionSpec):
    """The root of those that look for patterns among the events of each key.

    Attributes:
        comparator: orders events with one timestamp; None where they come as they have arrived.
        late_tag: the side output for late events; None drops and counts them.
        handles_timeout: whether the function is called for partial matches that have timed out.
        in_processing_time: whether the time of events is that of the clock.
    """

    emits_to_tags: ClassVar[bool] = True
    comparator: Any = field(default=None, kw_only=True)
    late_tag: OutputTag | None = field(default=None, kw_only=True)
    handles_timeout: bool = field(default=False, kw_only=True)
    in_processing_time: bool = field(default=False, kw_only=True)

    @property
    def ignores_event_time(self) -> bool:
        return self.in_processing_time

    @property
    def functions(self) -> Sequence[object]:
        return (self.function, *(() if self.comparator is None else (self.comparator,)), *self._called_by_conditions)

    @property
    def _called_by_conditions(self) -> Sequence[object]:
        """The objects of the user that conditions call."""
        return ()

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        late = {} if self.late_tag is None else {self.late_tag.tag_id: inputs[0].record_type}
        return replace(output_of(self.result_type), side_types=late)

    def kept_records(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        return {"": inputs[0].record_type}

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "what has become part of a match is not taken out of it again"

    def _operator(
        self,
        patterns: PatternsAtWork,
        parameters: OperatorParameters,
        *,
        rejected: tuple[str, TypeInformation] | None = None,
    ) -> Operator:
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
            rejected,
            self.in_processing_time,
            parameters.task.is_batch,
        )
        return PatternOperator(patterns, function, self.functions, parameters.inputs[0].record_type, settings)


@dataclass(frozen=True, slots=True)
class PatternSpec(PatternsSpec):
    """Looks for a pattern among the events of each key (Flink's ``CepOperator``).

    Attributes:
        automaton: the compiled pattern.
    """

    kind: ClassVar[str] = "Pattern"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED,)
    state_kinds: ClassVar[StateKinds] = KEYED
    automaton: Automaton = field(kw_only=True)

    @property
    def _called_by_conditions(self) -> Sequence[object]:
        return self.automaton.functions()

    @property
    def can_be_filtered(self) -> bool:
        """Return whether events that matter for no match can be left out; not where late ones are wanted."""
        from headrace.operators.pattern.pattern_filter import can_be_filtered

        return not self.handles_timeout and self.late_tag is None and can_be_filtered(self.automaton)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.pattern.patterns_at_work import FixedPattern

        patterns = FixedPattern(self.automaton, parameters.inputs[0].record_type)
        return self._operator(patterns, parameters)


@dataclass(frozen=True, slots=True)
class DynamicPatternSpec(PatternsSpec):
    """Looks for the patterns of rules, which a second stream adds, changes and withdraws.

    Attributes:
        reader: reads rules.
        rejected_tag: the side output for records that are no rules; None counts them.
    """

    kind: ClassVar[str] = "DynamicPattern"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED, InputKind.ANY)
    state_kinds: ClassVar[StateKinds] = KEYED | {StateKind.BROADCAST}
    requires_aligned_watermark: ClassVar[bool] = True
    reader: RuleReader = field(kw_only=True)
    rejected_tag: OutputTag | None = field(default=None, kw_only=True)

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        found = PatternsSpec.outputs(self, inputs)
        return replace(found, side_types={**found.side_types, **dead_letters(self.rejected_tag)})

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.pattern.patterns_at_work import ChangingPatterns

        events, rules = parameters.input_types
        rejected = next(iter(dead_letters(self.rejected_tag).items()), None)
        return self._operator(ChangingPatterns(self.reader, rules, events), parameters, rejected=rejected)


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
        from headrace.operators.pattern.match_results import MatchColumns
        from headrace.operators.pattern.pattern_operator import PatternOperator, PatternSettings
        from headrace.operators.pattern.patterns_at_work import FixedPattern

        type_, is_batch = parameters.inputs[0].record_type, parameters.task.is_batch
        in_processing_time = self.time_field is None
        columns = MatchColumns(
            self.expressions, self.variables, type_, self.result_type, has_timestamps=not in_processing_time
        )
        settings = PatternSettings(
            in_processing_time=in_processing_time, is_batch=is_batch, time_field=self.time_field, order=self.order
        )
        # The order of keys is that of Flink where the matches are.
        follows_timers = self.automaton.preference is None and not in_processing_time and not is_batch
        codec = codec_of(parameters.inputs[0]) if follows_timers else None
        return PatternOperator(FixedPattern(self.automaton, type_), columns, (), type_, settings, codec)
