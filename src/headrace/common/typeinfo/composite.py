"""Types of values made of fields: tuples, rows, dicts with fixed keys, and the user's own record classes."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, ClassVar, Final

import pyarrow as pa

from headrace.common.errors import InvalidTypeError
from headrace.common.logical_types import ROW_KIND_COLUMN, RowType, decimal
from headrace.common.type_variables import T_co
from headrace.common.typeinfo.base import (
    PICKLED,
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    Json,
    ListTypeInfo,
    MapTypeInfo,
    MultisetTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    SequenceTypeInfo,
    TypeInformation,
)

VALUE_COLUMN: Final = "value"
"""The column of values that have no fields."""


@dataclass(frozen=True, slots=True, repr=False)
class CompositeTypeInfo(TypeInformation[T_co]):
    """A value with at least one field; each field is a column.

    Types and names may be given as any sequence, as PyFlink's programs give lists; they are kept as tuples.

    Examples:
        >>> from headrace.common import Types
        >>> reading = Types.TUPLE([Types.STRING(), Types.DOUBLE()])
        >>> reading.field_names, reading.field_types
        (('f0', 'f1'), (String, Double))
    """

    types: Sequence[TypeInformation]

    tag: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", tuple(self.types))
        names = self.field_names
        if not self.types:
            raise InvalidTypeError(f"Types.{self.tag} needs at least one field")
        if len(names) != len(self.types):
            raise InvalidTypeError(f"Types.{self.tag} got {len(names)} field names for {len(self.types)} field types")
        if len(set(names)) < len(names):
            repeated = min(name for name in names if names.count(name) > 1)
            raise InvalidTypeError(f"Types.{self.tag} got the field name {repeated!r} more than once")
        for name, type_info in zip(names, self.types, strict=True):
            if not isinstance(type_info, TypeInformation):
                raise InvalidTypeError(f"the type of field {name!r} is {type_info!r}, not a TypeInformation")

    @property
    def is_composite(self) -> bool:
        return True

    @property
    @abstractmethod
    def field_names(self) -> tuple[str, ...]: ...

    @property
    def field_types(self) -> tuple[TypeInformation, ...]:
        return tuple(self.types)

    @property
    def logical_type(self) -> RowType:
        types = tuple(map(attrgetter("logical_type"), self.types))
        return RowType(self.field_names, types, changelog=declares_changes(self), nullable=self.nullable)

    @property
    def arrow_fields(self) -> list[pa.Field]:
        """The columns that hold the values, all nullable."""
        return list(self.storage_type)

    @property
    def _fields_immutable(self) -> bool:
        return all(kind.is_immutable for kind in self.types)

    def _json_fields(self) -> list[Json]:
        pairs = zip(self.field_names, self.types, strict=True)
        return [{"name": name, "type": kind.to_json()} for name, kind in pairs]

    def _spelled_fields(self) -> str:
        return ", ".join(f"{name}: {kind}" for name, kind in zip(self.field_names, self.types, strict=True))


@dataclass(frozen=True, slots=True, repr=False)
class TupleTypeInfo(CompositeTypeInfo[tuple[Any, ...]]):
    """A Python tuple of fixed length; its fields are called ``f0``, ``f1`` and so on.

    Examples:
        >>> from headrace.common import Types
        >>> Types.TUPLE([Types.STRING(), Types.LONG()])
        TupleTypeInfo(String, Long)
    """

    tag = "TUPLE"

    @property
    def field_names(self) -> tuple[str, ...]:
        return positional_names(len(self.types))

    @property
    def is_immutable(self) -> bool:
        return self._fields_immutable

    def to_json(self) -> Json:
        return {"type": self.tag, "fields": [kind.to_json() for kind in self.types]}

    def _spelled(self) -> str:
        return f"TupleTypeInfo({', '.join(map(str, self.types))})"


@dataclass(frozen=True, slots=True, repr=False)
class RowTypeInfo(CompositeTypeInfo):
    """A :class:`~headrace.common.types.Row`, with or without field names.

    A row that is a record of a stream keeps its kind. One inside another value, or in state, keeps it only when
    ``changelog`` is set, in a column of its own after the fields; without it, a row whose kind is not ``INSERT`` is
    refused there rather than silently made an insertion. A stream of such rows is known to have changes, and its kinds
    are a column wherever its columns are seen.

    Examples:
        >>> from headrace.common import Types
        >>> Types.ROW_NAMED(["user", "clicks"], [str, int])
        RowTypeInfo(user: String, clicks: Long)
        >>> Types.ROW([str, int]).get_field_names()
        ['f0', 'f1']
    """

    names: Sequence[str] | None = None
    changelog: bool = False

    tag = "ROW"

    def __post_init__(self) -> None:
        if self.names is not None:
            object.__setattr__(self, "names", names_of(self.names))
        CompositeTypeInfo.__post_init__(self)

    @property
    def field_names(self) -> tuple[str, ...]:
        return positional_names(len(self.types)) if self.names is None else tuple(self.names)

    @property
    def is_immutable(self) -> bool:
        return False

    def to_json(self) -> Json:
        fields = [kind.to_json() for kind in self.types] if self.names is None else self._json_fields()
        described: Json = {"type": self.tag, "fields": fields}
        return {**described, "changelog": True} if self.changelog else described

    def _spelled(self) -> str:
        fields = ", ".join(map(str, self.types)) if self.names is None else self._spelled_fields()
        return f"RowTypeInfo({fields})"


def schema_of(type_info: TypeInformation) -> pa.Schema:
    """The columns of records of a type, which has some."""
    if isinstance(type_info, CompositeTypeInfo):
        return pa.schema(type_info.arrow_fields)
    return pa.schema([pa.field(VALUE_COLUMN, type_info.storage_type)])


def declares_changes(type_: TypeInformation | None) -> bool:
    """Return whether records of a type are declared to be changes (``changelog=True``)."""
    return type(type_) is RowTypeInfo and type_.changelog


@dataclass(frozen=True, slots=True, repr=False)
class NamedCompositeTypeInfo(CompositeTypeInfo):
    """A value whose fields have names and whose class has one.

    Examples:
        >>> from typing import NamedTuple
        >>> from headrace.common import Types
        >>> class Reading(NamedTuple):
        ...     sensor: str
        ...     value: float
        >>> Types.of(Reading).class_name
        'Reading'
    """

    names: tuple[str, ...]

    @property
    def field_names(self) -> tuple[str, ...]:
        return self.names

    @property
    @abstractmethod
    def class_name(self) -> str:
        """The name of the class of the values, without its module."""

    def to_json(self) -> Json:
        return {"type": self.tag, "class": self.class_name, "fields": self._json_fields()}

    def _spelled(self) -> str:
        return f"PojoTypeInfo<{self.class_name}, fields = [{self._spelled_fields()}]>"


@dataclass(frozen=True, slots=True, repr=False)
class NamedTupleTypeInfo(NamedCompositeTypeInfo):
    """Instances of a named tuple class.

    Examples:
        >>> from typing import NamedTuple
        >>> from headrace.common import Types
        >>> class Reading(NamedTuple):
        ...     sensor: str
        ...     value: float
        >>> Types.of(Reading).get_field_types()
        [String, Double]
    """

    record_class: type[Any] = field(default=tuple)

    tag = "NAMED_TUPLE"

    @property
    def class_name(self) -> str:
        return self.record_class.__qualname__

    @property
    def is_immutable(self) -> bool:
        return self._fields_immutable


@dataclass(frozen=True, slots=True, repr=False)
class DataclassTypeInfo(NamedCompositeTypeInfo):
    """Instances of a dataclass: its fields, nothing else that may hang on an instance.

    Examples:
        >>> from dataclasses import dataclass
        >>> from headrace.common import Types
        >>> @dataclass(frozen=True)
        ... class Reading:
        ...     sensor: str
        ...     value: float
        >>> Types.of(Reading).is_immutable
        True
    """

    record_class: type[Any] = field(default=object)

    tag = "DATACLASS"

    @property
    def class_name(self) -> str:
        return self.record_class.__qualname__

    @property
    def is_immutable(self) -> bool:
        return bool(self.record_class.__dataclass_params__.frozen) and self._fields_immutable


@dataclass(frozen=True, slots=True, repr=False)
class DictTypeInfo(NamedCompositeTypeInfo):
    """Dicts that all have the same string keys, such as those that a ``TypedDict`` describes.

    Examples:
        >>> from typing import TypedDict
        >>> from headrace.common import Types
        >>> class Reading(TypedDict):
        ...     sensor: str
        ...     value: float
        >>> Types.of(Reading).get_field_names()
        ['sensor', 'value']
    """

    declared_name: str = "dict"

    tag = "DICT"

    @property
    def class_name(self) -> str:
        return self.declared_name

    @property
    def is_immutable(self) -> bool:
        return False


@dataclass(frozen=True, slots=True, repr=False)
class DetachedTypeInfo(NamedCompositeTypeInfo):
    """A record class of which only the description was read: its values are given back as named rows.

    Examples:
        >>> from dataclasses import dataclass
        >>> from headrace.common import Types
        >>> from headrace.common.typeinfo import type_from_json
        >>> @dataclass
        ... class Reading:
        ...     sensor: str
        >>> type_from_json(Types.of(Reading).to_json())
        PojoTypeInfo<Reading, fields = [sensor: String]>
    """

    declared_name: str = ""
    declared_tag: str = DataclassTypeInfo.tag

    tag = "DETACHED"

    @property
    def class_name(self) -> str:
        return self.declared_name

    @property
    def is_immutable(self) -> bool:
        return False

    def to_json(self) -> Json:
        return {"type": self.declared_tag, "class": self.class_name, "fields": self._json_fields()}


def positional_names(count: int) -> tuple[str, ...]:
    """Flink's names of fields that have none: ``f0``, ``f1``, and so on."""
    return tuple(f"f{index}" for index in range(count))


