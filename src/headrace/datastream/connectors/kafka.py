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
from headrace.connectors.sink import DeliveryGuarantee

__all__ = [
    "DeliveryGuarantee",
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
