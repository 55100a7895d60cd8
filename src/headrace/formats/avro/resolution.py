"""Schemas of writer and reader: what reads the values of the one as those of the other.

As the specification says: fields are found by name or by an alias of the reader, those that the writer has alone are
skipped, those that the reader has alone have their default, numbers are widened, a union is read as the branch that
fits.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from headrace.common.columns import array_to_values, layout_of, values_to_array
from headrace.common.errors import InvalidProgramError
from headrace.common.typeinfo import Types
from headrace.formats.avro.decoder import (
    Cursor,
    Decoder,
    array_decoder,
    converting,
    enum_decoder,
    fixed_decoder,
    map_decoder,
    null_decoder,
    object_decoder,
    read_booleans,
    read_doubles,
    read_floats,
    read_ints,
    read_longs,
    read_strings,
    record_decoder,
    skipping,
    union_decoder,
    unreadable_decoder,
)
from headrace.formats.avro.encoding import STORED, Boundaries, is_of_time, of_stored
from headrace.formats.avro.schema import (
    NO_DEFAULT,
    Array,
    AvroSchema,
    Enum,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    RecordField,
    UnionSchema,
    is_null,
)

_PRIMITIVES: Final[dict[str, Decoder]] = {
    "null": null_decoder(pa.null()),
    "boolean": read_booleans,
    "int": read_ints,
    "long": read_longs,
    "float": read_floats,
    "double": read_doubles,
    "bytes": Cursor.binaries,
    "string": read_strings,
}

_WIDENED: Final = frozenset(
    {
        ("int", "long"), ("int", "float"), ("int", "double"), ("long", "float"), ("long", "double"),
        ("float", "double"), ("string", "bytes"), ("bytes", "string"),
    }
)  # fmt: skip
"""The promotions that a reader may apply to a writer's values."""


AvroReader = Callable[[pa.Array, int], pa.RecordBatch]
"""Reads one record of each binary value, behind so many bytes of it.

It raises a ``ValueError`` when one of them cannot be read.
"""


@lru_cache(maxsize=256)
def avro_reader(
    writer: AvroSchema, reader: AvroSchema, *, legacy_timestamp_mapping: bool, as_dicts: bool = False
) -> AvroReader:
    """The reader of values of one schema as those of another one; made once.

    Args:
        writer: the schema that they were written with.
        reader: the schema that says what comes out.
        legacy_timestamp_mapping: as for :meth:`AvroSchema.node`.
        as_dicts: likewise.

    Raises:
        InvalidProgramError: when the one cannot be read as the other.
    """
    written, wanted = (
        schema.node(legacy_timestamp_mapping=legacy_timestamp_mapping, as_dicts=as_dicts) for schema in (writer, reader)
    )
    decoder, kind = decoder_of(written, wanted), wanted.type_info
    fields = layout_of(kind).schema

    def read(messages: pa.Array, skip: int) -> pa.RecordBatch:
        cursor = Cursor.of(messages, skip)
        values = decoder(cursor)
        cursor.finish()
        arrays = values.flatten() if kind.is_composite else [values]
        return pa.RecordBatch.from_arrays(arrays, schema=fields)

    return read


def decoder_of(writer: Node, reader: Node) -> Decoder:
    """Make the decoder of values of ``writer`` as those of ``reader``.

    Raises:
        InvalidProgramError: when that cannot be; the message says where and why.
    """
    if isinstance(writer, UnionSchema):
        return _of_union(writer, reader)
    if isinstance(reader, UnionSchema):
        return _as_branch(writer, reader)
    resolve = _RESOLVED.get((type(writer), type(reader)))
    if resolve is None:
        raise _mismatch(writer, reader)
    decoder: Decoder = resolve(writer, reader)
    return decoder


def _mismatch(writer: Node, reader: Node) -> InvalidProgramError:
    return InvalidProgramError(f"what was written as {_text_of(writer)} cannot be read as {_text_of(reader)}")


def _text_of(node: Node) -> str:
    if isinstance(node, Primitive):
        return node.logical or node.kind
    if isinstance(node, Record | Enum | Fixed):
        return f"{type(node).__name__.lower()} {node.name}"
    if isinstance(node, UnionSchema):
        return f"union of {' and '.join(map(_text_of, node.branches))}"
    return f"{type(node).__name__.lower()} of {_text_of(node.items if isinstance(node, Array) else node.values)}"


def _of_union(writer: UnionSchema, reader: Node) -> Decoder:
    """Each branch by itself; one that the reader does not take is an error only when it is met."""
    branches: list[Decoder] = []
    unreadable = 0
    for branch in writer.branches:
        try:
            branches.append(decoder_of(branch, reader))
        except InvalidProgramError as error:
            branches.append(unreadable_decoder(str(error)))
            unreadable += 1
    if unreadable == len(branches):
        raise _mismatch(writer, reader)
    return union_decoder(branches, reader.type_info.storage_type)


