"""Columns as values of Avro: of each column the bytes of all its values, which are joined row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.columns import array_to_values, values_to_array
from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import Types
from headrace.common.values import handler_of
from headrace.formats.avro.logical import to_stored
from headrace.formats.avro.schema import Array, Enum, Fixed, Map, Node, Primitive, Record, Union, is_null
from headrace.formats.avro.varints import binary_array, write_varints, zigzag

if TYPE_CHECKING:
    import numpy.typing as npt


def encode_records(node: Node, columns: pa.RecordBatch) -> pa.Array:
    """The bytes of records.

    Args:
        node: the schema.
        columns: the records, under the schema of the node's type.

    Raises:
        InvalidTypeError: when a value does not fit the schema; the message names the row and the field.
    """
    if isinstance(node, Record):
        return _joined(
            [_encoded(f.node, c, f.name) for f, c in zip(node.fields, columns.columns, strict=True)], columns
        )
    return _encoded(node, columns.column(0), "the value")


def _encoded(node: Node, array: pa.Array, where: str) -> pa.Array:
    """The bytes of the values of a column, none of them null."""
    if isinstance(node, Union):
        return _union(node, array, where)
    if array.null_count and not is_null(node):
        row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
        raise InvalidTypeError(f"row {row}, {where}: got None, which the Avro schema does not take there")
    encode: Callable[[Any, pa.Array, str], pa.Array] = _ENCODED[type(node)]
    return encode(node, array, where)


def _joined(parts: list[pa.Array], rows: Any) -> pa.Array:
    """The bytes of several columns, row by row."""
    if not parts:
        return pa.array([b""] * len(rows), pa.binary())
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))


def _integers(values: npt.NDArray[np.int64]) -> pa.Array:
    return write_varints(zigzag(values))


def _primitive(node: Primitive, array: pa.Array, where: str) -> pa.Array:
    array = to_stored(node, array, where)
    match node.kind:
        case "null":
            return pa.array([b""] * len(array), pa.binary())
        case "boolean":
            return _of_width(array.to_numpy(zero_copy_only=False).astype(np.uint8), 1)
        case "int" | "long":
            return _integers(array.to_numpy(zero_copy_only=False).astype(np.int64))
        case "float" | "double":
            values = array.to_numpy(zero_copy_only=False)
            return _of_width(values.astype(values.dtype.newbyteorder("<")).view(np.uint8), values.dtype.itemsize)
    data = array.cast(pa.binary())
    return _joined([_integers(pc.binary_length(data).to_numpy(zero_copy_only=False).astype(np.int64)), data], data)


def _of_width(data: npt.NDArray[np.uint8], width: int) -> pa.Array:
    return binary_array(data, np.arange(len(data) // width + 1) * width)


def _fixed(node: Fixed, array: pa.Array, where: str) -> pa.Array:
    data = to_stored(node, array, where)
    wrong = pc.not_equal(pc.binary_length(data), node.size)
    if pc.any(wrong, min_count=0).as_py():
        found = len(data.filter(wrong)[0].as_py())
        raise InvalidTypeError(f"{where}: got {found} bytes, and {node.name} of the Avro schema has {node.size}")
    return data


def _enum(node: Enum, array: pa.Array, where: str) -> pa.Array:
    places = pc.index_in(array, pa.array(node.symbols, pa.string()))
    if places.null_count:
        unknown = array.filter(places.is_null())[0].as_py()
        raise InvalidTypeError(f"{where}: {node.name} of the Avro schema has no symbol {unknown!r}")
    return _integers(places.to_numpy(zero_copy_only=False).astype(np.int64))


def _record(node: Record, array: pa.Array, where: str) -> pa.Array:
    parts = [_encoded(f.node, c, f"{where}.{f.name}") for f, c in zip(node.fields, array.flatten(), strict=True)]
    return _joined(parts, array)


def _array(node: Array, array: pa.Array, where: str) -> pa.Array:
    return _in_one_block(array.offsets, _encoded(node.items, array.flatten(), f"{where}[]"))


def _map(node: Map, array: pa.Array, where: str) -> pa.Array:
    start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
    keys, items = (part.slice(start, stop - start) for part in (array.keys, array.items))
    text = Primitive("string", Types.STRING())
    entries = _joined([_encoded(text, keys, f"{where}, key"), _encoded(node.values, items, f"{where}[]")], keys)
    return _in_one_block(array.offsets, entries)


def _in_one_block(offsets: pa.Array, elements: pa.Array) -> pa.Array:
    """How many elements there are, the elements, and a zero; where there are none, the zero alone."""
    bounds = offsets.to_numpy() - offsets[0].as_py()
    counts = np.diff(bounds).astype(np.int64)
    together = pc.binary_join(
        pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), elements), pa.scalar(b"", pa.binary())
    )
    numbers = pc.if_else(pa.array(counts > 0), _integers(counts), pa.scalar(b"", pa.binary()))
    ends = pa.repeat(pa.scalar(b"\x00", pa.binary()), len(counts))
    return _joined([numbers, together, ends], counts)


def _union(node: Union, array: pa.Array, where: str) -> pa.Array:
    present = node.present
    if len(present) > 1:
        return _union_of_objects(node, array, where)
    nullable = len(node.branches) > len(present)
    if not nullable or not present:
        number = _integers(np.zeros(len(array), np.int64))
        return _joined([number, _encoded(node.branches[0], array, where)], array)
    null_number = int(is_null(node.branches[1]))
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    numbers = _integers(np.where(valid, 1 - null_number, null_number))
    dense = _encoded(present[0], array.drop_null(), where)
    values = dense.take(pa.array(np.cumsum(valid) - 1, mask=~valid)).fill_null(b"")
    return _joined([numbers, values], array)


def _union_of_objects(node: Union, array: pa.Array, where: str) -> pa.Array:
    """Each object as the first branch whose type it has, or into which it can be made."""
    written = []
    for value in array_to_values(Types.PICKLED_BYTE_ARRAY(), array):
        number = _branch_of(node, value, where)
        branch = node.branches[number]
        body = _encoded(branch, values_to_array(branch.type_info, [value]), where)[0].as_py()
        written.append(_integers(np.array([number]))[0].as_py() + body)
    return pa.array(written, pa.binary())


def _branch_of(node: Union, value: Any, where: str) -> int:
    if value is None:
        for number, branch in enumerate(node.branches):
            if is_null(branch):
                return number
        raise InvalidTypeError(f"{where}: got None, which the Avro schema does not take there")
    kinds = [(number, handler_of(b.type_info)) for number, b in enumerate(node.branches) if not is_null(b)]
    for number, handler in kinds:
        if handler.is_coerced(value):
            return number
    for number, handler in kinds:
        try:
            handler.coerce(value)
        except InvalidTypeError:
            continue
        return number
    raise InvalidTypeError(f"{where}: {value!r} fits none of the types that the Avro schema has there")


_ENCODED: Final[dict[type, Callable[[Any, pa.Array, str], pa.Array]]] = {
    Primitive: _primitive,
    Fixed: _fixed,
    Enum: _enum,
    Record: _record,
    Array: _array,
    Map: _map,
}
