"""What sinks of topics, and builders of such, have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.common.arguments import expect, refused
from headrace.common.output_tag import OutputTag
from headrace.common.type_variables import T_contra
from headrace.connectors.outgoing_messages import MessageSerializationSchema
from headrace.connectors.sink import DeliveryGuarantee, Sink

if TYPE_CHECKING:
    from typing import Self

    from headrace.common.typeinfo import TypeInformation


class TopicSink(Sink[T_contra]):
    """Writes records into topics.

    Args:
        schema: what messages are made of.
        guarantee: how often a record arrives.
        dead_letter: where records go that cannot be written; None makes one fail the job.
    """

    def __init__(
        self, schema: MessageSerializationSchema, guarantee: DeliveryGuarantee, dead_letter: OutputTag | None
    ) -> None:
        self._schema = schema
        self._guarantee = guarantee
        self._dead_letter = dead_letter

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        return self._guarantee

    @property
    def dead_letter(self) -> OutputTag | None:
        return self._dead_letter

    def validate(self, input_type: TypeInformation) -> None:
        self._schema.validate(input_type)

    def takes_changes(self, input_type: TypeInformation) -> bool:
        return self._schema.takes_changes or super().takes_changes(input_type)


class TopicSinkBuilder:
    """Puts a sink of topics together: what messages are made of records, and how often these arrive."""

    _name: ClassVar[str]
    """What is built, in errors."""
    _usual_guarantee: ClassVar[DeliveryGuarantee]
    """How often records arrive unless it is said."""

    def __init__(self) -> None:
        self._schema: MessageSerializationSchema | None = None
        self._guarantee = self._usual_guarantee
        self._dead_letter: OutputTag | None = None

    def set_record_serializer(self, record_serializer: MessageSerializationSchema) -> Self:
        """Say what messages are made of records.

        Raises:
            InvalidTypeError: when it is no ``MessageSerializationSchema``.
        """
        expect(record_serializer, MessageSerializationSchema, "set_record_serializer")
        self._schema = record_serializer
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Self:
        """Say how often a record arrives, failures or not; the sink says what that is unless it is said."""
        expect(delivery_guarantee, DeliveryGuarantee, "set_delivery_guarantee")
        self._guarantee = delivery_guarantee
        return self

    def set_dead_letter(self, output_tag: OutputTag) -> Self:
        """Send records that cannot be written to a side output of the sink, as ``(where, raw, reason)``, and go on.

        Without it one fails the job. The stream of them is ``stream.sink_to(sink).get_side_output(output_tag)``.
        """
        expect(output_tag, OutputTag, "set_dead_letter")
        self._dead_letter = output_tag
        return self

    def _needed_schema(self) -> MessageSerializationSchema:
        """What messages are made of.

        Raises:
            InvalidProgramError: when that was not said.
        """
        if self._schema is None:
            raise refused(f"a {self._name} needs topics and formats: call set_record_serializer()")
        return self._schema
