"""How a columnar window is laid out: its aggregators, the columns of their accumulators, the columns it emits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from operator import attrgetter, is_
from typing import Any, Final

import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.columns import schema_of
from headrace.common.errors import InvalidProgramError
from headrace.common.typeinfo import RowTypeInfo, TypeInformation, Types
from headrace.expressions import Bound
from headrace.operators.aggregates.aggregate import BindableAggregate
from headrace.operators.aggregates.aggregator import (
    Aggregator,
    AggregatorList,
    BoundAggregate,
    DerivedColumn,
    Input,
    with_new_names,
)
from headrace.operators.aggregates.simple import CountRows, KeyField
from headrace.operators.base import OperatorContext
from headrace.operators.stateless import computed
from headrace.operators.user_code import OperatorPlace
from headrace.state.evolution import NOTHING_RENAMED, RenamedFields
from headrace.state.keys import KeyCodec
from headrace.windowing.windows import TimeWindowSerializer

PARTS: Final = "parts"
"""What stored accumulators say about the aggregators that made them."""

_LONG: Final = Types.LONG()

_CANONICAL_TYPES = {pa.int64(): _LONG, pa.string(): Types.STRING(), pa.binary(): Types.BYTES()}


@dataclass(frozen=True)
class ColumnarWindowLayout:
    """The columns of one columnar window; made when the job is planned, picklable.

    Attributes:
        codec: how keys are stored.
        key_names: the names of the key's columns in the output; none where all records have one key.
        key_fields: the fields of the key, when they are remembered beside the canonical key; else, and where equal keys
            may look different, the columns of the key are made from the canonical key.
        aggregates: what is computed.
        window_names: the names of the columns in the output that say which window it is.
        renamed: which fields of the records have other names than in what is stored.
        retracts: whether records may be retracted.
    """

    codec: KeyCodec
    key_names: tuple[str, ...]
    key_fields: tuple[KeyField, ...]
    aggregates: tuple[BoundAggregate, ...]
    window_names: tuple[str, ...] = TimeWindowSerializer.names
    renamed: RenamedFields = NOTHING_RENAMED
    retracts: bool = False

    @staticmethod
    def of(
        input_type: TypeInformation,
        codec: KeyCodec,
        aggregates: Sequence[BindableAggregate],
        key_fields: Sequence[str | int] | None = None,
        key_names: tuple[str, ...] | None = None,
        window_names: tuple[str, ...] = TimeWindowSerializer.names,
        *,
        retracts: bool = False,
    ) -> "ColumnarWindowLayout":
        """The layout of a window.

        Args:
            input_type: the type of the records.
            codec: how keys are stored.
            aggregates: what is computed; none where only keys are wanted.
            key_fields: the fields that the key is made of, which become columns of the output.
            key_names: what the columns of the key are called: one for the key as it is, several for the fields of a
                tuple, none to leave the key out; by default they have the names of the fields, or are one ``key``.
            window_names: what the columns of the output are called that say which window it is.
            retracts: whether records may be retracted.

        Raises:
            InvalidTypeError: when an aggregate does not fit the records.
            InvalidProgramError: when two columns of the output have the same name; and when records may be retracted,
                and an aggregate cannot do that.
        """
        indices = [input_type.field_index(field) for field in key_fields or ()]
        names = tuple(input_type.field_names[index] for index in indices)
        is_kept_as_is = len(indices) <= 1 and codec.gives_columns
        fields = [KeyField(i, input_type.field_names[i], input_type.field_types[i]) for i in indices]
        layout = ColumnarWindowLayout(
            codec,
            (names or ("key",)) if key_names is None else key_names,
            () if is_kept_as_is else tuple(fields),
            tuple(aggregate.bind(input_type, retracts=retracts) for aggregate in aggregates),
            window_names,
            retracts=retracts,
        )
        assert layout.output_type.is_composite  # made now, so that its names are checked here and not in a task
        return layout

    def of_operator(self, place: OperatorPlace, renamed: RenamedFields = NOTHING_RENAMED) -> "ColumnarWindowLayout":
        """The same layout in an operator.

        Args:
            place: the operator, which is named where functions of the user fail.
            renamed: which fields of its records have other names than in what is stored.
        """
        changed = {one: one.of_operator(place) for one in self.aggregators.aggregators}
        if renamed == self.renamed and all(map(is_, changed, changed.values())):
            return self
        aggregates = tuple(
            replace(each, aggregators=tuple(changed[one] for one in each.aggregators)) for each in self.aggregates
        )
        return replace(self, aggregates=aggregates, renamed=renamed)

    def named_now(self, about: dict[str, Any]) -> dict[str, Any]:
        """Return what stored accumulators say about themselves, with the names that fields have now."""
        if not (self.renamed and PARTS in about):
            return about
        return {**about, PARTS: with_new_names(about[PARTS], self.renamed)}

    @cached_property
    def output_type(self) -> TypeInformation:
        """The type of what the window emits: the key, what says which window it is, the aggregates."""
        names = (*self.key_names, *self.window_names, *(a.name for a in self.aggregates))
        if len(set(names)) < len(names):
            repeated = min(name for name in names if names.count(name) > 1)
            raise InvalidProgramError(
                f"the output of aggregate(...) has two columns {repeated!r}: name one of them with .alias(...)"
            )
        made = self.codec.type.field_types if len(self.key_names) > 1 else (self.codec.type,) * len(self.key_names)
        keys = tuple(field.type for field in self.key_fields) or made
        windows = (_LONG,) * len(self.window_names)
        return RowTypeInfo((*keys, *windows, *(a.type for a in self.aggregates)), names)

    @cached_property
    def output_schema(self) -> pa.Schema:
        """The columns of what the window emits."""
        return schema_of(self.output_type)

    @cached_property
    def aggregators(self) -> AggregatorList:
        """Return what is remembered for a key and window, each thing once; the number of records comes first."""
        aggregators: dict[Aggregator, None] = {CountRows(): None}
        aggregators |= dict.fromkeys(self.key_fields)
        for aggregate in self.aggregates:
            aggregators |= dict.fromkeys(aggregate.aggregators)
        return AggregatorList(tuple(aggregators))

    @property
    def width(self) -> int:
        """Return how many columns accumulators have."""
        return len(self.contents_type.field_names)

    @cached_property
    def is_ordered(self) -> bool:
        """Return whether results depend on the order in which records come."""
        return any(map(attrgetter("is_ordered"), self.aggregates))

    @cached_property
    def contents_type(self) -> RowTypeInfo:
        """The type of the accumulators of one key and window."""
        fields = map(attrgetter("fields"), self.aggregators.aggregators)
        names, types = zip(*chain.from_iterable(fields), strict=True)
        return RowTypeInfo(types, names)

    @cached_property
    def accumulator_type(self) -> TypeInformation:
        """The type of a row of accumulators, as it travels from the sender's side of a shuffle."""
        contents, key = self.contents_type, _CANONICAL_TYPES[self.codec.arrow_type]
        return RowTypeInfo((_LONG, key, *contents.field_types), ("window_end", "key", *contents.field_names))

    @cached_property
    def accumulator_schema(self) -> pa.Schema:
        """The columns of rows of accumulators that travel."""
        return schema_of(self.accumulator_type)

    @cached_property
    def state_schema(self) -> pa.Schema:
        """The columns of accumulators in state: the same, and the hash of the key."""
        return self.accumulator_schema.insert(1, pa.field("hash", pa.uint64()))

    def inputs_of(self, batch: Batch, context: OperatorContext) -> dict[Input, pa.Array]:
        """The columns that the aggregators look at: fields of the records, and expressions over them.

        Raises:
            UserFunctionError: when an expression has no value for a record.
        """
        found: dict[Input, pa.Array] = {}
        expressions: list[Bound] = []
        for source in self.aggregators.inputs:
            if isinstance(source, int):
                found[source] = batch.columns.column(source)
            elif isinstance(source, DerivedColumn):
                found[source] = source.of(batch.columns)
            else:
                expressions.append(source)
        if expressions:
            found |= zip(expressions, computed(tuple(expressions), batch, context), strict=True)
        return found

    def finish(self, keys: pa.Array, windows: Sequence[pa.Array], columns: list[pa.Array]) -> pa.RecordBatch:
        """The output rows of final accumulators.

        Args:
            keys: the keys.
            windows: the columns that say which windows they are of.
            columns: the accumulators.
        """
        results = self.aggregators.results(columns)
        values = [
            aggregate.emit([results[aggregator] for aggregator in aggregate.aggregators])
            for aggregate in self.aggregates
        ]
        return self.rows(keys, windows, results, values)

    def rows(
        self,
        keys: pa.Array,
        windows: Sequence[pa.Array],
        results: Mapping[Aggregator, pa.Array],
        values: list[pa.Array],
    ) -> pa.RecordBatch:
        """The output rows of keys.

        Args:
            keys: the keys.
            windows: the columns that say which windows they are of.
            results: what aggregators give, those of the fields of the key at least.
            values: the columns of the aggregates.
        """
        columns = [*self.key_columns(keys, results), *windows, *values]
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema)

    def key_columns(self, keys: pa.Array, results: Mapping[Aggregator, pa.Array]) -> list[pa.Array]:
        """The columns of keys.

        Args:
            keys: the keys.
            results: what aggregators give, those of the fields of the key at least.
        """
        if self.key_fields and all(field.is_canonical for field in self.key_fields):
            return [results[field] for field in self.key_fields]
        if not self.key_names:
            return []
        column = self.codec.to_array(keys)
        is_whole = len(self.key_names) == 1 and all(field.type == self.codec.type for field in self.key_fields)
        return [column] if is_whole else column.flatten()
