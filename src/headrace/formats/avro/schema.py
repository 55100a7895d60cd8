"""Schemas of Avro: read from JSON, as nodes that know the type of their values."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import InvalidProgramError, InvalidTypeError, refused
from headrace.common.other_names import alike
from headrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    CompositeTypeInfo,
    DictTypeInfo,
    MapTypeInfo,
    SequenceTypeInfo,
    TypeInformation,
    Types,
)

NO_DEFAULT: Final = object()
"""Stands for the default of a field that has none: ``None`` is one."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """A value without parts: ``null``, ``boolean``, ``int``, ``long``, ``float``, ``double``, ``bytes``, ``string``.

    Attributes:
        kind: its name.
        type_info: the type of its values.
        logical: what it stands for, a ``timestamp-millis`` say, as far as it is known here; else None.
        scale: digits behind the point, of a ``decimal``.
    """

    kind: str
    type_info: TypeInformation
    logical: str | None = None
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Fixed:
    """A fixed number of bytes; of a ``decimal`` its unscaled value."""

    name: str
    size: int
    type_info: TypeInformation
    logical: str | None = None
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Enum:
    """One of some symbols; ``default`` stands for those that are not known."""

    name: str
    symbols: tuple[str, ...]
    default: str | None = None

    @property
    def type_info(self) -> TypeInformation:
        """The type of its values."""
        return Types.STRING()


@dataclass(frozen=True, slots=True)
class Array:
    """A list of values of one kind."""

    items: Node

    @property
    def type_info(self) -> TypeInformation:
        """The type of its values."""
        return Types.OBJECT_ARRAY(self.items.type_info)


@dataclass(frozen=True, slots=True)
class Map:
    """Values of one kind by strings."""

    values: Node

    @property
    def type_info(self) -> TypeInformation:
        """The type of its values."""
        return Types.MAP(Types.STRING(), self.values.type_info)


@dataclass(frozen=True, slots=True)
class RecordField:
    """A field of a record; aliases are names that it has in older schemas."""

    name: str
    node: Node
    aliases: tuple[str, ...] = ()
    default: Any = NO_DEFAULT


@dataclass(frozen=True, slots=True)
class Record:
    """Values of several kinds by name."""

    name: str
    fields: tuple[RecordField, ...]
    as_dict: bool = False

    @property
    def type_info(self) -> TypeInformation:
        """The type of its values."""
        names = tuple(field.name for field in self.fields)
        types = tuple(field.node.type_info for field in self.fields)
        return DictTypeInfo(types, names, self.name) if self.as_dict else Types.ROW_NAMED(names, types)


@dataclass(frozen=True, slots=True)
class UnionSchema:
    """A value of one of several kinds, ``null`` mostly among them."""

    branches: tuple[Node, ...]

    @property
    def present(self) -> tuple[Node, ...]:
        """The branches that are not ``null``."""
        return tuple(branch for branch in self.branches if not is_null(branch))

    @property
    def type_info(self) -> TypeInformation:
        """The type of its values: that of the branch that is not ``null``; objects where there are several."""
        present = self.present
        return present[0].type_info if len(present) == 1 else Types.PICKLED_BYTE_ARRAY()


Node = Primitive | Fixed | Enum | Array | Map | Record | UnionSchema


def is_null(node: Node) -> bool:
    """Tell whether there is never a value."""
    return isinstance(node, Primitive) and node.kind == "null"


class AvroSchema:
    """A schema of Avro, under PyFlink's name.

    Args:
        schema: the schema in JSON, as text or as what :mod:`json` makes of it.
        references: schemas that define what it refers to by name, each before those that refer to it.

    Raises:
        InvalidProgramError: when it is no schema of Avro, or one that contains itself.

    Examples:
        >>> from headrace.datastream.formats.avro import AvroSchema
        >>> order = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
        >>> AvroSchema.parse_string(order).type_info()
        RowTypeInfo(id: Long)
    """

    def __init__(self, schema: str | Mapping[str, object] | list[Any], references: Sequence[str] = ()) -> None:
        self._text = schema if isinstance(schema, str) else json.dumps(schema)
        self._references = tuple(references)
        self.node()

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """A schema of its text in JSON."""
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str | os.PathLike[str]) -> AvroSchema:
        """A schema of a file of JSON."""
        return AvroSchema(Path(file_path).read_text(encoding="utf-8"))

    def node(self, *, legacy_timestamp_mapping: bool = True, as_dicts: bool = False) -> Node:
        """The schema as nodes.

        Args:
            legacy_timestamp_mapping: whether moments are times without a zone, as in Flink by default; else
                they are times of UTC.
            as_dicts: whether records are dicts; else they are rows.
        """
        return _parsed((*self._references, self._text), legacy_timestamp_mapping, as_dicts)

    def type_info(self, *, legacy_timestamp_mapping: bool = True) -> TypeInformation:
        """The type of its values; times as for :class:`AvroRowDeserializationSchema`."""
        return self.node(legacy_timestamp_mapping=legacy_timestamp_mapping).type_info

    def __str__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AvroSchema):
            return False
        return self._text == other._text and self._references == other._references

    def __hash__(self) -> int:
        return hash((self._text, self._references))


GivenSchema = AvroSchema | str | Mapping[str, Any]
"""The forms in which a program may give a schema: itself, its text in JSON, or what :mod:`json` makes of that."""


def schema_given(schema: GivenSchema, method: str) -> AvroSchema:
    """The schema that a program gives to a method.

    Raises:
        InvalidTypeError: when it is none; the message begins with ``method``.
        InvalidProgramError: when it is no schema of Avro.
    """
    if isinstance(schema, AvroSchema):
        return schema
    if not isinstance(schema, str | Mapping):
        raise refused(f"{method} takes an AvroSchema, or its text in JSON, not {schema!r}", InvalidTypeError)
    return AvroSchema(schema)


@lru_cache(maxsize=256)
def _parsed(texts: tuple[str, ...], legacy_timestamp_mapping: bool, as_dicts: bool) -> Node:
    """The last one of some schemas, of which each may refer to those before."""
    parser = _SchemaParser(legacy_timestamp_mapping, as_dicts)
    try:
        documents = [json.loads(text) for text in texts]
    except ValueError as error:
        hint = "" if texts[-1].lstrip()[:1] in ("{", "[", '"') else "; that of a file is AvroSchema.parse_file(path)"
        raise InvalidProgramError(f"the schema of Avro is no JSON: {error}{hint}") from None
    except RecursionError:
        raise InvalidProgramError(_TOO_LARGE) from None
    try:
        node = [parser.node(document, "") for document in documents][-1]
        parts, levels = _measured(node, {})
    except InvalidProgramError:
        raise
    except RecursionError:
        raise InvalidProgramError(_TOO_LARGE) from None
    except (TypeError, AttributeError, ValueError) as error:
        raise InvalidProgramError(f"{texts[-1][:_SHOWN]} is no schema of Avro: {error}") from error
    if parts > _MOST_PARTS or levels > _MOST_LEVELS:
        raise InvalidProgramError(_TOO_LARGE)
    return node


def _measured(node: Node, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Return the parts and levels that values of a schema have; a type that is named twice counts twice."""
    if id(node) not in known:
        match node:
            case Record():
                inner = [field.node for field in node.fields]
            case UnionSchema():
                inner = list(node.branches)
            case Array():
                inner = [node.items]
            case Map():
                inner = [node.values]
            case _:
                inner = []
        found = [_measured(part, known) for part in inner]
        known[id(node)] = 1 + sum(parts for parts, _ in found), 1 + max((levels for _, levels in found), default=0)
    return known[id(node)]


