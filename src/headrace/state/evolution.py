"""Schema evolution: columns that were stored under one type become columns of the type that is declared now.

Fields are matched by their names, in records of every kind. What is allowed loses nothing that the program still
declares: fields that are added with a default, left out, renamed as the program says, or widened; and the same inside
lists, maps and other records. Flink's rules for POJOs and Avro records are the model ("State Schema Evolution").
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa

from headrace.common.arrays import list_offsets
from headrace.common.columns import values_to_array
from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import InvalidTypeError, StateMigrationError, refused
from headrace.common.typeinfo import Json, TypeInformation, type_from_json
from headrace.common.typeinfo.base import BasicType, BasicTypeInfo, MapTypeInfo, SequenceTypeInfo
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
from headrace.state.runs import Run, RunStore
from headrace.state.runs.layout import CLEAR, TYPES, VALUE
from headrace.state.runs.merging import merge_runs

_METHOD: Final = "set_renamed_fields"


@dataclass(frozen=True, slots=True)
class RenamedFields:
    """New names of fields by their old ones.

    A path leads to a stored field through the names of the records that it is in, ``address.zip``. Those in a list, or
    among the values of a map, have the path of that.

    Attributes:
        names: new names, by the paths that the program gives.
        places: where the program's records are in what is stored, which an operator may have put into tuples of its
            own: by the path there, that which the program knows.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=lambda: {"": ""})

    @classmethod
    def given(cls, renamed: Any) -> Self:
        """The declaration of ``set_renamed_fields``.

        Raises:
            InvalidProgramError: when it is no mapping of names to others.
        """
        if not isinstance(renamed, Mapping):
            raise refused(f"{_METHOD} takes new names by old ones, as in {{'count': 'visits'}}, not {renamed!r}")
        for path, name in renamed.items():
            if not (_is_path(path) and _is_path(name) and "." not in name):
                raise refused(
                    f"{_METHOD} takes the new name of a field by its old one, or by its path, as in "
                    f"{{'address.zip': 'postcode'}}, not {{{path!r}: {name!r}}}"
                )
            if last_of(path) == name:
                raise refused(f"{_METHOD}: the field {path!r} has that name already: leave it out")
        new = Counter(inside(parent_of(path), name) for path, name in renamed.items())
        for path, count in new.items():
            if count > 1:
                raise refused(f"{_METHOD}: {count} fields would be called {last_of(path)!r}")
        return cls(dict(renamed))

    def __bool__(self) -> bool:
        return bool(self.names)

    def inside(self, field_name: str) -> RenamedFields:
        """The same for records that are kept in a field of a tuple, with something else beside them."""
        return replace(self, places={inside(field_name, place): known for place, known in self.places.items()})

    def of_parts(self, parts: Mapping[str, str]) -> RenamedFields:
        """The same for a tuple of several records, each with a path of its own.

        Args:
            parts: what the program's paths begin with, by the fields of the tuple.
        """
        return replace(self, places=parts)

    def known_as(self, path: str) -> str:
        """The path that the program knows a stored field by."""
        for place, known in self.places.items():
            if not place or path == place or path.startswith(f"{place}."):
                return inside(known, path[len(place) :].removeprefix("."))
        return path

    def new_name(self, path: str, name: str) -> str:
        """The current name of a field, by its stored name in the record at a path."""
        return self.names.get(self.known_as(inside(path, name)), name)

    def expected_in(self, path: str) -> Iterator[tuple[str, str]]:
        """Old and new names of the fields of the record with a path in what is stored."""
        known = self.known_as(path)
        return ((last_of(old), new) for old, new in self.names.items() if parent_of(old) == known)

    def unfit(self, records: Mapping[str, TypeInformation]) -> list[str]:
        """A message about fields that the declared records do not have; empty if there are none.

        Args:
            records: the types of the records, by what the program's paths to their fields begin with.
        """
        problems = (self._unfit(path, name, records) for path, name in self.names.items())
        return [each for each in problems if each]

    def _unfit(self, path: str, name: str, records: Mapping[str, TypeInformation]) -> str:
        begun = {part: kind for part, kind in records.items() if not part or path.startswith(f"{part}.")}
        if not begun:
            return f"{path!r} has to begin with {' or '.join(repr(f'{part}.') for part in records)}"
        found = [record for part, kind in begun.items() if (record := self._declared_parent(path, part, kind))]
        if any(name in record.field_names for record in found):
            return ""
        if not found:
            return f"there are no records at {parent_of(path)!r} in {' or '.join(map(str, begun.values()))}"
        fields = " or ".join(", ".join(map(repr, record.field_names)) for record in found)
        return f"{path!r} cannot be called {name!r}: the fields of the record are {fields}"

    def _declared_parent(self, path: str, part: str, kind: TypeInformation) -> CompositeTypeInfo | None:
        """The declared record that has a field now; None where there is none."""
        known, found = part, _elements_of(kind)
        for step in filter(None, parent_of(path)[len(part) :].split(".")):
            known = inside(known, step)
            name = self.names.get(known, step)
            if not isinstance(found, CompositeTypeInfo) or name not in found.field_names:
                return None
            found = _elements_of(found.field_types[found.field_index(name)])
        return found if isinstance(found, CompositeTypeInfo) else None


