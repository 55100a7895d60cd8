"""A ``KafkaSink`` with ``EXACTLY_ONCE`` that a test drives, or lets die, at the places that it wants."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from headrace.common import SimpleStringSchema, Types
from headrace.common.batch import Batch
from headrace.common.constants import NO_TIMESTAMP
from headrace.connectors.kafka.transactions import KafkaCommitter
from headrace.connectors.messages import MessageSerializationSchema
from headrace.connectors.sink import CommitterContext, DeliveryGuarantee, WriterContext, WriterEpoch
from headrace.datastream.connectors.kafka import KafkaSink, KafkaSinkBuilder
from headrace.storage.folder import Folder
from tests.connectors.kafka.topics import Topic
from tests.reliability.support.kafka_sinks import Place, committed, kafka_job
from tests.reliability.support.small_jobs import CrashError, SmallJob
from tests.waiting import PATIENCE

NOW = 1_700_000_000_000


def to(topic: Topic, schema: MessageSerializationSchema | None = None) -> KafkaSinkBuilder:
    schema = MessageSerializationSchema(topic.name, SimpleStringSchema()) if schema is None else schema
    builder = KafkaSink.builder().set_bootstrap_servers(topic.servers).set_record_serializer(schema)
    return builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)


def job(tmp_path: Path, topic: Topic) -> SmallJob:
    return kafka_job(tmp_path, topic.servers, topic.name)


def texts(topic: Topic) -> list[str]:
    """What readers of committed messages see."""
    found = (message.value() for message in committed(topic.servers, topic.name))
    return sorted(value.decode() for value in found if value is not None)


@dataclasses.dataclass
class ByHand:
    """A sink whose tasks and driver are called by the test."""

    sink: KafkaSink[Any]
    folder: Folder
    job_id: str
    parallelism: int = 1

    def committer(self, generation: int = 0, restored: int = 0, **more: Any) -> KafkaCommitter:
        context = self.context(generation, restored, **more)
        self.sink.check_output(context)
        made = self.sink.create_committer(context)
        assert isinstance(made, KafkaCommitter)
        return made

    def context(self, generation: int = 0, restored: int = 0, **more: Any) -> CommitterContext:
        shared = {"parallelism": self.parallelism, "folder": self.folder} | more
        return CommitterContext(self.job_id, "sink", Types.STRING(), generation, restored, **shared)

    def written(self, epoch: int, records: list[str], subtask: int = 0, generation: int = 0) -> list[Any]:
        own = WriterContext(
            self.job_id, "sink", generation, subtask, self.parallelism, Types.STRING(), folder=self.folder
        )
        writer = self.sink.create_writer(own)
        writer.begin_epoch(WriterEpoch(epoch, NOW))
        times = [NO_TIMESTAMP] * len(records)
        writer.write(Batch.of_rows(Types.STRING(), records, times, [0] * len(records)))
        return list(writer.prepare_commit())


def crash_at(patch: pytest.MonkeyPatch, step: str, count: int, *, after: bool = False) -> list[str]:
    """The driver dies at a place; told in the list."""
    died: list[str] = []

    def die() -> None:
        died.append(step)
        raise CrashError

    Place(step, count, after).act(die, patch.setattr)
    return died


def delete_group(topic: Topic, group: str) -> None:
    topic.admin.delete_consumer_groups([group])[group].result(PATIENCE)
