"""How a columnar window is laid out: the parts it remembers, the columns of partial results, the columns it emits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.common.columns import layout_of, values_to_array
from headrace.common.errors import InvalidProgramError
from headrace.common.typeinfo import RowTypeInfo, TypeInformation, Types
from headrace.operators.window.part_list import PartList
from headrace.operators.window.parts import CountRows, KeyField, Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.operators.window.aggregates import Aggregate, BoundAggregate
    from headrace.state.keys import KeyCodec

_CANONICAL_TYPES = {pa.int64(): Types.LONG(), pa.string(): Types.STRING(), pa.binary(): Types.BYTES()}


@dataclass(frozen=True)
class WindowLayout:
    """The columns of one columnar window; made when the job is planned, picklable.

    Attributes:
        input_type: the type of the records.
        codec: how keys are stored.
        key_names: the names of the key's columns in the output.
        key_parts: the fields of the key, when they are remembered beside the canonical key; else the one column of the
            key is made from the canonical key.
        aggregates: what is computed.
    """

    input_type: TypeInformation
    codec: KeyCodec
    key_names: tuple[str, ...]
    key_parts: tuple[KeyField, ...]
    aggregates: tuple[BoundAggregate, ...]

    @staticmethod
    def of(
        input_type: TypeInformation,
        codec: KeyCodec,
        aggregates: Sequence[Aggregate],
        key_fields: Sequence[str | int] | None = None,
        key_name: str = "key",
    ) -> WindowLayout:
        """The layout of a window.

        Args:
            input_type: the type of the records.
            codec: how keys are stored.
            aggregates: what is computed; at least one.
            key_fields: the fields that the key is made of, which become columns of the output.
            key_name: what the one column of the key is called without such fields.

        Raises:
            InvalidTypeError: when an aggregate does not fit the records.
            InvalidProgramError: when there is no aggregate, or two columns of the output have the same name.
        """
        if not aggregates:
            raise InvalidProgramError("a window needs at least one aggregate: count(), sum('field'), …")
        indices = [input_type.field_index(field) for field in key_fields or ()]
        names = tuple(input_type.field_names[index] for index in indices)
        is_kept_as_is = len(indices) <= 1 and codec.arrow_type in (pa.int64(), pa.string())
        fields = [KeyField(i, input_type.field_names[i], input_type.field_types[i]) for i in indices]
        layout = WindowLayout(
            input_type,
            codec,
            names or (key_name,),
            () if is_kept_as_is else tuple(fields),
            tuple(aggregate.bind(input_type) for aggregate in aggregates),
        )
        assert layout.output_type.is_composite  # made now, so that its names are checked here and not in a task
        return layout

    @cached_property
    def output_type(self) -> TypeInformation:
        """The type of what the window emits: the key, ``window_start``, ``window_end``, the aggregates."""
        names = (*self.key_names, "window_start", "window_end", *(a.name for a in self.aggregates))
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise InvalidProgramError(
                f"the window's output would have two columns {repeated[0]!r}: name one of them with .alias(...)"
            )
        keys = tuple(part.type for part in self.key_parts) or (self.codec.type,)
        return RowTypeInfo((*keys, Types.LONG(), Types.LONG(), *(a.type for a in self.aggregates)), names)

    @cached_property
    def output_schema(self) -> pa.Schema:
        """The columns of what the window emits."""
        return layout_of(self.output_type).schema

    @cached_property
    def parts(self) -> PartList:
        """What is remembered for a key and window, each thing once; the number of records comes first."""
        parts: dict[Part, None] = {CountRows(): None}
        parts |= dict.fromkeys(self.key_parts)
        for aggregate in self.aggregates:
            parts |= dict.fromkeys(aggregate.parts)
        return PartList(tuple(parts))

    @property
    def is_ordered(self) -> bool:
        """Whether results depend on the order in which records come."""
        return any(aggregate.is_ordered for aggregate in self.aggregates)

    @cached_property
    def partial_type(self) -> TypeInformation:
        """The type of a row of partial results, as it travels from the sender's side of a shuffle."""
        names, types = zip(*(field for part in self.parts.parts for field in part.fields), strict=True)
        key = _CANONICAL_TYPES[self.codec.arrow_type]
        return RowTypeInfo((Types.LONG(), key, *types), ("window_end", "key", *names))

    @cached_property
    def partial_schema(self) -> pa.Schema:
        """The columns of rows of partial results that travel."""
        return layout_of(self.partial_type).schema

    @cached_property
    def state_schema(self) -> pa.Schema:
        """The columns of partial results in state: the same, and the hash of the key."""
        return self.partial_schema.insert(1, pa.field("hash", pa.uint64()))

    def finish(self, keys: pa.Array, starts: pa.Array, ends: pa.Array, columns: list[pa.Array]) -> pa.RecordBatch:
        """The output rows of final partial results."""
        results = self.parts.results(columns)
        key_columns = [results[part] for part in self.key_parts] or [self._key_column(keys)]
        values = [aggregate.final([results[part] for part in aggregate.parts]) for aggregate in self.aggregates]
        return pa.RecordBatch.from_arrays([*key_columns, starts, ends, *values], schema=self.output_schema)

    def _key_column(self, keys: pa.Array) -> pa.Array:
        storage = self.codec.type.storage_type
        if self.codec.is_plain or pa.types.is_boolean(storage):
            return keys.cast(storage)
        return values_to_array(self.codec.type, self.codec.decode(keys))
