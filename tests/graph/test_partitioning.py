"""Where partitionings send records."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.batch import Batch
from headrace.common.call_site import UNKNOWN_CALL_SITE
from headrace.common.typeinfo import Types
from headrace.graph.partitioning import (
    FORWARD,
    GLOBAL,
    HASH,
    REBALANCE,
    RESCALE,
    SHUFFLE,
    Custom,
    Partitioning,
    Receivers,
    Rescale,
    Sending,
)
from headrace.state.keys import KeyCodec
from headrace.state.keys.hashing import partitions_of_hashes

BY_RECORD = Custom(lambda key, count: key % count, lambda record: record, UNKNOWN_CALL_SITE)
ALL = [FORWARD, REBALANCE, HASH, RESCALE, Rescale(7), SHUFFLE, GLOBAL, BY_RECORD]
CODEC = KeyCodec.for_type(Types.LONG())


def routed(partitioning: Partitioning, records: list[int], channel: int, receivers: Receivers) -> dict[int, list[int]]:
    batch = Batch.of_rows(Types.LONG(), records, range(len(records)), range(len(records)))
    found: dict[int, list[int]] = {}
    for part in partitioning.route(batch, CODEC.encode(records), Sending(channel, receivers, epoch=3)):
        assert part.target not in found, "one part for each"
        assert part.batch.rows, "no part is empty"
        assert part.keys is not None
        assert part.keys.hashes.tolist() == CODEC.encode(part.batch.rows).hashes.tolist()
        found[part.target] = part.batch.rows
    without = partitioning.route(batch, CODEC.encode(records), Sending(channel, receivers, epoch=3, keys_travel=False))
    assert {part.target: part.batch.rows for part in without} == found
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("partitioning", ALL, ids=lambda found: found.label)
@settings(deadline=None)
@given(records=st.lists(st.integers(-5, 5), min_size=1), channel=st.integers(0, 600), parallelism=st.integers(1, 300))
def test_every_record_has_one_target_and_keeps_its_place(
    partitioning: Partitioning, records: list[int], channel: int, parallelism: int
) -> None:
    found = routed(partitioning, records, channel, Receivers(parallelism, 300))
    assert found.keys() <= set(range(parallelism))
    numbered = [*enumerate(records)]
    places = {target: iter(numbered) for target in found}
    for target, part in found.items():
        assert all(any(record == wanted for _, record in places[target]) for wanted in part), "in their order"
    assert sorted(record for part in found.values() for record in part) == sorted(records)


@settings(deadline=None)
@given(records=st.lists(st.integers(), min_size=1), parallelism=st.integers(1, 128))
def test_a_key_goes_to_the_owner_of_its_group(records: list[int], parallelism: int) -> None:
    found = routed(HASH, [record % 2**63 for record in records], 0, Receivers(parallelism, 128))
    for target, part in found.items():
        owners = partitions_of_hashes(CODEC.encode(part).hashes, parallelism, 128)
        assert set(owners.tolist()) == {target}


def test_a_rebalanced_batch_is_spread_evenly() -> None:
    sizes = {target: len(part) for target, part in routed(REBALANCE, [*range(10)], 0, Receivers(4, 128)).items()}
    assert sorted(sizes.values()) == [2, 2, 3, 3]


def test_forwarded_records_stay_with_the_number_of_their_channel() -> None:
    assert routed(FORWARD, [1, 2], 5, Receivers(3, 128)) == {2: [1, 2]}


@pytest.mark.parametrize(("consumers", "expected"), [(None, FORWARD), (2, FORWARD), (3, REBALANCE)])
def test_what_cannot_be_forwarded_is_rebalanced(consumers: int | None, expected: Partitioning) -> None:
    assert FORWARD.between(2, consumers) == expected
    assert HASH.between(2, consumers) == HASH


FOUR = Receivers(4, 128)


def targets_of(partitioning: Partitioning, records: list[int], sending: Sending) -> list[int]:
    batch = Batch.of_rows(Types.LONG(), records, range(len(records)), range(len(records)))
    return [part.target for part in partitioning.route(batch, None, sending)]


@pytest.mark.parametrize("partitioning", [REBALANCE, RESCALE], ids=lambda found: found.label)
def test_small_batches_go_round(partitioning: Partitioning) -> None:
    """From batch to batch of an epoch, and from epoch to epoch."""
    for sendings in (
        [Sending(0, FOUR, 1, batch) for batch in range(8)],
        [Sending(0, FOUR, epoch) for epoch in range(8)],
    ):
        found = [target for sending in sendings for target in targets_of(partitioning, [1], sending)]
        assert sorted(found) == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("producers", "parallelism", "expected"),
    [(2, 4, {0: {0, 1}, 1: {2, 3}}), (4, 2, {0: {0}, 1: {0}, 2: {1}, 3: {1}}), (2, 2, {0: {0}, 1: {1}})],
)
def test_a_sender_has_receivers_of_its_own(producers: int, parallelism: int, expected: dict[int, set[int]]) -> None:
    rescale = RESCALE.between(producers, parallelism)
    for channel, targets in expected.items():
        assert set(targets_of(rescale, [*range(8)], Sending(channel, Receivers(parallelism, 128)))) == targets


def test_chance_is_the_same_at_each_attempt() -> None:
    records = [*range(100)]
    first, again = (routed(SHUFFLE, records, 5, Receivers(4, 128)) for _ in range(2))
    assert first == again
    assert first.keys() == {0, 1, 2, 3}
    assert first != routed(SHUFFLE, records, 6, Receivers(4, 128))
