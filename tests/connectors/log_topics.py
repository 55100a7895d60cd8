"""Topics of an embedded log, with what tests do to those of Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from headrace.common import ByteArraySchema
from headrace.common.time import Duration
from headrace.connectors.partitions import OffsetResetStrategy
from headrace.datastream.connectors.log import LogSource, LogSourceBuilder
from headrace.log import Log, Producer, TopicPartition
from headrace.log.membership import commit_without_members
from tests.connectors.partitions.driver import OpenTransaction, TopicDriver, message


class LogTopic(TopicDriver):
    """A topic of a log; see :class:`TopicDriver`."""

    def __init__(self, log: Log, partitions: int = 1, prefix: str = "t", **config: str) -> None:
        self.log = log
        super().__init__(partitions, prefix, **config)

    def another(self, partitions: int = 1, prefix: str = "t", **config: str) -> LogTopic:
        return LogTopic(self.log, partitions, prefix, **config)

    def make(self, partitions: int = 1, **config: str) -> None:
        names = {name.replace("_", "."): value for name, value in config.items()}
        self.log.create_topic(self.name, partitions, names)

    def delete(self) -> None:
        self.log.delete_topic(self.name)

    def grow(self, partitions: int) -> None:
        self.log.alter_topic(self.name, partitions=partitions)

    def put(self, values: Iterable[Any], partition: int = 0, **more: Any) -> None:
        with Producer(self.log) as producer:
            for value in values:
                producer.send(self.name, message(value), partition=partition, **more)

    def transaction(self) -> OpenTransaction:
        return _LogTransaction(self)

    def delete_before(self, offset: int) -> None:
        starts = {TopicPartition(self.name, 0): offset}
        self.log.journal.change(lambda commit, _: replace(commit, starts=starts))

    def compact(self) -> None:
        self.log.maintain(fully=True)

    def commit_offset(self, group: str, offset: int) -> None:
        commit_without_members(self.log.journal, group, {TopicPartition(self.name, 0): offset}, {})

    def committed(self, group: str) -> dict[int, int]:
        found = self.log.committed(group)
        return {partition.partition: offset for partition, offset in found.items() if partition.topic == self.name}

    def delete_group(self, group: str) -> None:
        self.log.delete_group(group)

    def builder(self) -> LogSourceBuilder[bytes]:
        made: LogSourceBuilder[bytes] = LogSource.builder()
        return made.set_log(self.log.folder.locate("")).set_value_only_deserializer(ByteArraySchema())

    def configure(
        self, builder: LogSourceBuilder[bytes], group: str | None, discovery_millis: int, reset: OffsetResetStrategy
    ) -> None:
        builder.set_partition_discovery(Duration.of_millis(discovery_millis)).set_offset_reset(reset)
        if group is not None:
            builder.set_group_id(group)


class _LogTransaction(OpenTransaction):
    def __init__(self, topic: LogTopic) -> None:
        self._topic = topic
        self._producer = Producer(topic.log, transactional_id=uuid.uuid4().hex)
        self._producer.begin_transaction()

    def put(self, values: Iterable[Any]) -> None:
        for value in values:
            self._producer.send(self._topic.name, message(value), partition=0)
        self._producer.flush()

    def commit(self) -> None:
        with self._producer:
            self._producer.commit_transaction()

    def abort(self) -> None:
        with self._producer:
            self._producer.abort_transaction()
