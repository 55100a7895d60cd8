"""Topics of Kafka as sources and sinks."""

from headrace.common.messages import TopicPartition as KafkaTopicPartition
from headrace.common.public_module import public_module
from headrace.connectors.kafka.clients import MissingMarker
from headrace.connectors.kafka.sink import (
    HeaderProvider,
    KafkaPartitioner,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaTopicSelector,
)
from headrace.connectors.kafka.source import KafkaSource, KafkaSourceBuilder
from headrace.connectors.partitions import (
    OffsetResetStrategy as KafkaOffsetResetStrategy,
)
from headrace.connectors.partitions import (
    OffsetsInitializer as KafkaOffsetsInitializer,
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
