"""Sources and sinks of topics: what those of Kafka and of the embedded log share, and what their builders share."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Final, Self

from headrace.common.builder import Builder
from headrace.common.errors import ConfigurationError, InvalidTypeError, expect, refused, uncalled
from headrace.common.messages import TopicPartition
from headrace.common.output_tag import OutputTag
from headrace.common.serialization import DeserializationSchema, SchemaCheck
from headrace.common.type_variables import T_co, T_contra
from headrace.common.typeinfo import TypeInformation
from headrace.connectors.messages import MessageDeserializationSchema, MessageSerializationSchema
from headrace.connectors.partitions import (
    A_PARTITION,
    NOTHING,
    OffsetsInitializer,
    ReadingPlan,
    Subscription,
)
from headrace.connectors.sink import DeliveryGuarantee, Sink
from headrace.connectors.source import Boundedness, Source
from headrace.connectors.topic_state import TopicsPlace

GROUP: Final = "group.id"
DISCOVERY: Final = "partition.discovery.interval.ms"
RESET: Final = "auto.offset.reset"
_COMMITS: Final = "commit.offsets.on.checkpoint"

_DISCOVERY_MILLIS: Final = "300000"
"""The default interval of looking for new partitions; Flink's value."""


class MessageSourceBuilder(Builder):
    """Puts a source of messages together: from where to where, and what records are made of.

    What says how they are read is kept under the names that Kafka has for it, whatever log they are in.
    """

    def __init__(self) -> None:
        super().__init__()
        self._properties: dict[str, str] = {}
        self._plan = ReadingPlan()

    def set_group_id(self, group_id: str) -> Self:
        """The consumer group whose offsets show how far the job has come; the job itself goes by its checkpoints.

        Raises:
            InvalidTypeError: when it is no text.
            InvalidProgramError: when it is empty.
        """
        expect(group_id, str, "set_group_id")
        if not group_id:
            raise refused("set_group_id: the name of the group is empty")
        self._properties[GROUP] = group_id
        return self

    def set_starting_offsets(self, starting_offsets_initializer: OffsetsInitializer) -> Self:
        """Set where partitions start that are there at the job's first start: at their beginning by default.

        Partitions that are found later are read from their beginning. A job that goes on from a checkpoint goes on
        from its offsets.
        """
        return self._planned(start=_initializer(starting_offsets_initializer))

    def set_bounded(self, stopping_offsets_initializer: OffsetsInitializer) -> Self:
        """Stop at offsets, which are found out when the job first starts; the source ends there."""
        return self._planned(stop=_initializer(stopping_offsets_initializer), is_bounded=True)

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> Self:
        """Make records of the values of messages alone.

        Raises:
            InvalidTypeError: when it is no schema.
        """
        if not isinstance(deserialization_schema, DeserializationSchema):
            text = (
                f"a {self._name} reads messages by a DeserializationSchema, not {deserialization_schema!r}"
                f"{uncalled(deserialization_schema, DeserializationSchema)}"
            )
            raise refused(text, InvalidTypeError)
        return self.set_deserializer(MessageDeserializationSchema(deserialization_schema))

    def set_deserializer(self, schema: MessageDeserializationSchema) -> Self:
        """Make records of values, keys and metadata.

        Raises:
            InvalidTypeError: when it is no such schema.
        """
        if not isinstance(schema, MessageDeserializationSchema):
            raise refused(f"set_deserializer() takes a MessageDeserializationSchema, not {schema!r}", InvalidTypeError)
        return self._set(schema=schema)

    def set_dead_letter(self, output_tag: OutputTag) -> Self:
        """Send messages that cannot be read to a side output, as ``(where, raw, reason)``, and go on.

        Without it one fails the job. ``where`` is ``topic-partition@offset``.

        Raises:
            InvalidTypeError: when it is no tag.
        """
        return self._set_a(OutputTag, "set_dead_letter", dead_letter=output_tag)

    def _planned(self, **parts: Any) -> Self:
        self._plan = replace(self._plan, **parts)
        return self

    def _reading_plan(self, properties: dict[str, str]) -> ReadingPlan:
        """Make the plan.

        Args:
            properties: the settings, of which those that are no client's are taken out.

        Raises:
            ConfigurationError: when one of them is malformed, or offsets are those of a group, and there is none.
        """
        has_group = GROUP in properties
        if not has_group and any(each is not None and each.needs_group for each in (self._plan.start, self._plan.stop)):
            raise refused("committed offsets are those of a group: set_group_id(...)", ConfigurationError)
        commits = _one_of(_COMMITS, properties.pop(_COMMITS, "true").lower(), ("true", "false"))
        interval = whole_number(DISCOVERY, properties.pop(DISCOVERY, _DISCOVERY_MILLIS))
        resets_to = _one_of(RESET, properties.pop(RESET, "none"), ("earliest", "latest", "none"))
        return replace(
            self._plan,
            discovery_interval=interval if interval > 0 else None,
            commits=has_group and commits == "true",
            resets_to=None if resets_to == "none" else resets_to,
        )

    def _check_schema(self) -> None:
        self._needed("schema", "set_value_only_deserializer() or set_deserializer()")