def names_of(names: Sequence[Any]) -> tuple[str, ...]:
    """Checked field names.

    Raises:
        InvalidTypeError: when one is not a string, is empty, or is reserved.
    """
    for name in names:
        if not isinstance(name, str) or not name or name == ROW_KIND_COLUMN:
            raise InvalidTypeError(f"{name!r} cannot be a field name: use a non-empty string, not {ROW_KIND_COLUMN}")
    return tuple(names)


def type_from_json(described: Json) -> TypeInformation:
    """The type that a description stands for.

    A record class comes back as :class:`DetachedTypeInfo`, which describes itself in the same words and reads the
    same columns, but gives rows, since a description does not lead back to the class.

    Raises:
        InvalidTypeError: when the description is not one that ``to_json`` writes.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.common.typeinfo import type_from_json
        >>> described = Types.LIST(Types.LONG()).to_json()
        >>> described
        {'type': 'LIST', 'element': {'type': 'LONG'}}
        >>> type_from_json(described)
        ListTypeInfo<Long>
    """
    try:
        return _READERS[described["type"]](described)
    except (KeyError, TypeError) as error:
        raise InvalidTypeError(f"{described!r} does not describe a type") from error


def _basic(kind: BasicType) -> Callable[[Json], TypeInformation]:
    return lambda described: BasicTypeInfo(kind)