NOTHING_RENAMED: Final = RenamedFields()


def inside(path: str, name: str) -> str:
    """The path of what has another path within the record with a path; that of the record itself is empty."""
    return f"{path}.{name}" if path and name else path or name


def parent_of(path: str) -> str:
    """The path of the record that a field is in."""
    return path.rpartition(".")[0]


def last_of(path: str) -> str:
    """The name of the field that a path leads to."""
    return path.rpartition(".")[2]


def _is_path(text: Any) -> bool:
    return isinstance(text, str) and all(text.split("."))


def _elements_of(kind: TypeInformation) -> TypeInformation:
    """The type of the innermost elements of lists and maps; any other type itself."""
    while isinstance(kind, SequenceTypeInfo | MapTypeInfo):
        kind = kind.element_type if isinstance(kind, SequenceTypeInfo) else kind.value_type
    return kind


_Convert = Callable[[pa.Array], pa.Array]

_END_OF_INT64: Final = 2.0**63

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
    """The migration from a stored type to a declared one.

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
    """The stored type cannot become the declared one.

    Attributes:
        differences: all of them, in words.
    """

    def __init__(self, differences: Sequence[str]) -> None:
        super().__init__("; ".join(differences))
        self.differences = tuple(differences)


def evolution(
    stored: TypeInformation, declared: TypeInformation, renamed: RenamedFields = NOTHING_RENAMED
) -> Evolution:
    """Return how columns of the stored type become columns of the declared one.

    Args:
        stored: read from its description: its record classes are not known.
        declared: by the program.
        renamed: which fields have other names now.

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

    def renewed(batch: pa.RecordBatch) -> pa.RecordBatch:
        convert = change.convert_nested if CLEAR in batch.schema.names else change.convert
        place = batch.schema.get_field_index(column)
        return batch.set_column(place, column, convert(batch.column(place)))

    return rewrite_run(store, run, renewed, {TYPES: types})


def rewrite_run(
    store: RunStore, run: Run, renewed: Callable[[pa.RecordBatch], pa.RecordBatch], about: Mapping[str, object]
) -> Run | None:
    """Puts another run in the place of one.

    Args:
        store: it has the run.
        run: the run.
        renewed: makes the rows of those of the run that count.
        about: what the run says otherwise of itself from now on; nothing of its rows.

    Returns:
        The run that is there now; None when no row of it counts, so that it was dropped.
    """
    batch, meta = merge_runs([run], is_oldest=False, now=MIN_WATERMARK)
    if batch is None:
        store.drop(run)
        return None
    return store.rewrite(run, renewed(batch), {**meta, **about})


