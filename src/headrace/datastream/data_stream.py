"""The streams, under PyFlink's module path."""

from headrace.common.public_module import public_module
from headrace.datastream.streams.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
from headrace.datastream.streams.data_stream import DataStream
from headrace.datastream.streams.joined_streams import (
    CoGroupedStreams,
    CoGroupedWindows,
    JoinedStreams,
    JoinedWindows,
)
from headrace.datastream.streams.keyed_stream import IntervalJoin, IntervalJoined, KeyedStream
from headrace.datastream.streams.partition_windowed_stream import Order, PartitionWindowedStream
from headrace.datastream.streams.sinks import CloseableIterator, DataStreamSink
from headrace.datastream.streams.source_stream import CachedDataStream, DataStreamSource
from headrace.datastream.streams.windowed_stream import AllWindowedStream, WindowedStream

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
