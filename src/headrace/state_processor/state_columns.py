"""``StateColumns``: how a state is stored, and what rows that somebody gives become in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.columns import conformed
from headrace.common.errors import InvalidTypeError, SavepointError, StateError
from headrace.common.typeinfo import Types, type_from_json
from headrace.savepoint.columns import ENCODED, WINDOW, readable, stored_namespaces, type_of_keys
from headrace.state.exported import NAMESPACE
from headrace.state.keyed.backend import NAMESPACED_PREFIX, STORE_PREFIX
from headrace.state.keyed.namespaces import namespaced
from headrace.state.keyed.table import meta_of
from headrace.state.keys import KeyCodec
from headrace.state.kinds import StateKind
from headrace.state.operator.backend import meta_of_list
from headrace.state.operator.redistribution import kind_of_store, store_name
from headrace.state.runs.layout import ENTRY, ENTRY_KEY, EXPIRY, HASH, KEY, KIND, TIMERS, TYPES, VALUE
from headrace.state.runs.ordered import LIVE
from headrace.state.timers import timer_layout
from headrace.state_processor.fitting import as_column, fitted
from headrace.state_processor.given_rows import column_of, given_entries, given_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.state.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
    from headrace.state.exported import ExportedTable

_ONE_A_KEY: Final = frozenset({"value", "reducing", "aggregating"})
"""Kinds of which a key, or a key and window, has one row."""

_IDENTITY: Final = {
    **dict.fromkeys(_ONE_A_KEY, (KEY, NAMESPACE)),
    "map": (KEY, NAMESPACE, ENTRY_KEY),
    TIMERS: ("time", KEY, NAMESPACE),
}
"""By kind, the columns in which no two rows are equal."""

_INSTEAD: Final = {ENTRY_KEY: ENTRY, WINDOW[1]: NAMESPACE}
"""Columns that others can stand for."""

_TAKES_NULL: Final = frozenset({EXPIRY, ENTRY})


@dataclass(frozen=True)
class StateColumns:
    """One state of an operator.

    Attributes:
        store: its name, as of :class:`~headrace.state_processor.StoredTable`.
        about: what is said of it in a savepoint: its kind, and how keys and values are stored.
        schema: its columns as backends take them in.
        is_new: whether a program declares it here; else it is one that a savepoint has.
    """

    store: str
    about: dict[str, Any]
    schema: pa.Schema
    is_new: bool = True

    @classmethod
    def keyed(cls, descriptor: StateDescriptor, codec: KeyCodec, *, by_window: bool = False) -> Self:
        """A state of keys, or of keys and windows."""
        keys = namespaced(codec) if by_window else codec.to_json()
        fields = [(KEY, codec.arrow_type), *([(NAMESPACE, pa.binary())] if by_window else []), *_elements(descriptor)]
        prefix = NAMESPACED_PREFIX if by_window else STORE_PREFIX
        return cls(prefix + descriptor.name, meta_of(descriptor, keys), pa.schema(fields))

    @classmethod
    def timers(cls, domain: str, codec: KeyCodec) -> Self:
        """The timers of a time domain."""
        layout = timer_layout(domain, codec)
        fields = [field for field in layout.schema if field.name not in (HASH, LIVE)]
        return cls(f"{TIMERS}/{domain}", layout.meta, pa.schema(fields))

    @classmethod
    def list_of(cls, kind: StateKind, descriptor: ListStateDescriptor) -> Self:
        """A list of subtasks, dealt out or whole."""
        fields = [(VALUE, descriptor.element_type.storage_type)]
        return cls(store_name(kind, descriptor.name), meta_of_list(descriptor), pa.schema(fields))

    @classmethod
    def broadcast(cls, descriptor: MapStateDescriptor) -> Self:
        """A broadcast state: the map of one key."""
        codec = KeyCodec.for_type(Types.INT())
        fields = [(KEY, codec.arrow_type), *_elements(descriptor)]
        name = store_name(StateKind.BROADCAST, descriptor.name)
        return cls(name, meta_of(descriptor, codec.to_json()), pa.schema(fields))

    @classmethod
    def of_stored(cls, table: ExportedTable) -> Self:
        """A state that a savepoint has."""
        return cls(table.store, table.about, table.schema, is_new=False)

    @property
    def subject(self) -> str:
        """What errors call it."""
        kind = self.about.get(KIND)
        kind, name = "table" if kind is None else str(kind), self.store.partition("/")[2] or self.store
        return f"{name} {kind}" if kind == TIMERS else f"{kind} state {name!r}"

    @cached_property
    def codec(self) -> KeyCodec | None:
        """How its keys are stored; None where nothing is said of that."""
        type_ = type_of_keys(self.about)
        return None if type_ is None else KeyCodec.for_type(type_)

    @property
    def is_broadcast(self) -> bool:
        """Whether all subtasks have the same rows."""
        return kind_of_store(self.store) is StateKind.BROADCAST

    @property
    def state_kind(self) -> StateKind:
        """Which kind of state an operator has with it."""
        return kind_of_store(self.store) or StateKind.KEYED

    def stored(self, given: pa.Table) -> pa.RecordBatch:
        """The rows as backends take them in.

        Args:
            given: the columns that :meth:`SavepointReader.read_table` gives, in any order; those that can be null may
                be left out.

        Raises:
            SavepointError: when columns are missing or unknown, and where rows are no such state.
        """
        try:
            arrays = {field.name: self._column(given, field) for field in self.schema if self._has(given, field)}
        except (InvalidTypeError, StateError) as error:
            raise self._refused(str(error)) from error
        rows = pa.RecordBatch.from_pydict(arrays)
        self._check_nulls(rows)
        return rows

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse columns that are unknown, and a lack of others.

        Raises:
            SavepointError: naming the column, and all that there can be.
        """
        takes = self._takes()
        for name in names:
            if name not in takes:
                raise self._refused(f"it takes no column {name!r}, but {', '.join(takes)}")
            if names.count(name) > 1:
                raise self._refused(f"the column {name!r} is there twice")
        for name in takes:
            is_needed = takes[name] or (name == WINDOW[1] and WINDOW[0] in names)
            if is_needed and name not in names and _INSTEAD.get(name) not in names:
                raise self._refused(f"the column {name!r} is missing: it takes {', '.join(takes)}")

    def _takes(self) -> dict[str, bool]:
        """The columns that can be given, and whether they have to be."""
        takes: dict[str, bool] = {}
        for field in self.schema:
            if field.name == KEY and self.is_broadcast:
                takes[KEY] = False
            elif field.name == KEY and self.codec is not None:
                takes |= {KEY: True, ENCODED: False}
            elif field.name == NAMESPACE:
                takes |= {WINDOW[0]: False, WINDOW[1]: self.about.get(KIND) != TIMERS, NAMESPACE: False}
            else:
                takes[field.name] = field.name not in _TAKES_NULL
        return takes

    def _has(self, given: pa.Table, field: pa.Field) -> bool:
        return field.name != EXPIRY or EXPIRY in given.column_names

    def _column(self, given: pa.Table, field: pa.Field) -> pa.Array:
        name = field.name
        if name == KEY and self.is_broadcast:
            return _key_of_broadcast(given)
        if name == KEY and self.codec is not None:
            return given_keys(self.codec, given, takes_objects=self.is_new)
        if name == NAMESPACE:
            return _namespaces(given)
        if name in (ENTRY_KEY, ENTRY) and self.about.get(KIND) == "map":
            return given_entries(_type(self.about, "key"), given, name, takes_objects=self.is_new)
        type_ = _type(self.about, "value") if name == VALUE else None
        array = column_of(given, name)
        return as_column(array, field.type) if type_ is None else fitted(type_, array)

    def _check_nulls(self, rows: pa.RecordBatch) -> None:
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            if column.null_count and name not in _TAKES_NULL and not (name == VALUE and self._has_null_values):
                row = column.is_null().index(True).as_py()
                raise self._refused(f"row {row}: {name!r} is null; leave such rows out")
            if name == NAMESPACE and self.about.get(KIND) != TIMERS and (row := column.index(b"").as_py()) >= 0:
                raise self._refused(f"row {row}: the window is null; leave such rows out")

    @property
    def _has_null_values(self) -> bool:
        return self.about.get(KIND) not in {*_ONE_A_KEY, "elements"} and not (
            self.about.get(KIND) == "list" and self.store.startswith(STORE_PREFIX)
        )

    def check_identity(self, rows: pa.RecordBatch) -> None:
        """Refuse a key that is there twice, or whatever no two rows are of.

        Args:
            rows: all that a task gets, at least, as :meth:`stored` gives them.

        Raises:
            SavepointError: with the row, as people read it.
        """
        names = [name for name in _IDENTITY.get(self.about.get(KIND, ""), ()) if name in rows.schema.names]
        if not names:
            return
        numbered = pa.table([*map(rows.column, names), pa.array(np.arange(rows.num_rows))], [*names, "row"])
        found = numbered.group_by(names).aggregate([("row", "count"), ("row", "max")])
        repeated = found.filter(pc.greater(found.column("row_count"), 1))
        if repeated.num_rows:
            row = pc.min(repeated.column("row_max")).as_py()
            columns = readable(rows.slice(row, 1), self.about).to_pylist()[0]
            told = {name: value for name, value in columns.items() if name not in (VALUE, EXPIRY) and value is not None}
            what = "timer" if TIMERS in self.store else "entry" if ENTRY_KEY in names else "key"
            raise self._refused(f"row {row} has the {what} of an earlier row: {told}")

    def _refused(self, why: str) -> SavepointError:
        return SavepointError(f"{self.subject}: {why}")


