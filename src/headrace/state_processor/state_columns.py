"""``StateColumns``: how a state is stored, and what given rows become in it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import list_offsets
from headrace.common.columns import array_to_values, conformed, values_to_array
from headrace.common.errors import InvalidTypeError, SavepointError, StateError
from headrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    CompositeTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    NamedCompositeTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    SequenceTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
    type_from_json,
)
from headrace.savepoint.tables import ENCODED, WINDOW, codec_of_keys, readable, readable_keys, stored_namespaces
from headrace.state.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from headrace.state.exported_tables import NAMESPACE, ExportedTable
from headrace.state.keyed.namespaces import namespaced
from headrace.state.keyed.table import meta_of
from headrace.state.keys import KeyCodec
from headrace.state.keys.typed import is_declared
from headrace.state.operator_state import meta_of_list
from headrace.state.protocols import NAMESPACED_PREFIX, STORE_PREFIX, StateKind, kind_of_store, store_name
from headrace.state.runs.layout import ENTRY, ENTRY_KEY, EXPIRY, HASH, KEY, KIND, LIVE, TIMERS, TYPES, VALUE
from headrace.state.timers import timer_layout


def in_words(type_: TypeInformation) -> str:
    """A type in words.

    >>> from headrace.common import Types
    >>> in_words(Types.ROW_NAMED(["user", "visits"], [Types.STRING(), Types.LIST(Types.SQL_DATE())]))
    'Row(user: String, visits: List<Date>)'
    >>> in_words(Types.MAP(Types.STRING(), Types.TUPLE([Types.LONG(), Types.PICKLED_BYTE_ARRAY()])))
    'Map<String, Tuple(Long, any object)>'
    >>> in_words(Types.BYTES())
    'Bytes'
    """
    for kind, words in _WORDS:
        if isinstance(type_, kind):
            return words(type_)
    return str(type_)


def _fields(type_: CompositeTypeInfo) -> str:
    named = zip(type_.field_names, type_.field_types, strict=True)
    return ", ".join(f"{name}: {in_words(field)}" for name, field in named)


def _basic(type_: BasicTypeInfo) -> str:
    return "Bytes" if type_.basic_type is BasicType.BYTES else str(type_).removesuffix("TypeInfo")


def _row(type_: RowTypeInfo) -> str:
    return f"Row({_fields(type_)})" if type_.names is not None else f"Row({_types(type_)})"


def _types(type_: CompositeTypeInfo) -> str:
    return ", ".join(map(in_words, type_.field_types))


_WORDS: Final[tuple[tuple[type, Callable[[Any], str]], ...]] = (
    (BasicTypeInfo, _basic),
    (PickledBytesTypeInfo, lambda _: "any object"),
    (TupleTypeInfo, lambda type_: f"Tuple({_types(type_)})"),
    (RowTypeInfo, _row),
    (NamedCompositeTypeInfo, lambda type_: f"{type_.class_name}({_fields(type_)})"),
    (ListTypeInfo, lambda type_: f"List<{in_words(type_.element_type)}>"),
    (SequenceTypeInfo, lambda type_: f"Array<{in_words(type_.element_type)}>"),
    (MapTypeInfo, lambda type_: f"Map<{in_words(type_.key_type)}, {in_words(type_.value_type)}>"),
)
"""The types that Flink spells by the name of a class; all others are words as they are."""


_AS_TEXT: Final = frozenset({BasicType.BIG_INT, BasicType.BIG_DEC, BasicType.CHAR})
"""Types whose columns are text, which not every text is of."""

_PICKLE_BEGINS: Final = b"\x80"
"""The beginning of pickles, since protocol 2."""


def fitted(type_: TypeInformation, given: pa.Array) -> pa.Array:
    """The values of a column as one of type ``type_.storage_type``.

    Records have the same fields, in any order. Numbers become those of another type where they are equal to them.

    Raises:
        InvalidTypeError: when values do not fit the type.
    """
    if pa.types.is_dictionary(given.type):
        given = given.dictionary_decode()
    if pa.types.is_null(given.type):
        return pa.nulls(len(given), type_.storage_type)
    for kind, fit in _FITTED:
        if isinstance(type_, kind):
            return fit(type_, given)
    return as_column(given, type_.storage_type)


def as_column(given: pa.Array, storage: pa.DataType) -> pa.Array:
    """A column as one of an Arrow type. Times are no numbers, which might be of any unit.

    Raises:
        InvalidTypeError: when it cannot be cast without loss.
    """
    is_number = pa.types.is_integer(storage) or pa.types.is_floating(storage)
    if is_number and pa.types.is_temporal(given.type):
        raise InvalidTypeError(
            f"a column of type {given.type} cannot be read as {storage}, whose unit nobody knows: make numbers of it, "
            "milliseconds since 1970 for what is a time in a job"
        )
    return conformed(given, storage)


def _fitted_records(type_: CompositeTypeInfo, given: pa.Array) -> pa.Array:
    fields = type_.arrow_fields
    wanted = [field.name for field in fields]
    if not pa.types.is_struct(given.type):
        raise InvalidTypeError(
            f"a column of type {given.type} cannot be read as {in_words(type_)}, a record of {wanted}"
        )
    names = [given.type.field(place).name for place in range(given.type.num_fields)]
    if sorted(names) != sorted(wanted):
        raise InvalidTypeError(f"records with the fields {names} are no {in_words(type_)}, whose fields are {wanted}")
    kinds = type_.field_types
    columns = [
        _within(field.name, kinds[place], given.field(names.index(field.name)))
        if place < len(kinds)
        else conformed(given.field(names.index(field.name)), field.type)  # the kind of a change
        for place, field in enumerate(fields)
    ]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=given.is_null())


def _within(name: str, type_: TypeInformation, given: pa.Array) -> pa.Array:
    try:
        return fitted(type_, given)
    except InvalidTypeError as error:
        raise InvalidTypeError(f"field {name!r}: {error}") from error


def _fitted_lists(type_: SequenceTypeInfo, given: pa.Array) -> pa.Array:
    kind = given.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        raise InvalidTypeError(f"a column of type {kind} cannot be read as {in_words(type_)}")
    elements = fitted(type_.element_type, given.flatten())
    if elements.null_count and not type_.nullable_elements:
        raise InvalidTypeError(f"an element is null, which no element of {in_words(type_)} can be")
    return pa.ListArray.from_arrays(list_offsets(given), elements, type=type_.storage_type, mask=given.is_null())


def _fitted_maps(type_: MapTypeInfo, given: pa.Array) -> pa.Array:
    if not pa.types.is_map(given.type):
        raise InvalidTypeError(f"a column of type {given.type} cannot be read as {in_words(type_)}")
    kind = given.type
    lists = given.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
    entries = lists.flatten()
    keys, values = fitted(type_.key_type, entries.field(0)), fitted(type_.value_type, entries.field(1))
    return pa.MapArray.from_arrays(list_offsets(lists), keys, values, type=type_.storage_type, mask=given.is_null())


def _pickled(type_: PickledBytesTypeInfo, given: pa.Array) -> pa.Array:
    """Bytes are pickles, as a reader gives them; everything else becomes one."""
    if not (pa.types.is_binary(given.type) or pa.types.is_large_binary(given.type)):
        return values_to_array(type_, given.to_pylist())
    given = given.cast(pa.binary())
    if not pc.all(pc.fill_null(pc.starts_with(given, _PICKLE_BEGINS), True)).as_py():
        raise InvalidTypeError("values without a declared type are pickles, which these bytes are not")
    return given


def _fitted_basic(type_: BasicTypeInfo, given: pa.Array) -> pa.Array:
    if type_.basic_type not in _AS_TEXT:
        return as_column(given, type_.storage_type)
    is_stored = given.type.equals(type_.storage_type)
    try:
        return values_to_array(type_, array_to_values(type_, given) if is_stored else given.to_pylist())
    except (ArithmeticError, ValueError) as error:  # text that is no number
        raise InvalidTypeError(f"a value of the column is no {in_words(type_)}: {error}") from error


_FITTED: Final[tuple[tuple[type, Callable[..., pa.Array]], ...]] = (
    (CompositeTypeInfo, _fitted_records),
    (SequenceTypeInfo, _fitted_lists),
    (MapTypeInfo, _fitted_maps),
    (PickledBytesTypeInfo, _pickled),
    (BasicTypeInfo, _fitted_basic),
)


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
        """Its name in errors."""
        kind = self.about.get(KIND)
        kind, name = "table" if kind is None else str(kind), self.store.partition("/")[2] or self.store
        return f"{name} {kind}" if kind == TIMERS else f"{kind} state {name!r}"

    @cached_property
    def codec(self) -> KeyCodec | None:
        """Return how its keys are stored; None where nothing is said of that."""
        return codec_of_keys(self.about)

    @property
    def is_broadcast(self) -> bool:
        """Return whether all subtasks have the same rows."""
        return kind_of_store(self.store) is StateKind.BROADCAST

    @property
    def state_kind(self) -> StateKind:
        """Return which kind of state an operator has with it."""
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
            return given_entries(type_from_json(self.about[TYPES]["key"]), given, name, takes_objects=self.is_new)
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
            key = {name: each for name, each in columns.items() if name not in (VALUE, EXPIRY) and each is not None}
            what = "timer" if TIMERS in self.store else "entry" if ENTRY_KEY in names else "key"
            raise self._refused(f"row {row} has the {what} of an earlier row: {key}")

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


def given_keys(codec: KeyCodec, given: pa.Table, *, takes_objects: bool) -> pa.Array:
    """The column ``key``, or what ``key_encoded`` says where that is given beside it.

    Args:
        codec: how keys are stored.
        given: the columns.
        takes_objects: whether keys without a declared type are what the column has. Not so of a state that was stored:
            it may be what a reader has shown for them.

    Raises:
        InvalidTypeError: when keys do not fit their type, or the two columns say different things.
    """
    if ENCODED in given.column_names:
        return _encoded(codec, given)
    if not takes_objects and not is_declared(codec.type):
        raise InvalidTypeError(f"keys have no declared type: the column {ENCODED!r} has to be among those given")
    return _canonical(codec, column_of(given, KEY), KEY)


def given_entries(type_: TypeInformation, given: pa.Table, name: str, *, takes_objects: bool) -> pa.Array:
    """The column ``entry_key`` or ``entry`` of a map; either may be given where keys of entries have a type.

    Raises:
        InvalidTypeError: when keys of entries do not fit their type.
    """
    codec = KeyCodec.for_type(type_)
    column = ENTRY if ENTRY in given.column_names else ENTRY_KEY
    if not is_declared(type_):
        if column == ENTRY and ENTRY_KEY in given.column_names:  # as a reader gives both
            return fitted(type_, column_of(given, ENTRY)) if name == ENTRY else _as_stored(codec, given, ENTRY_KEY)
        if not takes_objects:
            raise InvalidTypeError(
                f"keys of entries have no declared type: the columns {ENTRY_KEY!r} and {ENTRY!r} have to be among "
                "those given"
            )
    keys = column_of(given, column)
    return fitted(type_, keys) if name == ENTRY else _canonical(codec, keys, column)


def _canonical(codec: KeyCodec, keys: pa.Array, name: str) -> pa.Array:
    if keys.null_count and not codec.takes_nulls:
        row = keys.is_null().index(True).as_py()
        raise InvalidTypeError(f"row {row}: {name!r} is null, and every row is of a key")
    if isinstance(codec.type, PickledBytesTypeInfo):
        return codec.encode(keys.to_pylist()).values
    try:
        return codec.from_array(fitted(codec.type, keys)).values
    except InvalidTypeError as error:
        raise InvalidTypeError(f"column {name!r}: {error}") from error


def _encoded(codec: KeyCodec, given: pa.Table) -> pa.Array:
    encoded = _as_stored(codec, given, ENCODED)
    shown = readable_keys(codec, encoded)[KEY]
    given_keys = column_of(given, KEY)
    given_keys = fitted(codec.type, given_keys) if is_declared(codec.type) else given_keys
    for row, (own, other) in enumerate(zip(shown.to_pylist(), given_keys.to_pylist(), strict=True)):
        if repr(own) != repr(other):  # NaN is what it is
            raise InvalidTypeError(
                f"row {row}: {ENCODED!r} is of the key {own!r}, and {KEY!r} is {other!r}; leave {ENCODED!r} out, and "
                "the keys become others"
            )
    return encoded


def _as_stored(codec: KeyCodec, given: pa.Table, name: str) -> pa.Array:
    keys = conformed(column_of(given, name), codec.arrow_type)
    if keys.null_count:
        raise InvalidTypeError(f"row {keys.is_null().index(True).as_py()}: {name!r} is null")
    return keys


def column_of(given: pa.Table, name: str) -> pa.Array:
    """One column in one piece; of nulls where there is none.

    Raises:
        InvalidTypeError: when it is more than an array of its type can hold.
    """
    if name not in given.column_names:
        return pa.nulls(given.num_rows)
    try:
        column = given.column(name).combine_chunks()
        return column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
    except pa.ArrowInvalid as error:
        raise InvalidTypeError(f"column {name!r} is too large ({error}): give a DataFrame of Spark") from error
