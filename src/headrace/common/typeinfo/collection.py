"""Types of lists, arrays and maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa

from headrace.common.errors import InvalidTypeError
from headrace.common.type_variables import K, T, V
from headrace.common.typeinfo.base import Json, TypeInformation
from headrace.common.typeinfo.basic import FLOATS, WHOLE_NUMBERS, BasicType, BasicTypeInfo

_PRIMITIVES: Final = frozenset(
    BasicTypeInfo(kind) for kind in {BasicType.BOOLEAN, BasicType.CHAR} | WHOLE_NUMBERS | FLOATS
)


@dataclass(frozen=True, slots=True, repr=False)
class SequenceTypeInfo(TypeInformation[list[T]]):
    """Values that are lists of elements of one type. They are given back as lists.

    Examples:
        >>> from headrace.common import Types
        >>> Types.LIST(Types.STRING()).element_type
        String
    """

    element_type: TypeInformation[T]

    tag: ClassVar[str]
    spelling: ClassVar[str]
    nullable_elements: ClassVar[bool] = True
    allowed_elements: ClassVar[frozenset[BasicTypeInfo] | None] = None

    def __post_init__(self) -> None:
        allowed = self.allowed_elements
        if allowed is not None and self.element_type not in allowed:
            names = ", ".join(sorted(info.basic_type.name for info in allowed))
            raise InvalidTypeError(f"Types.{self.tag} takes one of {names}, not {self.element_type}: use Types.LIST")

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.list_(self.element_type.storage_type)

    @property
    def is_immutable(self) -> bool:
        return False

    def to_json(self) -> Json:
        return {"type": self.tag, "element": self.element_type.to_json()}

    def __str__(self) -> str:
        return f"{self.spelling}<{self.element_type}>"


class ListTypeInfo(SequenceTypeInfo[T]):
    """A Python list.

    Examples:
        >>> from headrace.common import Types
        >>> Types.LIST(Types.LONG()) == Types.of(list[int])
        True
    """

    __slots__ = ()
    tag = "LIST"
    spelling = "ListTypeInfo"


class ObjectArrayTypeInfo(SequenceTypeInfo[T]):
    """An array of anything, with ``None`` where an element is missing.

    Examples:
        >>> from headrace.common import Types
        >>> Types.OBJECT_ARRAY(Types.STRING())
        ObjectArrayTypeInfo<String>
    """

    __slots__ = ()
    tag = "OBJECT_ARRAY"
    spelling = "ObjectArrayTypeInfo"


class BasicArrayTypeInfo(SequenceTypeInfo[T]):
    """An array of numbers or strings, with ``None`` where an element is missing.

    Examples:
        >>> from headrace.common import Types
        >>> Types.BASIC_ARRAY(Types.STRING())
        BasicArrayTypeInfo<String>
    """

    __slots__ = ()
    tag = "BASIC_ARRAY"
    spelling = "BasicArrayTypeInfo"
    allowed_elements = _PRIMITIVES | {BasicTypeInfo(BasicType.STRING)}


class PrimitiveArrayTypeInfo(SequenceTypeInfo[T]):
    """An array of numbers, none of them missing.

    Examples:
        >>> from headrace.common import Types
        >>> Types.PRIMITIVE_ARRAY(Types.DOUBLE())
        PrimitiveArrayTypeInfo<Double>
    """

    __slots__ = ()
    tag = "PRIMITIVE_ARRAY"
    spelling = "PrimitiveArrayTypeInfo"
    nullable_elements = False
    allowed_elements = _PRIMITIVES


@dataclass(frozen=True, slots=True, repr=False)
class MapTypeInfo(TypeInformation[dict[K, V]]):
    """A dict whose keys are of one type, none of them ``None``, and whose values are of one type.

    Examples:
        >>> from headrace.common import Types
        >>> Types.of(dict[str, int]).value_type
        Long
    """

    key_type: TypeInformation[K]
    value_type: TypeInformation[V]

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.map_(self.key_type.storage_type, self.value_type.storage_type)

    @property
    def is_immutable(self) -> bool:
        return False

    def to_json(self) -> Json:
        return {"type": "MAP", "key": self.key_type.to_json(), "value": self.value_type.to_json()}

    def __str__(self) -> str:
        return f"MapTypeInfo<{self.key_type}, {self.value_type}>"