_MOST_PARTS: Final = 20_000
_MOST_LEVELS: Final = 100
_SHOWN: Final = 200
_TOO_LARGE: Final = f"the schema of Avro is too large: it has more than {_MOST_PARTS} parts, or {_MOST_LEVELS} levels"


_PRIMITIVES: Final[dict[str, TypeInformation]] = {
    "null": Types.PICKLED_BYTE_ARRAY(),
    "boolean": Types.BOOLEAN(),
    "int": Types.INT(),
    "long": Types.LONG(),
    "float": Types.FLOAT(),
    "double": Types.DOUBLE(),
    "bytes": Types.BYTES(),
    "string": Types.STRING(),
}

_LOGICAL: Final[dict[tuple[str, str], TypeInformation]] = {
    ("int", "date"): Types.SQL_DATE(),
    ("int", "time-millis"): Types.SQL_TIME(),
    ("long", "time-micros"): Types.SQL_TIME(),
    ("long", "timestamp-millis"): Types.TIMESTAMP_LTZ(),
    ("long", "timestamp-micros"): Types.TIMESTAMP_LTZ(),
    ("long", "local-timestamp-millis"): Types.SQL_TIMESTAMP(),
    ("long", "local-timestamp-micros"): Types.SQL_TIMESTAMP(),
    ("bytes", "decimal"): Types.BIG_DEC(),
    ("fixed", "decimal"): Types.BIG_DEC(),
}
"""The logical types of values, and the types beneath; others are ignored, as the specification says."""


