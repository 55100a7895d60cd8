"""``OutputTag``: the name of a side output."""

from typing import Any, Generic, overload

from headrace.common.errors import InvalidProgramError
from headrace.common.type_variables import T
from headrace.common.typeinfo import DeclaredType, TypeInformation, Types


class OutputTag(Generic[T]):
    """Names a side output; two tags are the same side output when their ids are equal.

    A process function emits to it with ``yield tag, value``.

    Args:
        tag_id: a non-empty name, unique within the operator.
        type_info: the type of the side output's records; pickled Python objects when left out.

    Raises:
        InvalidProgramError: when ``tag_id`` is empty.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment
        >>> odd = OutputTag("odd", Types.LONG())
        >>> class Split(ProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         yield value if value % 2 == 0 else (odd, value)
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> even = env.from_collection([1, 2, 3]).process(Split(), output_type=Types.LONG())
        >>> even.get_side_output(odd).execute_and_collect(limit=10)
        [1, 3]
    """

    __slots__ = ("tag_id", "type_info")

    @overload
    def __init__(self: "OutputTag", tag_id: str, type_info: None = None) -> None: ...
    @overload
    def __init__(self, tag_id: str, type_info: DeclaredType[T]) -> None: ...
    def __init__(self, tag_id: str, type_info: object = None) -> None:
        if not tag_id:
            raise InvalidProgramError("OutputTag needs a tag_id that is not empty")
        self.tag_id = tag_id
        self.type_info: TypeInformation[T] = Types.PICKLED_BYTE_ARRAY() if type_info is None else Types.of(type_info)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and other.tag_id == self.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r}, {self.type_info})"


ToSideOutput = tuple[OutputTag, Any]
"""The form in which a function yields records for a side output."""