def _one_of(name: str, text: str, known: tuple[str, ...]) -> str:
    if text not in known:
        listed = f"{', '.join(known[:-1])} or {known[-1]}"
        raise refused(f"{name!r} is {listed}, not {text!r}", ConfigurationError)
    return text


def whole_number(name: str, text: str) -> int:
    """A setting that is a whole number.

    Raises:
        ConfigurationError: when it is none.
    """
    try:
        return int(text)
    except ValueError:
        raise refused(f"{name!r} is a whole number, not {text!r}", ConfigurationError) from None


class TopicSourceBuilder(MessageSourceBuilder):
    """Puts a source of topics together: which partitions, beside the settings of any source of messages."""

    def set_topics(self, *topics: str) -> Self:
        """Read all partitions of some topics.

        Raises:
            InvalidProgramError: when there are none, or what to read was said already.
            InvalidTypeError: when one is no text.
        """
        for topic in topics:
            expect(topic, str, "set_topics")
        if not topics:
            raise refused("set_topics() needs at least one topic")
        return self._subscribe(Subscription(topics=tuple(dict.fromkeys(topics))))

    def set_topic_pattern(self, topic_pattern: str) -> Self:
        """Read all partitions of the topics whose whole names match a regular expression, later ones too.

        Raises:
            InvalidProgramError: when it is none, or what to read was said already.
        """
        expect(topic_pattern, str, "set_topic_pattern")
        try:
            re.compile(topic_pattern)
        except re.error as error:
            raise refused(f"{topic_pattern!r} is no regular expression: {error}") from None
        return self._subscribe(Subscription(pattern=topic_pattern))

    def set_partitions(self, partitions: set[TopicPartition]) -> Self:
        """Read some partitions.

        Raises:
            InvalidProgramError: when there are none, or what to read was said already.
        """
        if not partitions or not all(isinstance(each, TopicPartition) for each in partitions):
            raise refused(f"set_partitions() takes a set of {A_PARTITION}, not {partitions!r}")
        return self._subscribe(Subscription(chosen=tuple(sorted(partitions))))

    def set_unbounded(self, stopping_offsets_initializer: OffsetsInitializer | None = None) -> Self:
        """Never end; with offsets, partitions stop there, but the job runs as one of a source that does not end."""
        stop = None if stopping_offsets_initializer is None else _initializer(stopping_offsets_initializer)
        return self._planned(stop=stop, is_bounded=False)

    def _reading_plan(self, properties: dict[str, str]) -> ReadingPlan:
        if self._plan.subscription == NOTHING:
            raise refused(f"a {self._name} needs set_topics(), set_topic_pattern() or set_partitions()")
        return super()._reading_plan(properties)

    def _subscribe(self, subscription: Subscription) -> Self:
        if self._plan.subscription != NOTHING:
            raise refused(f"the source reads {self._plan.subscription} already: say once what it is to read")
        return self._planned(subscription=subscription)