_COMPLEX: Final = ("array", "map", "record", "error", "enum", "fixed")


class _SchemaParser:
    """Makes nodes of a document.

    Args:
        legacy: see :meth:`AvroSchema.node`.
        as_dicts: likewise.
    """

    def __init__(self, legacy: bool, as_dicts: bool) -> None:
        self._legacy = legacy
        self._as_dicts = as_dicts
        self._named: dict[str, Node | None] = {}
        self._field_names: list[str] = []
        """The names of the fields around the node that is made just now, outermost first."""

    def node(self, document: object, namespace: str) -> Node:
        """The node of a part of the document; names in it are in ``namespace`` unless they say otherwise."""
        if isinstance(document, str):
            return self._reference(document, namespace)
        if isinstance(document, list):
            return UnionSchema(tuple(self.node(branch, namespace) for branch in document))
        if not isinstance(document, Mapping) or "type" not in document:
            raise InvalidProgramError(f"{json.dumps(document)} is no schema of Avro")
        kind = document["type"]
        if not isinstance(kind, str):
            return self.node(kind, namespace)
        try:
            return self._complex(kind, document, namespace)
        except KeyError as error:
            raise InvalidProgramError(f"{json.dumps(document)} is no schema of Avro: it has no {error}") from None

    def _complex(self, kind: str, document: Mapping[str, Any], namespace: str) -> Node:
        match kind:
            case "array":
                return Array(self.node(document["items"], namespace))
            case "map":
                return Map(self.node(document["values"], namespace))
            case "record" | "error" | "enum" | "fixed":
                return self._definition(kind, document, namespace)
        if kind in _PRIMITIVES:
            logical, type_info = self._logical(kind, document)
            return Primitive(kind, type_info or _PRIMITIVES[kind], logical, document.get("scale", 0))
        return self._reference(kind, namespace)

    def _definition(self, kind: str, document: Mapping[str, Any], namespace: str) -> Node:
        """A type with a name, by which it is known from here on."""
        name = _full_name(document["name"], document.get("namespace", namespace))
        self._named[name] = None
        node: Node
        if kind == "enum":
            node = Enum(name, tuple(document["symbols"]), document.get("default"))
        elif kind == "fixed":
            logical, type_info = self._logical("fixed", document)
            size = document["size"]
            if not isinstance(size, int) or not 0 <= size < 1 << 31:
                raise InvalidProgramError(f"{name} is fixed, and {size!r} is no number of bytes")
            node = Fixed(name, size, type_info or Types.BYTES(), logical, document.get("scale", 0))
        else:
            fields = tuple(self._field(field, name.rpartition(".")[0]) for field in document["fields"])
            node = Record(name, fields, self._as_dicts)
        self._named[name] = node
        return node

    def _field(self, document: Mapping[str, Any], namespace: str) -> RecordField:
        self._field_names.append(str(document["name"]))
        node = self.node(document["type"], namespace)
        self._field_names.pop()
        return RecordField(
            document["name"], node, tuple(document.get("aliases", ())), document.get("default", NO_DEFAULT)
        )

    def _reference(self, name: str, namespace: str) -> Node:
        if name in _PRIMITIVES:
            return Primitive(name, _PRIMITIVES[name])
        full = _full_name(name, namespace)
        known = full if full in self._named else name
        if known not in self._named:
            place = f"field {'.'.join(self._field_names)!r}: " if self._field_names else ""
            hint = alike(name, (*_PRIMITIVES, *_COMPLEX, *self._named))
            raise InvalidProgramError(f"{place}the schema of Avro has no type {name!r}{hint}")
        node = self._named[known]
        if node is None:
            raise InvalidProgramError(f"the type {known!r} of Avro contains itself, so its values have no columns")
        return node

    def _logical(self, kind: str, document: Mapping[str, Any]) -> tuple[str | None, TypeInformation | None]:
        logical = document.get("logicalType")
        type_info = _LOGICAL.get((kind, logical)) if isinstance(logical, str) else None
        if type_info == Types.TIMESTAMP_LTZ() and self._legacy:
            type_info = Types.SQL_TIMESTAMP()
        return (None, None) if type_info is None else (logical, type_info)