def _as_branch(writer: Node, reader: UnionSchema) -> Decoder:
    """Decode as the branch that is most like it."""
    storage = reader.type_info.storage_type
    if is_null(writer):
        if any(map(is_null, reader.branches)):
            return null_decoder(storage)
        raise _mismatch(writer, reader)
    for branch in sorted(reader.present, key=lambda branch: _text_of(branch) != _text_of(writer)):
        try:
            decoder = decoder_of(writer, branch)
        except InvalidProgramError:
            continue
        return decoder if len(reader.present) == 1 else object_decoder(decoder, branch.type_info)
    raise _mismatch(writer, reader)


def _primitive(writer: Primitive, reader: Primitive) -> Decoder:
    if writer.kind != reader.kind and (writer.kind, reader.kind) not in _WIDENED:
        raise _mismatch(writer, reader)
    if is_of_time(writer) and is_of_time(reader) and writer.logical != reader.logical:
        raise _mismatch(writer, reader)
    if is_null(reader):
        return null_decoder(reader.type_info.storage_type)
    decoder = _PRIMITIVES[writer.kind]
    return decoder if writer.kind == reader.kind and reader.logical is None else converting(decoder, reader)


def _fixed(writer: Fixed, reader: Fixed) -> Decoder:
    if writer.size != reader.size:
        raise _mismatch(writer, reader)
    decoder = fixed_decoder(writer.size)
    return decoder if reader.logical is None else converting(decoder, reader)


def _record(writer: Record, reader: Record) -> Decoder:
    places = {name: index for index, field in enumerate(reader.fields) for name in (field.name, *field.aliases)}
    places |= {field.name: index for index, field in enumerate(reader.fields)}
    steps: list[tuple[str, Decoder, int | None]] = []
    for field in writer.fields:
        index = places.get(field.name)
        if index is None:
            steps.append((field.name, _skipping(field.node), None))
        else:
            steps.append((reader.fields[index].name, _field(field, reader.fields[index]), index))
    found = {index for _, _, index in steps}
    lacking = {index: field for index, field in enumerate(reader.fields) if index not in found}
    missing = {index: _default(field) for index, field in lacking.items()}
    return record_decoder(steps, missing, layout_of(reader.type_info).schema)


def _field(writer: RecordField, reader: RecordField) -> Decoder:
    try:
        return decoder_of(writer.node, reader.node)
    except InvalidProgramError as error:
        raise InvalidProgramError(f"{reader.name}: {error}") from None


def _default(field: RecordField) -> pa.Array:
    if field.default is NO_DEFAULT:
        raise InvalidProgramError(
            f"{field.name}: the writer's schema has no such field, and the reader's no default for it: give it one"
        )
    return _constant(field.node, field.default)


def _skipping(node: Node) -> Decoder:
    if isinstance(node, UnionSchema):
        return union_decoder([_skipping(branch) for branch in node.branches], pa.null())
    return skipping(decoder_of(node, node))


def _constant(node: Node, value: Any) -> pa.Array:
    """A default as an array of one value."""
    storage = node.type_info.storage_type
    if isinstance(node, UnionSchema):
        return _constant_of_union(node, value)
    if isinstance(node, Record):
        fields = [_constant(f.node, value[f.name]) if f.name in value else _default(f) for f in node.fields]
        return pa.StructArray.from_arrays(fields, fields=list(storage))
    if isinstance(node, Array):
        return pa.ListArray.from_arrays([0, len(value)], _constants(node.items, value), type=storage)
    if isinstance(node, Map):
        keys = pa.array(list(value), pa.string())
        return pa.MapArray.from_arrays([0, len(value)], keys, _constants(node.values, value.values()), type=storage)
    if value is None or isinstance(node, Enum):
        return pa.array([value], storage)
    kind = "bytes" if isinstance(node, Fixed) else node.kind
    return of_stored(node, pa.array([value.encode("latin-1") if kind == "bytes" else value], STORED[kind]))


def _constants(node: Node, values: Any) -> pa.Array:
    parts = [_constant(node, value) for value in values]
    return pa.concat_arrays(parts) if parts else pa.array([], node.type_info.storage_type)


def _constant_of_union(node: UnionSchema, value: object) -> pa.Array:
    """A default of a union is one of its first branch."""
    first = node.branches[0]
    if value is None or is_null(first):
        return pa.nulls(1, node.type_info.storage_type)
    array = _constant(first, value)
    if len(node.present) == 1:
        return array
    return values_to_array(Types.PICKLED_BYTE_ARRAY(), array_to_values(first.type_info, array))


_RESOLVED: Final[dict[tuple[type, type], Callable[[Any, Any], Decoder]]] = {
    (Primitive, Primitive): _primitive,
    (Fixed, Fixed): _fixed,
    (Enum, Enum): enum_decoder,
    (Record, Record): _record,
    (Array, Array): lambda w, r: array_decoder(
        decoder_of(w.items, r.items), r.type_info.storage_type, Boundaries(w.items)
    ),
    (Map, Map): lambda w, r: map_decoder(
        decoder_of(w.values, r.values), r.type_info.storage_type, Boundaries(w.values, with_keys=True)
    ),
}
