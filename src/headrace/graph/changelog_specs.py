"""Specs of operators over changelogs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.common.typeinfo import RowTypeInfo, TypeInformation, Types
from headrace.common.typeinfo.types import type_of_logical
from headrace.expressions import Bound
from headrace.graph.specs import InputKind, InputSchema, OperatorParameters, OperatorSpec, OutputSchema
from headrace.operators.base import Operator
from headrace.operators.changelog.order import RankRange, RankStrategy, SortField
from headrace.state.keys import KeyCodec
from headrace.state.protocols import KEYED, StateKinds

if TYPE_CHECKING:
    from headrace.operators.aggregates.calls import AggregateOperation
    from headrace.operators.changelog.over.functions import OverFrame

_KEYED_INPUT: tuple[InputKind, ...] = (InputKind.KEYED,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogSpec(OperatorSpec):
    """The base of specs whose operators keep rows of keys in state.

    Attributes:
        ttl: the time to live of state in milliseconds of processing time; 0 for ever.
    """

    inputs: ClassVar[tuple[InputKind, ...]] = _KEYED_INPUT
    state_kinds: ClassVar[StateKinds] = KEYED
    ttl: int = 0

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return OutputSchema(inputs[0].record_type, has_changes=True)

    def kept_records(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        return {"": inputs[0].record_type}


def codec_of(schema: InputSchema) -> KeyCodec:
    """The codec of a keyed input's keys."""
    assert schema.key is not None, "the graph takes keyed records only"
    return schema.key.codec


