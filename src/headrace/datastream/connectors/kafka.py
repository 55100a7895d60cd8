"""Topics of Kafka as sources and sinks."""

from __future__ import annotations

from headrace.common.public_module import public_module
from headrace.connectors.kafka import (
    HeaderProvider,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaPartitioner,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
    KafkaTopicSelector,
    MissingMarker,
)

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

public_module(__name__)
