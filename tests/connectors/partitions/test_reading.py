"""Sources of topics: what is read of a topic that only grows, each record once and in order."""

from __future__ import annotations

import pytest

from headrace.common import ByteArraySchema, SimpleStringSchema
from headrace.common.errors import ConfigurationError
from headrace.common.messages import TopicPartition
from headrace.connectors.messages import MessageDeserializationSchema
from headrace.connectors.partitions import OffsetResetStrategy, OffsetsInitializer
from headrace.connectors.source import Pending, ReaderContext
from headrace.storage.folder import Folder
from tests.connectors.partitions.driver import TopicDriver, enumerator, read_rest, start_of, texts


def test_however_epochs_are_cut_each_record_is_read_once(topic: TopicDriver, folder: Folder) -> None:
    topic.grow(2)
    for start in range(0, 500, 50):
        topic.put(range(start, start + 50))
    topic.put(range(500, 700), partition=1)
    expected = {f"{topic.name}-0": texts(range(500)), f"{topic.name}-1": texts(range(500, 700))}
    source = topic.reading().build()
    for budgets in ([10**9], [1, 7, 100], [333]):
        assert read_rest(source, enumerator(source, folder), {}, budgets=budgets) == expected


def test_keys_headers_and_the_rest_are_fields(topic: TopicDriver, folder: Folder) -> None:
    headers = [("a", b"1"), ("b", None), ("a", b"2")]
    topic.put(["tea"], key=b"ann", headers=headers, timestamp=1_700_000_000_123)
    topic.put(["cäke"], timestamp=1_700_000_000_124)
    known = ["topic", "partition", "offset", "timestamp", "headers"]
    schema = MessageDeserializationSchema(SimpleStringSchema(), key=ByteArraySchema(), metadata=known)
    source = topic.reading().set_deserializer(schema).build()
    (rows,) = read_rest(source, enumerator(source, folder), {}).values()
    times = [row.pop("timestamp").timestamp() for row in rows]
    assert [tuple(row.values()) for row in rows] == [
        (b"ann", "tea", topic.name, 0, 0, [("a", b"2"), ("b", None)]),
        (None, "cäke", topic.name, 0, 1, []),
    ]
    assert times == [1_700_000_000.123, 1_700_000_000.124]
    reader = source.create_reader()
    reader.open(ReaderContext())
    stamps = [time for each in reader.read([f"{topic.name}-0", 0, 2]) for time in each.timestamps.tolist()]
    assert stamps == [1_700_000_000_123, 1_700_000_000_124]
    reader.close()


def test_messages_without_a_value_are_null(topic: TopicDriver, folder: Folder) -> None:
    topic.put(["", None, "tea"])
    source = topic.reading().build()
    (found,) = read_rest(source, enumerator(source, folder), {}).values()
    assert found == [b"", None, b"tea"]


def test_of_transactions_only_what_is_committed_is_read(topic: TopicDriver, folder: Folder) -> None:
    topic.put_in_transaction(range(5), commit=True)
    topic.put_in_transaction(range(5, 10), commit=False)
    topic.put_in_transaction(range(10, 13), commit=True)
    topic.put_in_transaction([99], commit=False)  # in Kafka the range ends with records and marks that nobody sees
    source = topic.reading().set_bounded(OffsetsInitializer.latest()).build()
    visible = texts(range(5)) + texts(range(10, 13))
    for budgets in ([10**9], [1], [4]):
        planner, positions = enumerator(source, folder), dict[str, int]()
        assert list(read_rest(source, planner, positions, budgets=budgets).values()) == [visible]
        assert all(planner.is_finished(*each) for each in positions.items())


def test_nothing_of_an_open_transaction_is_read_and_nothing_is_missed(topic: TopicDriver, folder: Folder) -> None:
    source = topic.reading().build()
    planner, positions = enumerator(source, folder), dict[str, int]()
    topic.put(["before"])
    transaction = topic.transaction()
    transaction.put(["within"])
    topic.put(["behind"])
    (found,) = read_rest(source, planner, positions).values()
    assert b"within" not in found
    assert found[0] == b"before"
    transaction.commit()
    while len(found) < 3:  # the mark that ends it may be written a little later
        for rest in read_rest(source, planner, positions).values():
            found += rest
    assert sorted(found) == [b"before", b"behind", b"within"]


def test_a_topic_without_records_ends_at_once(topic: TopicDriver, folder: Folder) -> None:
    source = topic.reading().set_bounded(OffsetsInitializer.latest()).build()
    planner = enumerator(source, folder)
    (split,) = planner.discover(0)
    assert planner.is_finished(split, planner.initial_position(split))
    assert planner.pending(split, 0, 0) == Pending(0, 0)


def test_where_reading_starts(topic: TopicDriver, folder: Folder) -> None:
    topic.grow(2)
    for number in range(10):
        topic.put([number], timestamp=1000 + number)
    of, split = OffsetsInitializer, TopicPartition(topic.name, 0)
    assert start_of(topic.reading().build(), folder) == [0, 0]
    assert start_of(topic.reading(of.latest()).build(), folder) == [10, 0]
    assert start_of(topic.reading(of.timestamp(1004)).build(), folder) == [4, 0]
    assert start_of(topic.reading(of.timestamp(5000)).build(), folder) == [10, 0]
    assert start_of(topic.reading(of.offsets({split: 7})).build(), folder) == [7, 0]
    group = f"group-{topic.name}"
    topic.commit_offset(group, 3)
    fallback = of.committed_offsets(OffsetResetStrategy.LATEST)
    assert start_of(topic.reading(fallback, group=group).build(), folder) == [3, 0]
    with pytest.raises(ConfigurationError, match=f"no offset to start from for {topic.name}-1"):
        start_of(topic.reading(of.committed_offsets(), group=group).build(), folder)
    topic.delete_group(group)
    assert start_of(topic.reading(fallback, group=group).build(), folder) == [10, 0]
    with pytest.raises(ConfigurationError, match=r"set_group_id\(\.\.\.\)"):
        topic.reading(of.committed_offsets()).build()


def test_where_a_bounded_source_ends_is_known_after_a_restart(topic: TopicDriver, folder: Folder) -> None:
    topic.put(range(5))
    source = topic.reading().set_bounded(OffsetsInitializer.latest()).build()
    planner = enumerator(source, folder)
    (split,) = planner.discover(0)
    assert planner.pending(split, 2, 0) == Pending(3, 3 * 256)
    topic.put(range(5, 9))
    restored = enumerator(source, folder, planner.snapshot())
    assert read_rest(source, restored, {}) == {split: texts(range(5))}
    assert restored.is_finished(split, 5)
    assert restored.is_complete()


def test_the_records_between_two_times(topic: TopicDriver, folder: Folder) -> None:
    for number in range(10):
        topic.put([number], timestamp=1000 + number)
    begun = topic.reading(OffsetsInitializer.timestamp(1003))
    source = begun.set_bounded(OffsetsInitializer.timestamp(1007)).build()
    (found,) = read_rest(source, enumerator(source, folder), {}).values()
    assert found == texts(range(3, 7))