@dataclass(frozen=True, slots=True)
class ExpandSpec(OperatorSpec):
    """Several rows for each record, as grouping sets need them, with the number of the grouping set appended.

    Attributes:
        projections: the columns of each row, None for a column that is null; all have the same number of columns.
        numbers: the value of the last column in each row.
        names: the names of the columns.
    """

    kind: ClassVar[str] = "Expand"
    ignores_event_time: ClassVar[bool] = True
    projections: tuple[tuple[int | None, ...], ...]
    numbers: tuple[int, ...]
    names: tuple[str, ...]

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        given = inputs[0].record_type.field_types
        columns = (
            next(index for index in column if index is not None) for column in zip(*self.projections, strict=True)
        )
        type_ = RowTypeInfo((*(given[index] for index in columns), Types.LONG()), self.names)
        return OutputSchema(type_, has_changes=inputs[0].has_changes)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.unnest import ExpandOperator

        return ExpandOperator(self.projections, self.numbers, parameters.output_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogNormalizeSpec(ChangelogSpec):
    """Turns upserts by key into a changelog with the row before each update.

    Attributes:
        update_before: whether updates include ``UPDATE_BEFORE`` rows.
        condition: the condition on rows to keep; a row that no longer meets it is deleted. None for all.
        mini_batch: the maximum number of records of which only the last one of each key counts, and the positions of
            the columns of the key; None where each record counts.
    """

    kind: ClassVar[str] = "ChangelogNormalize"
    update_before: bool = True
    condition: Bound | None = None
    mini_batch: tuple[int, tuple[int, ...]] | None = None

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.changelog.last_row import LastRowOperator

        schema = parameters.inputs[0]
        operator = LastRowOperator(
            schema.record_type,
            codec_of(schema),
            update_before=self.update_before,
            condition=self.condition,
            ttl=self.ttl,
        )
        operator.mini_batch = self.mini_batch
        return operator


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupMaterializeSpec(ChangelogSpec):
    """Keeps what a lookup join found of each row, so that a retraction takes back the same.

    Attributes:
        output_type: the type of the joined rows, without the number of each that the input has at its end.
        width: the number of columns that are not looked up, which come first.
        keeps_empty: whether a row of which nothing was found is emitted (a left join).
    """

    kind: ClassVar[str] = "LookupMaterialize"
    output_type: TypeInformation
    width: int
    keeps_empty: bool

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return OutputSchema(self.output_type, has_changes=True)

    def kept_records(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        given = inputs[0].record_type
        return {"": RowTypeInfo(given.field_types[self.width :], given.field_names[self.width :])}

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.lookup.lookup_joins import LookupMaterializeOperator

        schema = parameters.inputs[0]
        return LookupMaterializeOperator(
            schema.record_type,
            self.output_type,
            codec_of(schema),
            width=self.width,
            keeps_empty=self.keeps_empty,
            ttl=self.ttl,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertMaterializeSpec(ChangelogSpec):
    """Materializes the changelog of a table whose key is not that of the rows: emits the latest row of each key.

    Attributes:
        unique_key: the positions of the columns that identify a row; all columns when there is no such key.
        key_fields: the positions of the columns of the key.
        conflict: the action for several rows of a key: ``DEDUPLICATE`` emits the latest one, ``NOTHING`` the first
            one that is left at a watermark, ``ERROR`` fails if more than one is left then.
    """

    kind: ClassVar[str] = "UpsertMaterialize"
    unique_key: tuple[int, ...] = ()
    key_fields: tuple[int, ...] = ()
    conflict: str = "DEDUPLICATE"

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.changelog.materialize import UpsertMaterializeOperator, WatermarkCompactingOperator

        schema = parameters.inputs[0]
        if self.conflict != "DEDUPLICATE":
            return WatermarkCompactingOperator(
                schema.record_type,
                codec_of(schema),
                key_fields=self.key_fields,
                unique_key=self.unique_key,
                fails=self.conflict == "ERROR",
                ttl=self.ttl,
            )
        return UpsertMaterializeOperator(schema.record_type, codec_of(schema), unique_key=self.unique_key, ttl=self.ttl)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeduplicateSpec(ChangelogSpec):
    """The first or the last row of each key of append-only input; the last row is a changelog.

    Of rows that are equal, the later one by arrival is no update, as in Flink.

    Attributes:
        keeps_last: whether the last row is kept.
        time_field: the position of the event time column that orders rows; None for the order of arrival.
        update_before: whether updates include ``UPDATE_BEFORE`` rows.
        mini_batch: the maximum number of records of which one of each key counts, and the positions of the columns of
            the key; None where each record counts.
    """

    kind: ClassVar[str] = "Deduplicate"
    keeps_last: bool
    time_field: int | None = None
    update_before: bool = True
    mini_batch: tuple[int, tuple[int, ...]] | None = None

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "what was there before the row that is taken back is not remembered"

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return OutputSchema(inputs[0].record_type, has_changes=self.keeps_last)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.changelog.event_time import EarliestRowOperator
        from headrace.operators.changelog.last_row import FirstRowOperator, LastRowOperator

        schema = parameters.inputs[0]
        type_, codec = schema.record_type, codec_of(schema)
        if self.keeps_last:
            last = LastRowOperator(
                type_,
                codec,
                update_before=self.update_before,
                emits_equal=self.time_field is not None,
                time_field=self.time_field,
                ttl=self.ttl,
            )
            last.mini_batch = self.mini_batch
            return last
        if self.time_field is None:
            first = FirstRowOperator(type_, codec, ttl=self.ttl)
            first.mini_batch = self.mini_batch
            return first
        return EarliestRowOperator(type_, codec, time_field=self.time_field, ttl=self.ttl)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSpec(ChangelogSpec):
    """The first rows of each key in an order (Top-N), or without an order (``LIMIT``).

    Attributes:
        order: the sort fields; rows with equal values stay in the order of arrival.
        ranks: the ranks to emit.
        strategy: the way to rank, by the changes of the input.
        unique_key: the positions of the key columns by which a new row replaces the one before, where records update.
        update_before: whether updates include ``UPDATE_BEFORE`` rows.
        rank_name: the name of the column of ranks.
    """

    kind: ClassVar[str] = "Rank"
    order: tuple[SortField, ...]
    ranks: RankRange
    strategy: RankStrategy
    unique_key: tuple[int, ...] = ()
    update_before: bool = True
    rank_name: str = "w0$o0"

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        type_ = inputs[0].record_type
        if self.ranks.shows_rank:
            type_ = RowTypeInfo((*type_.field_types, Types.LONG()), (*type_.field_names, self.rank_name))
        is_first_come = not self.order and self.strategy is RankStrategy.APPEND  # no later row takes a place
        return OutputSchema(type_, has_changes=not is_first_come)

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        appends = self.strategy is RankStrategy.APPEND
        return "rows that would move up when another one goes are not remembered" if appends else ""

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.changelog.rank import (
            AppendRankOperator,
            Ranking,
            RetractRankOperator,
            UpdateRankOperator,
        )

        kinds: dict[RankStrategy, Callable[..., Operator]] = {
            RankStrategy.APPEND: AppendRankOperator,
            RankStrategy.UPDATE: UpdateRankOperator,
            RankStrategy.RETRACT: RetractRankOperator,
        }
        schema = parameters.inputs[0]
        unique_key = self.unique_key if self.strategy is RankStrategy.UPDATE else ()
        ranking = Ranking(self.order, self.ranks, self.update_before, unique_key)
        kind = kinds[self.strategy]
        return kind(schema.record_type, parameters.output_type, codec_of(schema), ranking, ttl=self.ttl)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalSortSpec(ChangelogSpec):
    """Rows in the order of event time, emitted as the watermark passes them; all have one key.

    Attributes:
        time_field: the position of the column of event times.
        order: the sort fields of rows with equal times.
    """

    kind: ClassVar[str] = "TemporalSort"
    time_field: int
    order: tuple[SortField, ...] = ()

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "rows that have left in the order of time are not taken back"

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return OutputSchema(inputs[0].record_type)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.changelog.event_time import TemporalSortOperator

        schema = parameters.inputs[0]
        return TemporalSortOperator(schema.record_type, codec_of(schema), time_field=self.time_field, order=self.order)


@dataclass(frozen=True, slots=True, kw_only=True)
class SortSpec(ChangelogSpec):
    """All rows, or the first of them, in an order, emitted at the end of the input; all have one key.

    Attributes:
        order: the sort fields.
        offset: the number of rows to skip.
        limit: the maximum number of rows; None for all.
    """

    kind: ClassVar[str] = "Sort"
    order: tuple[SortField, ...]
    offset: int = 0
    limit: int | None = None

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "rows are ordered once, at the end of the input"

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return OutputSchema(inputs[0].record_type)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.changelog.event_time import SortOperator

        schema = parameters.inputs[0]
        return SortOperator(
            schema.record_type, codec_of(schema), order=self.order, offset=self.offset, limit=self.limit
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OverAggregateSpec(ChangelogSpec):
    """Functions over one window of rows (``OVER``), in columns appended to those of the record.

    In streaming, rows are ordered by event time, or by arrival. In batch mode any order is possible, and frames may
    include following rows.

    Attributes:
        calls: the functions: aggregates, ``ROW_NUMBER`` and its like, ``LAG``, ``LEAD``.
        frame: the window frame; offsets of a range of event time are in milliseconds.
        time_field: the position of the column of event times; None for the order of arrival.
        order: the sort fields in batch mode, and where results change.
        changes: whether rows are ordered by other columns than time, so that results are updated.
        update_before: whether updates include ``UPDATE_BEFORE`` rows.
    """

    kind: ClassVar[str] = "OverAggregate"
    calls: tuple[AggregateOperation, ...]
    frame: OverFrame
    time_field: int | None = None
    order: tuple[SortField, ...] = ()
    changes: bool = False
    update_before: bool = True

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        type_ = inputs[0].record_type
        types = (*type_.field_types, *(type_of_logical(call.type) for call in self.calls))
        names = (*type_.field_names, *(call.name for call in self.calls))
        return OutputSchema(RowTypeInfo(types, names), has_changes=self.changes)

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "" if self.changes else "what came of a row before others is not computed again without it"

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.changelog.over.functions import OverFunctions
        from headrace.operators.changelog.over.operator import (
            BoundedOverOperator,
            EventTimeOverOperator,
            ProcessingTimeOverOperator,
        )

        schema = parameters.inputs[0]
        functions, codec = OverFunctions(self.calls, schema.record_type, self.frame), codec_of(schema)
        output = parameters.output_type
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