class _Plan:
    """Walks through two types at once, and notes what changes and what does not fit."""

    def __init__(self, renamed: RenamedFields) -> None:
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
        self.differences.append(f"{self._named(path)} was stored as {stored} and is declared as {declared}")
        return _same

    def _named(self, path: str) -> str:
        """A field as the program knows it."""
        known = self._renamed.known_as(path)
        return f"the field {known!r}" if known else "the value"

    def of_basic(self, stored: BasicTypeInfo, declared: BasicTypeInfo, path: str) -> _Convert:
        if (stored.basic_type, declared.basic_type) not in _WIDENED:
            return self._refused(stored, declared, path)
        self.changes.append(f"{self._named(path)} is widened from {stored} to {declared}")
        type_ = declared.storage_type
        return _doubles_of if pa.types.is_float64(type_) else lambda array: array.cast(type_)

    def of_sequence(self, stored: SequenceTypeInfo, declared: SequenceTypeInfo, path: str) -> _Convert:
        if stored.nullable_elements and not declared.nullable_elements:
            return self._refused(stored, declared, path)
        convert = self.between(stored.element_type, declared.element_type, path)
        return lambda array: _with_elements(array, convert)

    def of_map(self, stored: MapTypeInfo, declared: MapTypeInfo, path: str) -> _Convert:
        if stored.key_type.to_json() != declared.key_type.to_json():
            return self._refused(stored, declared, path)
        convert = self.between(stored.value_type, declared.value_type, path)
        return lambda array: _with_values(array, convert)

    def of_record(self, stored: CompositeTypeInfo, declared: CompositeTypeInfo, path: str) -> _Convert:
        if declares_changes(stored) != declares_changes(declared) or self._cannot_tell_fields(stored, declared):
            return self._refused(stored, declared, path)
        sources = self._sources(stored, declared, path)
        left_out = [name for name in stored.field_names if name not in sources.values()]
        self._check_names(sources, left_out, declared, path)
        columns = [
            self._field(stored, declared, name, sources[name], path)
            if name in sources
            else self._added(declared, name, left_out, path)
            for name in declared.field_names
        ]
        fields = declared.arrow_fields
        return lambda array: _with_columns(array, columns, fields)

    def _cannot_tell_fields(self, stored: CompositeTypeInfo, declared: CompositeTypeInfo) -> bool:
        """Without names, fields are identified by places: which one is gone, or new between others, is unknown."""
        return (_is_nameless(stored) or _is_nameless(declared)) and (
            _is_nameless(stored) != _is_nameless(declared) or len(stored.types) > len(declared.types)
        )

    def _sources(self, stored: CompositeTypeInfo, declared: CompositeTypeInfo, path: str) -> dict[str, str]:
        """By the name of a declared field, that of the stored field whose values it gets."""
        sources: dict[str, str] = {}
        for name in stored.field_names:
            new = self._renamed.new_name(path, name)
            if new not in declared.field_names:
                new = name
            if new in sources:
                self.differences.append(f"{self._named(inside(path, new))} would get the values of two stored fields")
            elif new not in declared.field_names:
                self.changes.append(f"{self._named(inside(path, name))} is left out")
            else:
                sources[new] = name
                if new != name:
                    self.changes.append(f"{self._named(inside(path, name))} is called {new!r}")
        return sources

    def _check_names(
        self, sources: Mapping[str, str], left_out: Sequence[str], declared: CompositeTypeInfo, path: str
    ) -> None:
        """Refuse old names that are not stored, where a stored field may have been meant, which would go."""
        for old, new in self._renamed.expected_in(path):
            if new in declared.field_names and new not in sources and left_out:
                self.differences.append(
                    f"{self._named(inside(path, old))}, which is to be called {new!r}, was not stored; what was stored "
                    f"and would go: {', '.join(map(repr, left_out))}"
                )

    def _field(
        self, stored: CompositeTypeInfo, declared: CompositeTypeInfo, name: str, source: str, path: str
    ) -> _Convert:
        """The function that gives the column of a declared field, from the column of records."""
        place = stored.field_index(source)
        type_ = declared.field_types[declared.field_index(name)]
        convert = self.between(stored.field_types[place], type_, inside(path, source))
        return lambda records: convert(records.field(place))

    def _added(self, declared: CompositeTypeInfo, name: str, left_out: Sequence[str], path: str) -> _Convert:
        default, where = _default_of(declared, name), self._named(inside(path, name))
        if default is _REQUIRED:
            self.differences.append(f"{where} was not stored, and has no default{_how_to_fill(declared, left_out)}")
            return _same
        type_ = declared.field_types[declared.field_index(name)]
        try:
            one = values_to_array(type_, [default])
        except InvalidTypeError as error:
            self.differences.append(f"{where} was not stored, and its default does not fit: {error}")
            return _same
        self.changes.append(f"{where} is added as {default!r}")
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
    """The default of a field that a stored record lacks; rows and dicts have None in it."""
    if isinstance(declared, DataclassTypeInfo):
        found = next(each for each in dataclasses.fields(declared.record_class) if each.name == name)
        make: Any = found.default_factory
        if not _is_missing(make):
            return make()
        return _REQUIRED if _is_missing(found.default) else found.default
    if isinstance(declared, NamedTupleTypeInfo):
        return declared.record_class._field_defaults.get(name, _REQUIRED)
    return None if isinstance(declared, RowTypeInfo | DictTypeInfo) else _REQUIRED