def _initializer(given: OffsetsInitializer) -> OffsetsInitializer:
    if not isinstance(given, OffsetsInitializer):
        raise refused(f"offsets are given by an OffsetsInitializer, not {given!r}", InvalidTypeError)
    return given


class TopicSource(Source[T_co]):
    """Reads topics, of which every partition is a split.

    Args:
        topics: what users call them.
        schema: what records are made of.
        dead_letter: where messages go that cannot be read; None makes one fail the job.
        is_bounded: whether it ends.
    """

    dead_letter: OutputTag | None = None

    def __init__(
        self, topics: str, schema: MessageDeserializationSchema, dead_letter: OutputTag | None, *, is_bounded: bool
    ) -> None:
        self._topics = topics
        self._schema = schema
        self.dead_letter = dead_letter
        self._is_bounded = is_bounded

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def produced_type(self) -> TypeInformation[T_co]:
        return self._schema.produced_type

    @property
    def locations(self) -> tuple[str, ...]:
        return (self._topics,)

    @property
    def places(self) -> tuple[TopicsPlace, ...]:
        """The logs and clusters that its topics are in; empty where they are known only while it runs."""
        return ()

    @property
    def group(self) -> str | None:
        """The consumer group to which it commits offsets; None for none."""
        return None

    def check_schemas(self) -> Iterator[SchemaCheck]:
        topics = [dataset.name.rpartition("/")[2] for dataset in self.datasets]
        for schema, part in ((self._schema.key, "key"), (self._schema.value, "value")):
            if schema is not None:
                yield from schema.check_schemas([f"{topic}-{part}" for topic in topics])


class TopicSink(Sink[T_contra]):
    """Writes records into topics.

    Args:
        schema: what messages are made of.
        guarantee: how often a record arrives.
        dead_letter: where records go that cannot be written; None makes one fail the job.
    """

    delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.NONE
    dead_letter: OutputTag | None = None

    def __init__(
        self, schema: MessageSerializationSchema, guarantee: DeliveryGuarantee, dead_letter: OutputTag | None = None
    ) -> None:
        self._schema = schema
        self.delivery_guarantee = guarantee
        self.dead_letter = dead_letter

    @property
    def places(self) -> tuple[TopicsPlace, ...]:
        """The logs and clusters that its topics are in; empty where they are known only while it runs."""
        return ()

    def check_schemas(self) -> Iterator[SchemaCheck]:
        for schema in (self._schema.key, self._schema.value):
            if schema is not None:
                yield from schema.check_schemas(())

    def validate(self, input_type: TypeInformation) -> None:
        self._schema.validate(input_type)

    def takes_changes(self, input_type: TypeInformation) -> bool:
        return self._schema.takes_changes or super().takes_changes(input_type)


class TopicSinkBuilder(Builder):
    """Puts a sink of topics together: what messages are made of records, and how often these arrive."""

    _usual_guarantee: ClassVar[DeliveryGuarantee]
    """The default guarantee."""

    def __init__(self) -> None:
        super().__init__()
        self._set(guarantee=self._usual_guarantee)

    def set_record_serializer(self, record_serializer: MessageSerializationSchema) -> Self:
        """Say what messages are made of records.

        Raises:
            InvalidTypeError: when it is no ``MessageSerializationSchema``.
        """
        return self._set_a(MessageSerializationSchema, "set_record_serializer", schema=record_serializer)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Self:
        """Say how often a record arrives, failures or not; the sink says what that is unless it is said."""
        return self._set_a(DeliveryGuarantee, "set_delivery_guarantee", guarantee=delivery_guarantee)

    def set_dead_letter(self, output_tag: OutputTag) -> Self:
        """Send records that cannot be written to a side output of the sink, as ``(where, raw, reason)``, and go on.

        Without it one fails the job. The stream of them is ``stream.sink_to(sink).get_side_output(output_tag)``.
        """
        return self._set_a(OutputTag, "set_dead_letter", dead_letter=output_tag)

    def _needed_schema(self) -> MessageSerializationSchema:
        schema: MessageSerializationSchema = self._needed("schema", "topics and formats: call set_record_serializer()")
        return schema
