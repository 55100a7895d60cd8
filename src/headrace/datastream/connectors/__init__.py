"""Connectors under PyFlink's module paths; here as well as in their own modules, as in PyFlink."""

from headrace.common.public_module import public_module
from headrace.datastream.connectors.base import DeliveryGuarantee, Sink, Source, create_sink, create_source
from headrace.datastream.connectors.file_system import (
    BucketAssigner,
    FileEnumeratorProvider,
    FileSink,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)
from headrace.datastream.connectors.number_seq import NumberSequenceSource

__all__ = [
    "BucketAssigner",
    "DeliveryGuarantee",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "NumberSequenceSource",
    "OutputFileConfig",
    "RollingPolicy",
    "Sink",
    "Source",
    "StreamFormat",
    "create_sink",
    "create_source",
]

public_module(__name__)
