"""Streams whose topics lie in several clusters of Kafka, and move from one to another while a job runs."""

from headrace.connectors.kafka.dynamic.deserializer import KafkaRecordDeserializationSchema
from headrace.connectors.kafka.dynamic.metadata import ClusterMetadata, KafkaMetadataService, KafkaStream
from headrace.connectors.kafka.dynamic.services import SingleClusterTopicMetadataService, YamlFileMetadataService
from headrace.connectors.kafka.dynamic.source import DynamicKafkaSource, DynamicKafkaSourceBuilder
from headrace.connectors.kafka.dynamic.subscribers import (
    KafkaStreamSetSubscriber,
    KafkaStreamSubscriber,
    StreamPatternSubscriber,
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