def _elements(descriptor: StateDescriptor) -> list[tuple[str, pa.DataType]]:
    """The columns of what a key has."""
    fields = [(VALUE, type_from_json(descriptor.stored_types()["value"]).storage_type)]
    if descriptor.kind == "map":
        key_type = type_from_json(descriptor.stored_types()["key"])
        codec = KeyCodec.for_type(key_type)
        shown = [] if codec.is_plain else [(ENTRY, key_type.storage_type)]
        fields = [(ENTRY_KEY, codec.arrow_type), *shown, *fields]
    return fields if descriptor.ttl is None else [*fields, (EXPIRY, pa.int64())]


def _type(about: dict[str, Any], role: str) -> TypeInformation | None:
    """The type of values, or of the keys of entries; None where nothing is said of that."""
    types = about.get(TYPES)
    if types is None:
        return None
    return type_from_json(types if "type" in types else types[role])


def _namespaces(given: pa.Table) -> pa.Array:
    if NAMESPACE in given.column_names:
        return conformed(column_of(given, NAMESPACE), pa.binary())
    bounds = [name for name in WINDOW if name in given.column_names]
    if not bounds:
        return pa.array([b""] * given.num_rows, pa.binary())
    arrays = [as_column(column_of(given, name), pa.int64()) for name in bounds]
    if len(arrays) == len(WINDOW):
        is_empty = pc.fill_null(pc.greater_equal(*arrays), False)
        if (row := is_empty.index(True).as_py()) >= 0:
            raise InvalidTypeError(f"row {row}: the window from {arrays[0][row]} to {arrays[1][row]} has no time in it")
    return stored_namespaces(pa.RecordBatch.from_arrays(arrays, bounds))


def _key_of_broadcast(given: pa.Table) -> pa.Array:
    """Broadcast state has one key, which a reader shows; others are none."""
    zeros = pa.array(np.zeros(given.num_rows, np.int64))
    if KEY in given.column_names and not column_of(given, KEY).equals(zeros):
        raise InvalidTypeError(f"broadcast state has no keys: leave the column {KEY!r} out")
    return zeros
