"""Topics of Kafka as sources and sinks, read and written by librdkafka in the tasks."""

from headrace.common.topic_partition import TopicPartition as KafkaTopicPartition
from headrace.connectors.kafka.serializer import (
    HeaderProvider,
    KafkaPartitioner,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaTopicSelector,
)
from headrace.connectors.kafka.sink import KafkaSink, KafkaSinkBuilder
from headrace.connectors.kafka.source import KafkaSource, KafkaSourceBuilder
from headrace.connectors.kafka.transactions.markers import MissingMarker
from headrace.connectors.partitions.offsets import OffsetResetStrategy as KafkaOffsetResetStrategy
from headrace.connectors.partitions.offsets import OffsetsInitializer as KafkaOffsetsInitializer

__all__ = [
    "HeaderProvider",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaPartitioner",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "MissingMarker",
]
