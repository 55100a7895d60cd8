"""Streams whose topics lie in several clusters of Kafka, and move while a job runs."""

from headrace.common.public_module import public_module
from headrace.connectors.kafka.dynamic_metadata import (
    ClusterMetadata,
    KafkaMetadataService,
    KafkaStream,
    KafkaStreamSetSubscriber,
    KafkaStreamSubscriber,
    SingleClusterTopicMetadataService,
    StreamPatternSubscriber,
    YamlFileMetadataService,
)
from headrace.connectors.kafka.dynamic_source import (
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

public_module(__name__)
