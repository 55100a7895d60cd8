"""What sources of topics have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.type_variables import T_co
from headrace.connectors.source import Boundedness, Source

if TYPE_CHECKING:
    from headrace.common.output_tag import OutputTag
    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.incoming_messages import MessageDeserializationSchema


class TopicSource(Source[T_co]):
    """Reads topics, of which every partition is a split.

    Args:
        topics: what users call them.
        schema: what records are made of.
        dead_letter: where messages go that cannot be read; None makes one fail the job.
        is_bounded: whether it ends.
    """

    def __init__(
        self, topics: str, schema: MessageDeserializationSchema, dead_letter: OutputTag | None, *, is_bounded: bool
    ) -> None:
        self._topics = topics
        self._schema = schema
        self._dead_letter = dead_letter
        self._is_bounded = is_bounded

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def produced_type(self) -> TypeInformation[T_co]:
        return self._schema.produced_type

    @property
    def dead_letter(self) -> OutputTag | None:
        return self._dead_letter

    @property
    def locations(self) -> tuple[str, ...]:
        return (self._topics,)