def _full_name(name: str, namespace: str | None) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


_SCHEMAS: Final[dict[BasicType, Any]] = {
    BasicType.STRING: "string",
    BasicType.CHAR: "string",
    BasicType.BOOLEAN: "boolean",
    BasicType.BYTE: "int",
    BasicType.SHORT: "int",
    BasicType.INT: "int",
    BasicType.LONG: "long",
    BasicType.FLOAT: "float",
    BasicType.DOUBLE: "double",
    BasicType.BYTES: "bytes",
    BasicType.SQL_DATE: {"type": "int", "logicalType": "date"},
    BasicType.SQL_TIME: {"type": "long", "logicalType": "time-micros"},
    BasicType.SQL_TIMESTAMP: {"type": "long", "logicalType": "local-timestamp-micros"},
    BasicType.TIMESTAMP_LTZ: {"type": "long", "logicalType": "timestamp-micros"},
}


class GenericRecordAvroTypeInfo(DictTypeInfo):
    """The type of dicts with the fields of a schema, records inside of it being dicts too.

    Args:
        schema: the schema of a record, or its text in JSON.

    Raises:
        InvalidTypeError: when the schema is none of a record.

    Examples:
        >>> from headrace.datastream.formats.avro import AvroSchema, GenericRecordAvroTypeInfo
        >>> order = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
        >>> GenericRecordAvroTypeInfo(AvroSchema.parse_string(order)).get_field_names()
        ['id']
    """

    if TYPE_CHECKING:

        def __init__(self, schema: GivenSchema) -> None: ...

    def __new__(cls, schema: GivenSchema) -> TypeInformation:  # type: ignore[misc]
        """The type of dicts that other programs declare too, so that no second kind of type has to be known."""
        node = schema_given(schema, "GenericRecordAvroTypeInfo").node(as_dicts=True)
        if not isinstance(node, Record):
            raise InvalidTypeError(f"a record of Avro has a schema of type record, not {schema}")
        return node.type_info


def avro_schema_of(
    kind: TypeInformation, name: str = "record", *, advice: str = "give the schema itself"
) -> AvroSchema:
    """The schema of records of a type; every field may be ``null``, as it may be ``None``.

    It is meant to be read without Flink's legacy mapping of timestamps: those with a zone are moments.

    Args:
        kind: the type.
        name: what the record is called.
        advice: what to do where no schema can be made.

    Raises:
        InvalidTypeError: when a field has no form in Avro without further words (BIG_DEC), or a name that it has not.
    """
    return AvroSchema(_schema(kind, name, name, advice))


def _schema(kind: TypeInformation, name: str, path: str, advice: str) -> Any:
    if isinstance(kind, BasicTypeInfo) and kind.basic_type in _SCHEMAS:
        return _SCHEMAS[kind.basic_type]
    if isinstance(kind, BasicTypeInfo) and kind.basic_type is BasicType.DECIMAL:
        storage = kind.storage_type
        return {"type": "bytes", "logicalType": "decimal", "precision": storage.precision, "scale": storage.scale}
    if isinstance(kind, CompositeTypeInfo):
        for field in kind.field_names:
            if not field.isidentifier():
                raise InvalidTypeError(
                    f"{path}.{field} is no name in Avro, which has letters, digits and _ alone: rename it"
                )
        pairs = zip(kind.field_names, kind.field_types, strict=True)
        fields = [
            {"name": n, "type": _nullable(of, f"{name}_{n}", f"{path}.{n}", advice), "default": None} for n, of in pairs
        ]
        return {"type": "record", "name": name, "fields": fields}
    if isinstance(kind, SequenceTypeInfo):
        return {"type": "array", "items": _nullable(kind.element_type, name, f"{path}[]", advice)}
    if isinstance(kind, MapTypeInfo) and kind.key_type in _TEXTS:
        return {"type": "map", "values": _nullable(kind.value_type, name, f"{path}[]", advice)}
    raise InvalidTypeError(f"{path} is {kind}, of which no schema of Avro can be made: {advice}")


def _nullable(kind: TypeInformation, name: str, path: str, advice: str) -> list[Any]:
    return ["null", _schema(kind, name, path, advice)]


_TEXTS: Final = (BasicTypeInfo(BasicType.STRING), BasicTypeInfo(BasicType.CHAR))