def _decimal(described: Json) -> TypeInformation:
    return BasicTypeInfo(BasicType.DECIMAL, decimal(described["precision"], described["scale"]))


def _sequence(info: type[SequenceTypeInfo]) -> Callable[[Json], TypeInformation]:
    return lambda described: info(type_from_json(described["element"]))


def _map(described: Json) -> TypeInformation:
    info = MultisetTypeInfo if described["type"] == MultisetTypeInfo.tag else MapTypeInfo
    return info(type_from_json(described["key"]), type_from_json(described["value"]))


def _tuple(described: Json) -> TypeInformation:
    return TupleTypeInfo(tuple(map(type_from_json, described["fields"])))


def _row(described: Json) -> TypeInformation:
    fields, changelog = described["fields"], described.get("changelog", False)
    if "name" in fields[0]:
        return RowTypeInfo(_types(fields), _names(fields), changelog)
    return RowTypeInfo(tuple(map(type_from_json, fields)), None, changelog)


def _dict(described: Json) -> TypeInformation:
    fields = described["fields"]
    return DictTypeInfo(_types(fields), _names(fields), described["class"])


def _detached(described: Json) -> TypeInformation:
    fields = described["fields"]
    return DetachedTypeInfo(_types(fields), _names(fields), described["class"], described["type"])


def _types(fields: list[Json]) -> tuple[TypeInformation, ...]:
    return tuple(type_from_json(field["type"]) for field in fields)


def _names(fields: list[Json]) -> tuple[str, ...]:
    return tuple(field["name"] for field in fields)


_READERS: Final[dict[str, Callable[[Json], TypeInformation]]] = {
    **{kind.name: _basic(kind) for kind in BasicType},
    **{
        info.tag: _sequence(info)
        for info in (ListTypeInfo, ObjectArrayTypeInfo, BasicArrayTypeInfo, PrimitiveArrayTypeInfo)
    },
    PICKLED: lambda described: PickledBytesTypeInfo(),
    BasicType.DECIMAL.name: _decimal,
    MapTypeInfo.tag: _map,
    MultisetTypeInfo.tag: _map,
    TupleTypeInfo.tag: _tuple,
    RowTypeInfo.tag: _row,
    DictTypeInfo.tag: _dict,
    NamedTupleTypeInfo.tag: _detached,
    DataclassTypeInfo.tag: _detached,
}
