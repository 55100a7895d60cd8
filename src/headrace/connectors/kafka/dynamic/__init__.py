"""Streams whose topics lie in several clusters of Kafka, and move from one to another while a job runs."""

from headrace.connectors.kafka.dynamic.metadata import (
    ClusterMetadata,
    KafkaMetadataService,
    KafkaStream,
    KafkaStreamSetSubscriber,
    KafkaStreamSubscriber,
    SingleClusterTopicMetadataService,
    StreamPatternSubscriber,
    YamlFileMetadataService,
)
from headrace.connectors.kafka.dynamic.source import (
    DynamicKafkaSource,
    DynamicKafkaSourceBuilder,
    KafkaRecordDeserializationSchema,
)

__all__ = [
    "ClusterMetadata",
    "DynamicKafkaSource",
    "DynamicKafkaSourceBuilder",
    "KafkaMetadataService",
    "KafkaRecordDeserializationSchema",
    "KafkaStream",
    "KafkaStreamSetSubscriber",
    "KafkaStreamSubscriber",
    "SingleClusterTopicMetadataService",
    "StreamPatternSubscriber",
    "YamlFileMetadataService",
]