def _is_missing(default: object) -> bool:
    """Return whether a field of a dataclass has no such default; a class that was pickled has another mark."""
    return isinstance(default, type(dataclasses.MISSING))


def _is_nameless(info: CompositeTypeInfo) -> bool:
    return isinstance(info, TupleTypeInfo) or (isinstance(info, RowTypeInfo) and info.names is None)


def _same(array: pa.Array) -> pa.Array:
    return array


def _doubles_of(array: pa.Array) -> pa.Array:
    """The equal double of each number. Arrow itself refuses all integers beyond 53 bits, also those that have one.

    Raises:
        pa.ArrowInvalid: when a number has none.
    """
    doubles = array.cast(pa.float64(), safe=False)
    if pa.types.is_int64(array.type):
        numbers, wide = array.fill_null(0).to_numpy(), doubles.fill_null(0).to_numpy()
        is_within = wide < _END_OF_INT64  # the greatest integers are rounded up to what is none any more
        is_equal = is_within & (np.where(is_within, wide, 0).astype(np.int64) == numbers)
        if not is_equal.all():
            raise pa.ArrowInvalid(f"no double is equal to {numbers[np.argmin(is_equal)]}")
    return doubles


def _with_elements(lists: pa.ListArray, convert: _Convert) -> pa.Array:
    return pa.ListArray.from_arrays(list_offsets(lists), convert(lists.flatten()), mask=lists.is_null())


def _with_values(maps: pa.MapArray, convert: _Convert) -> pa.Array:
    kind = maps.type
    lists = maps.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
    entries = lists.flatten()
    values = convert(entries.field(1))
    return pa.MapArray.from_arrays(list_offsets(lists), entries.field(0), values, mask=lists.is_null())


def _with_columns(records: pa.StructArray, columns: Sequence[_Convert], fields: Sequence[pa.Field]) -> pa.Array:
    kinds = [records.field(each.name) for each in fields[len(columns) :]]  # of changelog rows
    arrays = [*(column(records) for column in columns), *kinds]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=records.is_null())


def _how_to_fill(declared: CompositeTypeInfo, left_out: Sequence[str]) -> str:
    """The advice for a field that has no default."""
    if isinstance(declared, TupleTypeInfo):
        return ", as no field of a tuple has: declare a row without names, whose fields may be None"
    spelled = declared.class_name if isinstance(declared, NamedCompositeTypeInfo) else str(declared)
    was = " or ".join(map(repr, left_out))
    other = f", or say by set_renamed_fields() that it was {was}" if left_out else ""
    return f" in {spelled}: give it one{other}"


OTHER_UID: Final = "give the operator another uid, or restore the old declaration"
"""The advice for an operator whose own state has changed."""

_INNER_CAPITAL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def difference(stored: object, declared: object) -> str:
    """Two descriptions that are not the same, next to each other."""
    before, now = in_words(stored), in_words(declared)
    if before == now:  # they differ in what the words leave out
        before, now = str(stored), str(declared)
    return f"stored {before}, declared {now}"


def difference_of_columns(stored: pa.Schema, declared: pa.Schema) -> str:
    """The differences between two schemas."""
    if stored.names != declared.names:
        return f"stored {', '.join(stored.names)}, declared {', '.join(declared.names)}"
    return "; ".join(
        f"{before.name!r} was stored as {before.type} and is declared as {now.type}"
        for before, now in zip(stored, declared, strict=True)
        if before.type != now.type
    )


def in_words(described: object) -> str:
    """A description of keys or of aggregates, or a plain value."""
    if isinstance(described, list):
        return " and ".join(map(in_words, described)) or "none"
    if not isinstance(described, dict):
        return str(described)
    if "namespace" in described:
        return f"{in_words(described['key'])} and window"
    if "type" in described:
        return str(type_from_json(described["type"] if "storage" in described else described))
    return _of_kind(dict(described))


def _of_kind(described: dict[str, Any]) -> str:
    """The text of a description: kind, perhaps the name of a column, parameters: ``sum integers of price``."""
    words = " ".join(_INNER_CAPITAL.split(str(described.pop("kind", "")))).lower()
    of_column = f" of {described.pop('name')}" if "name" in described else ""
    parameters = ", ".join(_parameter(name.replace("_", " "), value) for name, value in described.items())
    return f"{words}{of_column}{f' ({parameters})' if parameters else ''}"


def _parameter(name: str, value: object) -> str:
    if isinstance(value, bool):
        return name if value else f"not {name}"
    return f"{name} {in_words(value)}"
