"""Sender and receiver against a model that looks at one record at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.typeinfo import Types
from headrace.exchange.envelope import (
    ChannelStatus,
    ChannelSummary,
    Envelope,
    EnvelopeKind,
    SummaryBook,
    sort_key,
    summaries_of,
)
from headrace.exchange.receiver import STEP_BYTES, ExchangeError, ExchangeReceiver
from headrace.exchange.sender import EdgeSender
from headrace.graph.partitioning import FORWARD, HASH, REBALANCE, KeySelection, Partitioning, Receivers
from headrace.operators.base import KeyedBatch
from headrace.plan.job_plan import PlannedEdge
from headrace.state.keys import KeyCodec
from headrace.state.keys.hashing import partitions_of_hashes
from tests.draws import draws

ACTIVE, IDLE, FINISHED = ChannelStatus.ACTIVE, ChannelStatus.IDLE, ChannelStatus.FINISHED


def edge(
    number: int, *, parallelism: int = 1, key: KeySelection | None = None, partitioning: Partitioning = FORWARD
) -> PlannedEdge:
    partitioning = partitioning if key is None else HASH
    receivers = Receivers(parallelism, 128)
    return PlannedEdge(number, 0, 1, 0, None, Types.STRING(), key, True, partitioning, 1, receivers)


KEY = KeySelection(KeyCodec.for_type(Types.STRING()), str, None)


@dataclass
class Piece:
    """One piece: the watermark at each record, cut into batches, and the one at its end."""

    stamps: list[int]
    final: int
    cuts: list[int] = field(default_factory=list)


@dataclass
class Channel:
    """One channel of one edge in an epoch."""

    edge: int
    number: int
    start: int
    status: ChannelStatus
    pieces: list[Piece]

    def reached(self, index: int) -> int:
        """What it has reached before a piece."""
        return max([self.start, *(piece.final for piece in self.pieces[:index])])


@st.composite
def pieces(draw: st.DrawFn, start: int) -> Piece:
    steps = draw(st.lists(st.integers(0, 4), max_size=12))
    stamps = list(accumulate(steps, initial=start))
    if start == MIN_WATERMARK and len(stamps) > 1:  # the first records come before any watermark
        silent = draw(st.integers(0, len(stamps) - 1))
        stamps = [MIN_WATERMARK] * silent + list(accumulate(steps[silent:], initial=draw(st.integers(0, 40))))
    cuts = draw(st.lists(st.integers(0, len(stamps)), max_size=3).map(sorted))
    return Piece(stamps[:-1], stamps[-1], cuts)


@st.composite
def channels(draw: st.DrawFn, edge_id: int, number: int) -> Channel:
    start = draw(st.one_of(st.just(MIN_WATERMARK), st.integers(0, 30)))
    status = draw(st.sampled_from([ACTIVE, ACTIVE, ACTIVE, FINISHED, IDLE]))
    if status is IDLE:
        return Channel(edge_id, number, start, status, [Piece([], start)])
    found = [draw(pieces(start)), *(draw(pieces(MIN_WATERMARK)) for _ in range(draw(st.integers(0, 2))))]
    if status is FINISHED:
        found[-1] = replace(found[-1], final=MAX_WATERMARK)
    return Channel(edge_id, number, start, status, found)


@st.composite
def epochs(draw: st.DrawFn) -> list[Channel]:
    names = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=5, unique=True))
    return [draw(channels(edge_id, number)) for edge_id, number in names]


def sent(epoch: list[Channel], parallelism: int = 1, **edge_changes: Any) -> list[Envelope]:
    """Everything that the channels send; a record says where it comes from."""
    outbox: list[Envelope] = []
    book = SummaryBook(0)
    for channel in epoch:
        sender = EdgeSender(edge(channel.edge, parallelism=parallelism, **edge_changes), outbox.append, book)
        for index, piece in enumerate(channel.pieces):
            sender.begin_channel(channel.number, index, channel.start if index == 0 else MIN_WATERMARK)
            rows = [f"{channel.edge}.{channel.number}.{index}.{i}" for i in range(len(piece.stamps))]
            bounds = [0, *(min(cut, len(rows)) for cut in piece.cuts), len(rows)]
            for first, last in pairwise(bounds):
                sender.send(
                    Batch.of_rows(Types.STRING(), rows[first:last], range(first, last), piece.stamps[first:last])
                )
                if index % 2 == 0:
                    sender.flush()
            sender.end_channel(piece.final, channel.status)
    return [*outbox, *book.seal()]


def received(
    envelopes: list[Envelope], watermark: int = MIN_WATERMARK, *, is_stalled: bool = False, step_bytes: int = STEP_BYTES
) -> tuple[list[tuple[str, int]], int, ChannelStatus]:
    """What one receiver makes of envelopes: the records, each with its watermark."""
    found: list[tuple[str, int]] = []

    def deliver(planned: PlannedEdge, batch: Batch) -> None:
        assert all(row.startswith(f"{planned.id}.") for row in batch.rows)
        found.extend(zip(batch.rows, batch.watermarks.tolist(), strict=True))

    edges = [edge(number) for number in range(3)]
    receiver = ExchangeReceiver(edges, watermark, deliver, is_stalled=is_stalled, step_bytes=step_bytes)
    hand_over(envelopes, receiver)
    final, status = receiver.end(), receiver.status
    return found, final, status


def hand_over(envelopes: Iterable[Envelope], receiver: ExchangeReceiver) -> None:
    """All that has arrived, in the order in which Spark sorts it."""
    for envelope in sorted(envelopes, key=sort_key):
        if envelope.kind == EnvelopeKind.SUMMARY:
            for summary in summaries_of(envelope.payload):
                receiver.summary(summary)
        else:
            receiver.data(envelope)


def model_final(epoch: list[Channel], watermark: int) -> int:
    states = {channel.status for channel in epoch}
    if states == {FINISHED}:
        return MAX_WATERMARK
    reached = [c.reached(len(c.pieces)) for c in epoch if c.status is ACTIVE]
    idle = [c.reached(len(c.pieces)) for c in epoch if c.status is IDLE]
    return max(watermark, min(reached) if reached else max(idle))


@settings(max_examples=draws(150), deadline=None)
@given(epochs(), st.one_of(st.just(MIN_WATERMARK), st.integers(0, 20)), st.sampled_from([0, 500, 2_000, STEP_BYTES]))
def test_order_and_watermarks(epoch: list[Channel], watermark: int, step_bytes: int) -> None:
    found, final, status = received(sent(epoch), watermark, step_bytes=step_bytes)
    records = sorted(
        (index, stamp, channel.edge, channel.number, i)
        for channel in epoch
        for index, piece in enumerate(channel.pieces)
        for i, stamp in enumerate(piece.stamps)
    )
    assert [row for row, _ in found] == [f"{e}.{number}.{index}.{i}" for index, _, e, number, i in records]

    live = [channel for channel in epoch if channel.status is not IDLE]
    waiting = {(c.edge, c.number): [list(piece.stamps) for piece in c.pieces] for c in live}
    before = watermark
    for (index, _, edge_id, number, _), (_, effective) in zip(records, found, strict=True):
        assert effective >= before, "event time went back"
        before = effective
        # Flink's valve: the lowest of what all channels have reached when they handle this record, or beyond it.
        valve = []
        for channel in live:
            left = waiting[channel.edge, channel.number]
            has_more = index < len(left) and left[index]
            valve.append(max(channel.reached(index), left[index][0]) if has_more else channel.reached(index + 1))
        assert effective <= max(watermark, min(valve)), "a record was made late"
        if len(live) == 1 and len(epoch) == 1:
            assert effective == max(watermark, min(valve)), "the watermark of the only channel counts"
        waiting[edge_id, number][index].pop(0)
    assert before <= final == model_final(epoch, watermark)
    states = {channel.status for channel in epoch}
    assert status is (FINISHED if states == {FINISHED} else ACTIVE if ACTIVE in states else IDLE)


@settings(max_examples=draws(40), deadline=None)
@given(epochs(), st.integers(1, 4))
def test_nothing_is_lost_between_several_receivers(epoch: list[Channel], parallelism: int) -> None:
    outbox: list[Envelope] = sent(epoch, parallelism, key=KEY)
    found: dict[int, list[str]] = {}
    for target in range(parallelism):
        rows = found.setdefault(target, [])
        edges = [edge(number, key=KEY) for number in range(3)]
        receiver = ExchangeReceiver(edges, MIN_WATERMARK, lambda _, batch, rows=rows: rows.extend(batch.rows))
        hand_over((envelope for envelope in outbox if envelope.partition == target), receiver)
        receiver.end()
    everything = [row for rows in found.values() for row in rows]
    assert len(everything) == len(set(everything)) == sum(len(p.stamps) for c in epoch for p in c.pieces)
    for target, rows in found.items():
        hashes = KEY.codec.encode(rows).hashes if rows else None
        assert hashes is None or set(partitions_of_hashes(hashes, parallelism, 128).tolist()) == {target}


def test_keyed_batches_reach_the_operator_with_their_keys() -> None:
    epoch = [Channel(0, n, MIN_WATERMARK, ACTIVE, [Piece([1, 5, 9], 9)]) for n in range(2)]
    batches: list[Batch] = []
    receiver = ExchangeReceiver([edge(0, key=KEY)], MIN_WATERMARK, lambda _, batch: batches.append(batch))
    hand_over(sent(epoch, key=KEY), receiver)
    receiver.end()
    for batch in batches:
        assert isinstance(batch, KeyedBatch)
        assert batch.keys.hashes.tolist() == KEY.codec.encode(batch.rows).hashes.tolist()


@pytest.mark.parametrize("lose", ["data", "summary", "twice"])
def test_lost_and_doubled_envelopes_are_noticed(lose: str) -> None:
    envelopes = sent([Channel(0, 0, 0, ACTIVE, [Piece([1, 2, 3], 3, [2])])])
    data = next(e for e in envelopes if e.kind == EnvelopeKind.DATA)
    if lose == "twice":
        changed = [*envelopes, data._replace(sequence=7)]
    else:
        changed = [e for e in envelopes if (e is not data if lose == "data" else e.kind != EnvelopeKind.SUMMARY)]
    with pytest.raises(ExchangeError, match="piece 0"):
        received(changed)


def test_no_channels_mean_the_end_of_input_unless_a_source_waits_for_splits() -> None:
    assert received([]) == ([], MAX_WATERMARK, FINISHED)
    assert received([], 7, is_stalled=True) == ([], 7, ACTIVE)


def test_a_source_that_waits_for_splits_holds_the_others() -> None:
    found, final, status = received(sent([Channel(0, 0, 5, ACTIVE, [Piece([10, 20], 30)])]), 5, is_stalled=True)
    assert [watermark for _, watermark in found] == [5, 5]
    assert (final, status) == (5, ACTIVE)


def test_a_new_split_does_not_turn_time_back() -> None:
    epoch = [
        Channel(0, 0, 50, ACTIVE, [Piece([50, 60], 70)]),
        Channel(0, 1, MIN_WATERMARK, ACTIVE, [Piece([MIN_WATERMARK, 3], 4)]),
    ]
    found, final, _ = received(sent(epoch), 50)
    assert {watermark for _, watermark in found} == {50}
    assert final == 50


def test_a_finished_and_an_idle_channel() -> None:
    """The end of one must not carry time to its end while others are only silent."""
    epoch = [
        Channel(0, 0, 10, FINISHED, [Piece([], MAX_WATERMARK)]),
        Channel(0, 1, 20, IDLE, [Piece([], 20)]),
        Channel(0, 2, 30, IDLE, [Piece([], 30)]),
    ]
    assert received(sent(epoch), 10) == ([], 30, IDLE)


def test_a_receiver_gets_the_summaries_of_a_sender_in_one_envelope() -> None:
    book = SummaryBook(7)
    wide, narrow = edge(0, parallelism=3), edge(1, parallelism=2)
    ends = {"start": MIN_WATERMARK, "final": MAX_WATERMARK, "status": IDLE}
    book.add(wide, 2, 0, **ends, envelopes=[5, 0, 1])
    book.add(wide, 2, 1, **ends, envelopes=[0, 0, 9])
    book.add(narrow, 3, 0, **ends, envelopes=[1, 2])
    found: dict[int, list[ChannelSummary]] = {}
    envelopes = list(book.seal())
    for envelope in envelopes:
        found.setdefault(envelope.partition, []).extend(summaries_of(envelope.payload))
    shared = (MIN_WATERMARK, MAX_WATERMARK, IDLE)
    assert found == {
        0: [
            ChannelSummary(0, 2, 0, *shared, 5),
            ChannelSummary(0, 2, 1, *shared, 0),
            ChannelSummary(1, 3, 0, *shared, 1),
        ],
        1: [
            ChannelSummary(0, 2, 0, *shared, 0),
            ChannelSummary(0, 2, 1, *shared, 0),
            ChannelSummary(1, 3, 0, *shared, 2),
        ],
        2: [ChannelSummary(0, 2, 0, *shared, 1), ChannelSummary(0, 2, 1, *shared, 9)],
    }
    assert len(envelopes) == 5, "one for each receiver and each number of receivers"
    assert len({sort_key(envelope) for envelope in envelopes if envelope.partition == 0}) == 2
    assert list(book.seal()) == [], "each epoch begins with an empty book"


def test_small_envelopes_are_delivered_together_and_large_ones_as_they_come() -> None:
    """However many there are, and over the borders of pieces; records of other edges still come in between."""
    epoch = [Channel(0, n, 0, ACTIVE, [Piece([1, 5, 9], 9, [1, 2]), Piece([10, 20], 20)]) for n in range(5)]
    sizes: list[int] = []
    for step_bytes in (STEP_BYTES, 0):
        steps: list[int] = []
        receiver = ExchangeReceiver(
            [edge(0)], 0, lambda _, batch, steps=steps: steps.append(len(batch)), step_bytes=step_bytes
        )
        hand_over(sent(epoch), receiver)
        receiver.end()
        assert sum(steps) == 25
        sizes.append(len(steps))
    assert sizes[0] == 1
    assert sizes[1] > 5


@given(st.integers(1, 9), st.lists(st.integers(0, 30), min_size=1, max_size=4))
def test_rebalancing_keeps_order_and_loses_nothing(parallelism: int, sizes: list[int]) -> None:
    outbox: list[Envelope] = []
    book = SummaryBook(0)
    sender = EdgeSender(edge(0, parallelism=parallelism, partitioning=REBALANCE), outbox.append, book)
    sender.begin_channel(0, 0, 0)
    rows = iter(range(1000))
    for size in sizes:
        numbers = [str(next(rows)) for _ in range(size)]
        sender.send(Batch.of_rows(Types.STRING(), numbers, [0] * size, [0] * size))
        sender.flush()
    sender.end_channel(0, ACTIVE)
    outbox.extend(book.seal())
    everything = []
    for target in range(parallelism):
        found: list[str] = []
        receiver = ExchangeReceiver([edge(0)], MIN_WATERMARK, lambda _, batch, found=found: found.extend(batch.rows))
        hand_over((envelope for envelope in outbox if envelope.partition == target), receiver)
        receiver.end()
        assert found == sorted(found, key=int)
        everything += found
    assert sorted(everything, key=int) == [str(number) for number in range(sum(sizes))]
