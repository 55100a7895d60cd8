"""``TypeSerializer``: how values of a class of one's own become bytes; windows of one's own have one."""

from abc import ABC, abstractmethod
from io import BytesIO
from typing import Generic

from headrace.common.public_module import public_module
from headrace.common.type_variables import T

__all__ = ["TypeSerializer"]


class TypeSerializer(ABC, Generic[T]):
    """Writes and reads values of one class. Equal values must give equal bytes: state is found by them.

    Two serializers are equal when they are of one class and have the same attributes.

    Examples:
        >>> from io import BytesIO
        >>> from headrace.common.serializer import TypeSerializer
        >>> class Words(TypeSerializer):
        ...     def serialize(self, element, stream):
        ...         stream.write(element.encode())
        ...     def deserialize(self, stream):
        ...         return stream.read().decode()
        >>> written = BytesIO()
        >>> Words().serialize("tea", written)
        >>> Words().deserialize(BytesIO(written.getvalue()))
        'tea'
    """

    @abstractmethod
    def serialize(self, element: T, stream: BytesIO) -> None:
        """Writes a value to the stream."""

    @abstractmethod
    def deserialize(self, stream: BytesIO) -> T:
        """Reads a value from the stream, which holds nothing else."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


public_module(__name__)
