"""Types of values made of fields: tuples, rows, dicts with fixed keys, and the user's own record classes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from headrace.common.errors import InvalidTypeError
from headrace.common.type_variables import T_co
from headrace.common.typeinfo.base import Json, TypeInformation

ROW_KIND_COLUMN = "__row_kind"
"""The column of a changelog row's kind, after those of its fields."""


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
        duplicates = sorted({name for name in names if names.count(name) > 1})
        if duplicates:
            raise InvalidTypeError(f"Types.{self.tag} got the field name {duplicates[0]!r} more than once")
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
    def arrow_fields(self) -> list[pa.Field]:
        """The columns that hold the values, all nullable."""
        pairs = zip(self.field_names, self.types, strict=True)
        return [*(pa.field(name, kind.storage_type) for name, kind in pairs), *self._extra_fields]

    @property
    def _extra_fields(self) -> tuple[pa.Field, ...]:
        return ()

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.struct(self.arrow_fields)

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

    def __str__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(str, self.types))})"


@dataclass(frozen=True, slots=True, repr=False)
class RowTypeInfo(CompositeTypeInfo):
    """A :class:`~headrace.common.row.Row`, with or without field names.

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
    def _extra_fields(self) -> tuple[pa.Field, ...]:
        return (pa.field(ROW_KIND_COLUMN, pa.int8()),) if self.changelog else ()

    @property
    def is_immutable(self) -> bool:
        return False

    def to_json(self) -> Json:
        fields = [kind.to_json() for kind in self.types] if self.names is None else self._json_fields()
        described: Json = {"type": self.tag, "fields": fields}
        return {**described, "changelog": True} if self.changelog else described

    def __str__(self) -> str:
        fields = ", ".join(map(str, self.types)) if self.names is None else self._spelled_fields()
        return f"RowTypeInfo({fields})"


def declares_changes(type_: TypeInformation | None) -> bool:
    """Whether records of a type are declared to be changes (``changelog=True``)."""
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

    def __str__(self) -> str:
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
