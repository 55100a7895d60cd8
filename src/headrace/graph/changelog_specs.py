"""Specs of operators over changelogs: rows of keys that come, change and go."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from headrace.common.typeinfo import RowTypeInfo, TypeInformation, Types
from headrace.common.typeinfo.types import type_of_logical
from headrace.expressions import Bound
from headrace.graph.specs import InputKind, InputSchema, OperatorParameters, OperatorSpec
from headrace.operators.aggregates.calls import AggregateOperation
from headrace.operators.base import Operator
from headrace.operators.changelog.order import SortField
from headrace.operators.changelog.over.frames import OverFrame
from headrace.operators.changelog.rank import (
    AppendRankOperator,
    ChangingRankOperator,
    Ranking,
    RankRange,
    RankStrategy,
)
from headrace.state.keys import KeyCodec
from headrace.state.protocols import KEYED, StateKinds

_KEYED_INPUT: tuple[InputKind, ...] = (InputKind.KEYED,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogSpec(OperatorSpec):
    """The root of operators that remember rows of keys.

    Attributes:
        ttl: for how many milliseconds of processing time rows are remembered; 0 for ever.
    """

    inputs: ClassVar[tuple[InputKind, ...]] = _KEYED_INPUT
    state_kinds: ClassVar[StateKinds] = KEYED
    ttl: int = 0

    def output_type(self, inputs: Sequence[InputSchema]) -> TypeInformation | None:
        return inputs[0].record_type

    def kept_records(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        return {"": inputs[0].record_type}

    def has_changes(self, inputs: Sequence[InputSchema]) -> bool:
        return True


def codec_of(schema: InputSchema) -> KeyCodec:
    """The codec for the keys of a keyed input."""
    assert schema.key is not None, "the graph takes keyed records only"
    return schema.key.codec


@dataclass(frozen=True, slots=True)
class ExpandSpec(OperatorSpec):
    """Several rows for each record, as grouping sets want them, with the number of each behind.

    Attributes:
        projections: of each row which columns it has, None for one that is null; all have the same number of columns.
        numbers: what the last column says of each row.
        names: the names of the columns.
    """

    kind: ClassVar[str] = "Expand"
    ignores_event_time: ClassVar[bool] = True
    projections: tuple[tuple[int | None, ...], ...]
    numbers: tuple[int, ...]
    names: tuple[str, ...]

    def output_type(self, inputs: Sequence[InputSchema]) -> TypeInformation | None:
        given = inputs[0].record_type.field_types
        columns = (
            next(index for index in column if index is not None) for column in zip(*self.projections, strict=True)
        )
        return RowTypeInfo((*(given[index] for index in columns), Types.LONG()), self.names)

    def has_changes(self, inputs: Sequence[InputSchema]) -> bool:
        return inputs[0].has_changes

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.changelog.expand import ExpandOperator

        output = self.output_type(parameters.inputs)
        assert output is not None
        return ExpandOperator(self.projections, self.numbers, output)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogNormalizeSpec(ChangelogSpec):
    """Upserts by key as a changelog in which each update follows what it changes.

    Attributes:
        update_before: whether an update takes the former row back as well.
        condition: which rows are kept; one that no longer holds it is deleted. None for all.
    """

    kind: ClassVar[str] = "ChangelogNormalize"
    update_before: bool = True
    condition: Bound | None = None

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.changelog.last_row import LastRowOperator

        schema = parameters.inputs[0]
        return LastRowOperator(
            schema.record_type,
            codec_of(schema),
            update_before=self.update_before,
            condition=self.condition,
            ttl=self.ttl,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertMaterializeSpec(ChangelogSpec):
    """Materializes the changelog of a table whose key is not that of the rows: emits the latest row of each key.

    Attributes:
        unique_key: the positions of columns by which rows are told apart; all columns when there is no such key.
    """

    kind: ClassVar[str] = "UpsertMaterialize"
    unique_key: tuple[int, ...] = ()

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.changelog.materialize import UpsertMaterializeOperator

        schema = parameters.inputs[0]
        return UpsertMaterializeOperator(schema.record_type, codec_of(schema), unique_key=self.unique_key, ttl=self.ttl)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeduplicateSpec(ChangelogSpec):
    """The last row of each key, of rows that only come, as a changelog; or the first one.

    Attributes:
        keeps_last: whether the last row is kept.
        time_field: the position of the column of event times that rows are ordered by; None for the order of arrival.
        update_before: whether an update takes the former row back as well.
    """

    kind: ClassVar[str] = "Deduplicate"
    keeps_last: bool
    time_field: int | None = None
    update_before: bool = True

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "what was there before the row that is taken back is not remembered"

    def has_changes(self, inputs: Sequence[InputSchema]) -> bool:
        return self.keeps_last

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.changelog.event_time import EarliestRowOperator
        from headrace.operators.changelog.last_row import FirstRowOperator, LastRowOperator

        schema = parameters.inputs[0]
        type_, codec = schema.record_type, codec_of(schema)
        if self.keeps_last:
            return LastRowOperator(
                type_,
                codec,
                update_before=self.update_before,
                emits_equal=True,
                time_field=self.time_field,
                ttl=self.ttl,
            )
        if self.time_field is None:
            return FirstRowOperator(type_, codec, ttl=self.ttl)
        return EarliestRowOperator(type_, codec, time_field=self.time_field, ttl=self.ttl)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSpec(ChangelogSpec):
    """The first rows of each key in an order (Top-N), and ``LIMIT`` where nothing orders them.

    Attributes:
        order: what rows are ordered by; of rows that tie the one that came first is first.
        ranks: which ranks are emitted.
        strategy: what records do.
        unique_key: the positions of columns of which a new row takes the place of the one before, where records update.
        update_before: whether an update takes the former row back as well.
        rank_name: the name of the column of ranks.
    """

    kind: ClassVar[str] = "Rank"
    order: tuple[SortField, ...]
    ranks: RankRange
    strategy: RankStrategy
    unique_key: tuple[int, ...] = ()
    update_before: bool = True
    rank_name: str = "w0$o0"

    def output_type(self, inputs: Sequence[InputSchema]) -> TypeInformation | None:
        type_ = inputs[0].record_type
        if not self.ranks.shows_rank:
            return type_
        return RowTypeInfo((*type_.field_types, Types.LONG()), (*type_.field_names, self.rank_name))

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        appends = self.strategy is RankStrategy.APPEND
        return "rows that would move up when another one goes are not remembered" if appends else ""

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        schema = parameters.inputs[0]
        type_, codec = schema.record_type, codec_of(schema)
        output = self.output_type(parameters.inputs)
        assert output is not None
        unique_key = self.unique_key if self.strategy is RankStrategy.UPDATE else ()
        ranking = Ranking(self.order, self.ranks, self.update_before, unique_key)
        kind = AppendRankOperator if self.strategy is RankStrategy.APPEND else ChangingRankOperator
        return kind(type_, output, codec, ranking, ttl=self.ttl)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalSortSpec(ChangelogSpec):
    """Rows in the order of event time, once the watermark passes it; all of them have one key.

    Attributes:
        time_field: the position of the column of event times.
        order: what rows of one time are ordered by.
    """

    kind: ClassVar[str] = "TemporalSort"
    time_field: int
    order: tuple[SortField, ...] = ()

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "rows that have left in the order of time are not taken back"

    def has_changes(self, inputs: Sequence[InputSchema]) -> bool:
        return False

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.changelog.event_time import TemporalSortOperator

        schema = parameters.inputs[0]
        return TemporalSortOperator(schema.record_type, codec_of(schema), time_field=self.time_field, order=self.order)


@dataclass(frozen=True, slots=True, kw_only=True)
class SortSpec(ChangelogSpec):
    """All rows, or the first of them, in an order, once the input has ended; all of them have one key.

    Attributes:
        order: what rows are ordered by.
        offset: how many rows are left out before.
        limit: how many there are at most; None for all.
    """

    kind: ClassVar[str] = "Sort"
    order: tuple[SortField, ...]
    offset: int = 0
    limit: int | None = None

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "rows are ordered once, at the end of the input"

    def has_changes(self, inputs: Sequence[InputSchema]) -> bool:
        return False

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.changelog.event_time import SortOperator

        schema = parameters.inputs[0]
        return SortOperator(
            schema.record_type, codec_of(schema), order=self.order, offset=self.offset, limit=self.limit
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OverAggregateSpec(ChangelogSpec):
    """Functions over the rows around each row, in columns behind those of the record; all over one window.

    In streaming, rows are ordered by event time, or by arrival. In batch mode they are ordered by anything, and the
    frame may reach behind the row.

    Attributes:
        calls: the functions: aggregates, ``ROW_NUMBER`` and its like, ``LAG``, ``LEAD``.
        frame: the rows around each row; distances of a range of event time are in milliseconds.
        time_field: the position of the column of event times; None for the order of arrival.
        order: what rows are ordered by in batch mode, and where results change.
        changes: whether rows are ordered by anything, so that results change as rows come and go.
        update_before: whether an update takes the former row back as well.
    """

    kind: ClassVar[str] = "OverAggregate"
    calls: tuple[AggregateOperation, ...]
    frame: OverFrame
    time_field: int | None = None
    order: tuple[SortField, ...] = ()
    changes: bool = False
    update_before: bool = True

    def output_type(self, inputs: Sequence[InputSchema]) -> TypeInformation | None:
        type_ = inputs[0].record_type
        types = (*type_.field_types, *(type_of_logical(call.type) for call in self.calls))
        return RowTypeInfo(types, (*type_.field_names, *(call.name for call in self.calls)))

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "" if self.changes else "what came of a row before others is not computed again without it"

    def has_changes(self, inputs: Sequence[InputSchema]) -> bool:
        return self.changes

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.changelog.over.functions import OverFunctions
        from headrace.operators.changelog.over.operator import (
            BoundedOverOperator,
            EventTimeOverOperator,
            ProcessingTimeOverOperator,
        )

        schema = parameters.inputs[0]
        functions, codec = OverFunctions(self.calls, schema.record_type, self.frame), codec_of(schema)
        output = self.output_type(parameters.inputs)
        assert output is not None
        if parameters.task.is_batch:
            return BoundedOverOperator(functions, output, codec, order=self.order)
        if self.changes:
            from headrace.operators.changelog.over.changing import ChangingOverOperator

            return ChangingOverOperator(
                functions, output, codec, self.order, update_before=self.update_before, ttl=self.ttl
            )
        if self.time_field is None:
            return ProcessingTimeOverOperator(functions, output, codec, ttl=self.ttl)
        return EventTimeOverOperator(functions, output, codec, time_field=self.time_field, ttl=self.ttl)
