from __future__ import annotations

import pickle

import numpy as np
import pytest

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.constants import MIN_WATERMARK
from headrace.common.typeinfo import Types
from headrace.exchange.envelope import MAX_CELL_BYTES, Envelope, PayloadDecoder, SummaryBook
from headrace.exchange.sender import COALESCE_ROWS, MAX_PORTION_BYTES, ROUTING_ROWS, EdgeSender, rows_at_a_time
from headrace.graph.partitioning import BROADCAST, Receivers
from headrace.graph.stream_graph import Edge
from headrace.plan.job_plan import PlannedEdge


def _columnar(texts: list[str]) -> Batch:
    times = np.zeros(len(texts), np.int64)
    return Batch(Types.STRING(), times, times, columns=layout_of(Types.STRING()).rows_to_columns(texts))


def test_narrow_records_go_by_number() -> None:
    assert rows_at_a_time(_columnar(["ab"] * 1000)) == ROUTING_ROWS


def test_wide_records_go_by_size() -> None:
    batch = _columnar(["x" * 100_000] * 50)
    rows = rows_at_a_time(batch)
    assert 1 <= rows * 100_000 <= MAX_CELL_BYTES


def test_a_record_larger_than_a_cell_goes_alone() -> None:
    assert rows_at_a_time(_columnar(["x" * (MAX_CELL_BYTES + 1)])) == 1


def test_objects_go_in_small_numbers() -> None:
    times = np.zeros(3, np.int64)
    assert rows_at_a_time(Batch(Types.PICKLED_BYTE_ARRAY(), times, times, rows=[1, "a", None])) == COALESCE_ROWS


def _made_by_a_function(texts: list[str]) -> Batch:
    times = np.zeros(len(texts), np.int64)
    return Batch(Types.STRING(), times, times, rows=texts)


def test_large_records_that_have_no_columns_yet_go_by_the_size_of_some() -> None:
    assert rows_at_a_time(_made_by_a_function(["x" * 1_000_000] * 200)) == MAX_PORTION_BYTES // 1_000_004
    assert rows_at_a_time(_made_by_a_function(["x"] * 20_000)) == COALESCE_ROWS
    assert rows_at_a_time(_made_by_a_function(["x" * 1_000_000] * 20)) == COALESCE_ROWS


@pytest.mark.parametrize("size", [10, 10_000, 1_000_000])
def test_objects_that_have_no_type_go_by_the_size_of_some(size: int) -> None:
    times = np.zeros(40, np.int64)
    batch = Batch(Types.PICKLED_BYTE_ARRAY(), times, times, rows=[str(number) + "x" * size for number in range(40)])
    rows = rows_at_a_time(batch)
    assert rows == max(1, min(COALESCE_ROWS, MAX_CELL_BYTES // (len(pickle.dumps(batch.rows)) // 40)))


def test_untyped_records_are_sent_in_envelopes_of_bounded_size() -> None:
    times = np.zeros(40, np.int64)
    rows = [str(number) + "x" * 500_000 for number in range(40)]
    partitioning = Edge(0).partitioning
    planned = PlannedEdge(0, 0, 1, 0, None, Types.PICKLED_BYTE_ARRAY(), None, True, partitioning, 1, Receivers(1, 128))
    sent: list[Envelope] = []
    sender = EdgeSender(planned, sent.append, SummaryBook(0))
    sender.begin_channel(0, 0, MIN_WATERMARK)
    sender.send(Batch(Types.PICKLED_BYTE_ARRAY(), times, times, rows=rows))
    sender.flush()
    assert max(len(envelope.payload) for envelope in sent) <= MAX_CELL_BYTES
    decoder = PayloadDecoder(Types.PICKLED_BYTE_ARRAY(), None)
    received = [decoder.decode([envelope.payload])[0].rows for envelope in sent]
    assert [row for part in received for row in part] == rows


def test_what_is_broadcast_is_encoded_once() -> None:
    receivers = Receivers(5, 128)
    planned = PlannedEdge(0, 0, 1, 0, None, Types.STRING(), None, True, BROADCAST, 1, receivers)
    sent: list[Envelope] = []
    sender = EdgeSender(planned, sent.append, SummaryBook(0))
    sender.begin_channel(0, 0, MIN_WATERMARK)
    sender.send(_columnar(["a", "b"]))
    sender.flush()
    assert [envelope.partition for envelope in sent] == [0, 1, 2, 3, 4]
    assert all(envelope.payload is sent[0].payload for envelope in sent)
