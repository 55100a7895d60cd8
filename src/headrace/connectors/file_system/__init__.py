"""Files as a source and as a sink."""

from __future__ import annotations

from headrace.connectors.file_system.buckets import BucketAssigner, BucketContext
from headrace.connectors.file_system.compaction import (
    FileCompactor,
    FileCompactStrategy,
    FileCompactStrategyBuilder,
)
from headrace.connectors.file_system.enumerator import FileEnumeratorProvider, FileSplitAssignerProvider
from headrace.connectors.file_system.rolling import (
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    RollingPolicy,
)
from headrace.connectors.file_system.sink import BulkFormatBuilder, FileSink, RowFormatBuilder
from headrace.connectors.file_system.source import FileSource, FileSourceBuilder
from headrace.connectors.file_system.writer import OutputFileConfig
from headrace.formats.file_format import BulkFormat
from headrace.formats.text import StreamFormat

__all__ = [
    "BucketAssigner",
    "BucketContext",
    "BulkFormat",
    "BulkFormatBuilder",
    "DefaultRollingPolicy",
    "FileCompactStrategy",
    "FileCompactStrategyBuilder",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RollingPolicy",
    "RowFormatBuilder",
    "StreamFormat",
]
