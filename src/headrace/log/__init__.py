"""A log of partitioned topics without a server: files in a folder, on POSIX, on HDFS or on an object store."""

from headrace.common.messages import TopicPartition
from headrace.common.public_module import public_module
from headrace.log.consumer import Consumer
from headrace.log.groups import GroupMetadata
from headrace.log.log import Log
from headrace.log.producer import Producer
from headrace.log.records import ConsumerRecord, RecordMetadata

__all__ = ["Consumer", "ConsumerRecord", "GroupMetadata", "Log", "Producer", "RecordMetadata", "TopicPartition"]

public_module(__name__)
