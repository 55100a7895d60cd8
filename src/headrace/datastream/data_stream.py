"""The streams, under PyFlink's module path."""

from __future__ import annotations

from headrace.common.public_module import public_module
from headrace.datastream.streams.all_windowed_stream import AllWindowedStream
from headrace.datastream.streams.cached_stream import CachedDataStream
from headrace.datastream.streams.connected.broadcast_stream import BroadcastConnectedStream, BroadcastStream
from headrace.datastream.streams.connected.connected_streams import ConnectedStreams
from headrace.datastream.streams.data_stream import DataStream
from headrace.datastream.streams.joins.interval_join import IntervalJoin, IntervalJoined
from headrace.datastream.streams.joins.joined_streams import (
    CoGroupedStreams,
    CoGroupedWindows,
    JoinedStreams,
    JoinedWindows,
)
from headrace.datastream.streams.keyed_stream import KeyedStream
from headrace.datastream.streams.partition_windowed_stream import PartitionWindowedStream
from headrace.datastream.streams.partitions import Order
from headrace.datastream.streams.results import CloseableIterator
from headrace.datastream.streams.source_stream import DataStreamSource
from headrace.datastream.streams.stream_sink import DataStreamSink
from headrace.datastream.streams.windowed_stream import WindowedStream

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CachedDataStream",
    "CloseableIterator",
    "CoGroupedStreams",
    "CoGroupedWindows",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "DataStreamSource",
    "IntervalJoin",
    "IntervalJoined",
    "JoinedStreams",
    "JoinedWindows",
    "KeyedStream",
    "Order",
    "PartitionWindowedStream",
    "WindowedStream",
]

public_module(__name__)
