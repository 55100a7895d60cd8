"""Schema evolution: columns that were stored under one type become columns of the type that is declared now.

Fields are matched by their names, in records of every kind. What is allowed loses nothing that the program still
declares: fields that are added with a default, left out, renamed as the program says, or widened; and the same inside
lists, maps and other records. Flink's rules for POJOs and Avro records are the model ("State Schema Evolution").
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from headrace.common.columns import values_to_array
from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import StateMigrationError
from headrace.common.typeinfo.basic import BasicType, BasicTypeInfo
from headrace.common.typeinfo.collection import MapTypeInfo, SequenceTypeInfo
from headrace.common.typeinfo.composite import (
    CompositeTypeInfo,
    DataclassTypeInfo,
    DictTypeInfo,
    NamedCompositeTypeInfo,
    NamedTupleTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    declares_changes,
)
from headrace.state.runs.layout import CLEAR, TYPES, VALUE
from headrace.state.runs.merging import merge_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.typeinfo import Json, TypeInformation
    from headrace.state.runs import Run, RunStore

_Convert = Callable[[pa.Array], pa.Array]

_REQUIRED: Final[Any] = object()
"""In place of the default of a field that has none."""

_WIDER: Final = (
    (BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG, BasicType.BIG_INT, BasicType.BIG_DEC),
    (BasicType.BYTE, BasicType.SHORT, BasicType.FLOAT, BasicType.DOUBLE),
    (BasicType.INT, BasicType.DOUBLE),
    (BasicType.LONG, BasicType.DOUBLE),
    (BasicType.CHAR, BasicType.STRING),
)
"""Each of these can hold what the ones before it hold; a LONG that no DOUBLE equals is refused when it is met."""


@dataclass(frozen=True, slots=True)
class Evolution:
    """How what is stored becomes what is declared.

    Attributes:
        changes: what is different, in words; empty when nothing is.
    """

    changes: tuple[str, ...]
    _convert: _Convert = field(repr=False)

    def __str__(self) -> str:
        return "; ".join(self.changes)

    def convert(self, array: pa.Array) -> pa.Array:
        """A column of the declared type.

        Raises:
            StateMigrationError: when a number has no equal among those of the wider type.
        """
        try:
            return self._convert(array)
        except pa.ArrowInvalid as error:
            raise StateMigrationError(f"{self}: a stored value cannot be taken over: {error}") from error

    def convert_nested(self, lists: pa.ListArray) -> pa.Array:
        """The same for a column of lists of such values."""
        return _with_elements(lists, self._convert)


class Incompatible(Exception):
    """What is stored cannot become what is declared.

    Attributes:
        differences: all of them, in words.
    """

    def __init__(self, differences: Sequence[str]) -> None:
        super().__init__("; ".join(differences))
        self.differences = tuple(differences)


def evolution(stored: TypeInformation, declared: TypeInformation, renamed: Mapping[str, str]) -> Evolution:
    """How columns of the stored type become columns of the declared one.

    Args:
        stored: read from its description: its record classes are not known.
        declared: by the program.
        renamed: new names of fields by their old ones; of fields of inner records by their path in the stored type,
            as in ``address.zip``.

    Raises:
        Incompatible: with everything that does not fit.
    """
    plan = _Plan(renamed)
    convert = plan.between(stored, declared, "")
    if plan.differences:
        raise Incompatible(plan.differences)
    return Evolution(tuple(plan.changes), convert)


def evolve_run(store: RunStore, run: Run, change: Evolution, types: Json, column: str = VALUE) -> Run | None:
    """Puts a run with values of the declared type in the place of one with values of an earlier type.

    That happens once, in the first epoch of a program that declares another type: everything is rewritten, so that runs
    can be merged without knowing more than one type. Of a run that other tasks have too, or of which a part is over,
    the rows that count are written, as a merge of it alone leaves them, with what it says of its rows.

    Args:
        store: it has the run.
        run: the run.
        change: what becomes of its values.
        types: what the run says about its types from now on.
        column: the column of the values.

    Returns:
        The run that is there now; None when no row of it counts, so that it was dropped.

    Raises:
        StateMigrationError: when a value cannot be taken over.
    """
    batch, meta = merge_runs([run], is_oldest=False, now=MIN_WATERMARK)
    if batch is None:
        store.drop(run)
        return None
    convert = change.convert_nested if CLEAR in batch.schema.names else change.convert
    place = batch.schema.get_field_index(column)
    renewed = batch.set_column(place, column, convert(batch.column(place)))
    return store.rewrite(run, renewed, {**meta, TYPES: types})


class _Plan:
    """Walks through two types at once, and notes what changes and what does not fit."""

    def __init__(self, renamed: Mapping[str, str]) -> None:
        self._renamed = renamed
        self.changes: list[str] = []
        self.differences: list[str] = []

    def between(self, stored: TypeInformation, declared: TypeInformation, path: str) -> _Convert:
        if stored.to_json() == declared.to_json():
            return _same
        for kind, plan in _BETWEEN:
            if isinstance(stored, kind) and isinstance(declared, kind):
                return plan(self, stored, declared, path)
        return self._refused(stored, declared, path)

    def _refused(self, stored: TypeInformation, declared: TypeInformation, path: str) -> _Convert:
        self.differences.append(f"{_named(path)} was stored as {stored} and is declared as {declared}")
        return _same

    def of_basic(self, stored: BasicTypeInfo[Any], declared: BasicTypeInfo[Any], path: str) -> _Convert:
        if (stored.basic_type, declared.basic_type) not in _WIDENED:
            return self._refused(stored, declared, path)
        self.changes.append(f"{_named(path)} is widened from {stored} to {declared}")
        type_ = declared.storage_type
        return lambda array: array.cast(type_)

    def of_sequence(self, stored: SequenceTypeInfo[Any], declared: SequenceTypeInfo[Any], path: str) -> _Convert:
        if stored.nullable_elements and not declared.nullable_elements:
            return self._refused(stored, declared, path)
        convert = self.between(stored.element_type, declared.element_type, path)
        return lambda array: _with_elements(array, convert)

    def of_map(self, stored: MapTypeInfo[Any, Any], declared: MapTypeInfo[Any, Any], path: str) -> _Convert:
        if stored.key_type.to_json() != declared.key_type.to_json():
            return self._refused(stored, declared, path)
        convert = self.between(stored.value_type, declared.value_type, path)
        return lambda array: _with_values(array, convert)

    def of_record(self, stored: CompositeTypeInfo, declared: CompositeTypeInfo, path: str) -> _Convert:
        if declares_changes(stored) != declares_changes(declared) or self._cannot_tell_fields(stored, declared):
            return self._refused(stored, declared, path)
        sources = self._sources(stored, declared, path)
        columns = [self._field(stored, declared, name, sources.get(name), path) for name in declared.field_names]
        fields = declared.arrow_fields
        return lambda array: _with_columns(array, columns, fields)

    def _cannot_tell_fields(self, stored: CompositeTypeInfo, declared: CompositeTypeInfo) -> bool:
        """Without names, fields are told by their places: which one is gone, or new between others, nobody knows."""
        return (_is_nameless(stored) or _is_nameless(declared)) and (
            _is_nameless(stored) != _is_nameless(declared) or len(stored.types) > len(declared.types)
        )

    def _sources(self, stored: CompositeTypeInfo, declared: CompositeTypeInfo, path: str) -> dict[str, str]:
        """By the name of a declared field, that of the stored field whose values it gets."""
        sources = {}
        for name in stored.field_names:
            new = self._renamed.get(_inside(path, name), name)
            if new in sources:
                self.differences.append(f"{_named(_inside(path, new))} would get the values of two stored fields")
            elif new not in declared.field_names:
                self.changes.append(f"{_named(_inside(path, name))} is left out")
            else:
                sources[new] = name
                if new != name:
                    self.changes.append(f"{_named(_inside(path, name))} is called {new!r}")
        return sources

    def _field(
        self, stored: CompositeTypeInfo, declared: CompositeTypeInfo, name: str, source: str | None, path: str
    ) -> _Convert:
        """What gives the column of a declared field, from the column of records."""
        type_ = declared.field_types[declared.field_index(name)]
        if source is None:
            return self._added(declared, name, type_, path)
        place = stored.field_index(source)
        convert = self.between(stored.field_types[place], type_, _inside(path, source))
        return lambda records: convert(records.field(place))

    def _added(self, declared: CompositeTypeInfo, name: str, type_: TypeInformation, path: str) -> _Convert:
        default = _default_of(declared, name)
        where = _named(_inside(path, name))
        if default is _REQUIRED:
            self.differences.append(f"{where} was not stored, and has no default in {_spelled(declared)}: give it one")
            return _same
        self.changes.append(f"{where} is added as {default!r}")
        one = values_to_array(type_, [default])
        return lambda records: one.take(pa.array([0] * len(records), pa.int32()))


_BETWEEN: Final[tuple[tuple[type, Callable[..., _Convert]], ...]] = (
    (BasicTypeInfo, _Plan.of_basic),
    (SequenceTypeInfo, _Plan.of_sequence),
    (MapTypeInfo, _Plan.of_map),
    (CompositeTypeInfo, _Plan.of_record),
)

_WIDENED: Final = frozenset(
    (narrow, wide) for chain in _WIDER for place, narrow in enumerate(chain) for wide in chain[place + 1 :]
)


def _default_of(declared: CompositeTypeInfo, name: str) -> Any:
    """What a field has that a stored record lacks; rows and dicts have None in it."""
    if isinstance(declared, DataclassTypeInfo):
        found = next(each for each in dataclasses.fields(declared.record_class) if each.name == name)
        if found.default_factory is not dataclasses.MISSING:
            return found.default_factory()
        return _REQUIRED if found.default is dataclasses.MISSING else found.default
    if isinstance(declared, NamedTupleTypeInfo):
        return declared.record_class._field_defaults.get(name, _REQUIRED)
    return None if isinstance(declared, RowTypeInfo | DictTypeInfo) else _REQUIRED


def _is_nameless(info: CompositeTypeInfo) -> bool:
    return isinstance(info, TupleTypeInfo) or (isinstance(info, RowTypeInfo) and info.names is None)


def _same(array: pa.Array) -> pa.Array:
    return array


def _with_elements(lists: pa.ListArray, convert: _Convert) -> pa.Array:
    return pa.ListArray.from_arrays(_offsets(lists), convert(lists.flatten()), mask=lists.is_null())


def _with_values(maps: pa.MapArray, convert: _Convert) -> pa.Array:
    kind = maps.type
    lists = maps.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
    entries = lists.flatten()
    values = convert(entries.field(1))
    return pa.MapArray.from_arrays(_offsets(lists), entries.field(0), values, mask=lists.is_null())


def _offsets(lists: pa.ListArray) -> pa.Array:
    """Where each list begins among the elements of all; one that is null has none."""
    lengths = np.asarray(lists.value_lengths().fill_null(0))
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


def _with_columns(records: pa.StructArray, columns: Sequence[_Convert], fields: Sequence[pa.Field]) -> pa.Array:
    kinds = [records.field(each.name) for each in fields[len(columns) :]]  # of changelog rows
    arrays = [*(column(records) for column in columns), *kinds]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=records.is_null())


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _named(path: str) -> str:
    return f"the field {path!r}" if path else "the value"


def _spelled(declared: CompositeTypeInfo) -> str:
    return declared.class_name if isinstance(declared, NamedCompositeTypeInfo) else str(declared)
