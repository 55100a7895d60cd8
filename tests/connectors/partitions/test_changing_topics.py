"""Sources of topics that change while they are read: they grow, lose records, go, and come again as others."""

from __future__ import annotations

import re

import pytest

from headrace.common.errors import ConfigurationError, SourceChangedError
from headrace.connectors.partitions import OffsetResetStrategy, OffsetsInitializer
from headrace.storage.folder import Folder
from tests.connectors.partitions.driver import ALL, TopicDriver, enumerator, read, read_rest, texts


def test_later_partitions_and_topics_are_read_from_their_beginning(topic: TopicDriver, folder: Folder) -> None:
    prefix = f"found-{topic.name}"
    first = topic.another(prefix=prefix)
    first.put(["old"])
    made = first.reading(OffsetsInitializer.latest(), discovery_millis=1000, pattern=f"{prefix}-.*")
    source = made.build()
    planner, positions = enumerator(source, folder), dict[str, int]()
    assert read_rest(source, planner, positions) == {}
    first.grow(2)
    first.put(["grown"], partition=1)
    second = topic.another(prefix=prefix)
    second.put(["new"])
    assert read_rest(source, planner, positions, now=999) == {}
    found = read_rest(source, planner, positions, now=1000)
    assert found == {f"{first.name}-1": [b"grown"], f"{second.name}-0": [b"new"]}
    restored = enumerator(source, folder, planner.snapshot())
    third = topic.another(prefix=prefix)
    third.put(["while it was down"])
    assert read_rest(source, restored, positions) == {f"{third.name}-0": [b"while it was down"]}
    assert not planner.is_complete()


@pytest.mark.slow
def test_offsets_that_were_compacted_away_are_passed_over(topic: TopicDriver, folder: Folder) -> None:
    balances = topic.another(**topic.compacted)
    for number in range(100):
        balances.put([number], key=str(number % 3).encode())
    balances.compact()
    source = balances.reading().set_bounded(OffsetsInitializer.latest()).build()
    for budgets in ([10**9], [1], [40]):
        planner, positions = enumerator(source, folder), dict[str, int]()
        (found,) = read_rest(source, planner, positions, budgets=budgets).values()
        assert [value for value in found if value != b"rolls"][-3:] == texts(range(97, 100))
        assert len(found) < 100
        assert all(planner.is_finished(*each) for each in positions.items())


def test_records_that_were_deleted_before_they_were_read(topic: TopicDriver, folder: Folder) -> None:
    topic.put(range(10))
    topic.delete_before(6)
    source = topic.reading().build()
    planner = enumerator(source, folder)
    (split,) = planner.discover(0)
    with pytest.raises(SourceChangedError, match=r"from offset 2, but the first that is left is 6: .*deleted"):
        planner.plan(split, 2, ALL, 0)
    with pytest.raises(SourceChangedError, match=f"{split}.*deleted.* after they were found, and before they were"):
        read(source, [split, 2, 10])
    assert read_rest(source, planner, {split: 6}) == {split: texts(range(6, 10))}


@pytest.mark.parametrize(
    ("strategy", "left"), [(OffsetResetStrategy.EARLIEST, range(6, 12)), (OffsetResetStrategy.LATEST, range(10, 12))]
)
def test_a_source_that_goes_on_without_records_that_were_deleted(
    topic: TopicDriver, folder: Folder, strategy: OffsetResetStrategy, left: range
) -> None:
    topic.put(range(10))
    topic.delete_before(6)
    source = topic.reading(reset=strategy).build()
    planner, split = enumerator(source, folder), f"{topic.name}-0"
    positions = {split: 2}
    found = read_rest(source, planner, positions).get(split, [])
    assert positions == {split: 10}, "it is said once what was left out, not with each look"
    topic.put(range(10, 12))
    assert found + read_rest(source, planner, positions)[split] == texts(left)


@pytest.mark.parametrize("strategy", [OffsetResetStrategy.EARLIEST, OffsetResetStrategy.LATEST])
def test_a_bounded_source_ends_also_when_all_that_it_should_read_was_deleted(
    topic: TopicDriver, folder: Folder, strategy: OffsetResetStrategy
) -> None:
    topic.put(range(5))
    source = topic.reading(reset=strategy).set_bounded(OffsetsInitializer.latest()).build()
    planner = enumerator(source, folder)
    (split,) = planner.discover(0)
    topic.put(range(5, 9))
    topic.delete_before(7)
    restored, positions = enumerator(source, folder, planner.snapshot()), {split: 2}
    assert read_rest(source, restored, positions) == {}
    assert restored.is_finished(split, positions[split])


def test_a_topic_that_is_gone(topic: TopicDriver, folder: Folder) -> None:
    source = topic.reading(discovery_millis=1).build()
    planner = enumerator(source, folder)
    planner.discover(0)
    topic.delete()
    with pytest.raises((SourceChangedError, ConfigurationError), match=r"there is no topic|is gone"):
        planner.discover(1)
    missing = topic.builder().set_topics(topic.name[:-1]).build()  # type: ignore[attr-defined]
    topic.make()
    with pytest.raises(ConfigurationError, match=f"there is no topic '{topic.name[:-1]}'.*did you mean"):
        enumerator(missing, folder).discover(0)


@pytest.mark.parametrize("count", [0, 3, 9])
def test_a_topic_that_is_made_again_has_other_offsets(topic: TopicDriver, folder: Folder, count: int) -> None:
    """However many records are in it, and however long it is until the source looks for partitions."""
    topic.put(range(5))
    source = topic.reading().build()
    planner, positions = enumerator(source, folder), dict[str, int]()
    read_rest(source, planner, positions)
    topic.delete()
    topic.make()
    topic.put(range(count))
    again = re.compile(f"topic '{topic.name}' was deleted and made again")
    with pytest.raises(SourceChangedError, match=again):
        read_rest(source, planner, positions)
    with pytest.raises(SourceChangedError, match=again):
        enumerator(source, folder, planner.snapshot()).discover(0)


def test_the_offsets_of_the_group_are_not_what_a_job_goes_by(topic: TopicDriver, folder: Folder) -> None:
    group = f"group-{topic.name}"
    topic.put(range(5))
    start = OffsetsInitializer.committed_offsets(OffsetResetStrategy.EARLIEST)
    source = topic.reading(start, group=group).build()
    planner, positions = enumerator(source, folder), dict[str, int]()
    read_rest(source, planner, positions)
    planner.checkpoint_completed(positions)
    planner.close()
    assert topic.committed(group) == {0: 5}
    topic.delete_group(group)
    topic.put(range(5, 8))
    restored = enumerator(source, folder, planner.snapshot())
    assert read_rest(source, restored, positions) == {f"{topic.name}-0": texts(range(5, 8))}
    restored.checkpoint_completed(positions)
    restored.close()
    assert topic.committed(group) == {0: 8}
