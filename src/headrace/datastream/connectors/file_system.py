"""Files as a source and as a sink."""

from headrace.common.public_module import public_module
from headrace.connectors.file_system.buckets import BucketAssigner
from headrace.connectors.file_system.rolling import (
    DefaultRollingPolicy,
    FileCompactor,
    FileCompactStrategy,
    OnCheckpointRollingPolicy,
    RollingPolicy,
)
from headrace.connectors.file_system.sink import FileSink, OutputFileConfig
from headrace.connectors.file_system.source import (
    FileEnumeratorProvider,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
)
from headrace.formats.file_format import BulkFormat
from headrace.formats.text import StreamFormat

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "DefaultRollingPolicy",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
]

public_module(__name__)
