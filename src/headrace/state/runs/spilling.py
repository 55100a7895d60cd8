"""Batches that an epoch holds until its end go to the machine's own disk when they are large.

The file has no name, so nothing is left of it once nobody holds the batch, however the process ends. Its pages are
memory as long as there is some to spare.
"""

from __future__ import annotations

import mmap
import tempfile
from typing import Final

import pyarrow as pa

from headrace.common.durable import PREFIX, writing

SPILLED_BYTES: Final = 64 << 20
"""Batches of so many bytes are large."""


def is_large(batch: pa.RecordBatch) -> bool:
    """Whether a batch should not stay in memory."""
    return bool(batch.nbytes >= SPILLED_BYTES)


def spilled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same batch in a file.

    Raises:
        InfrastructureError: when it cannot be written: the disk is full, say.
    """
    with writing("a task that holds more than should be in memory"), tempfile.TemporaryFile(prefix=PREFIX) as file:
        with pa.ipc.new_stream(file, batch.schema) as out:
            out.write_batch(batch)
        file.flush()
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return pa.ipc.open_stream(pa.py_buffer(mapped)).read_next_batch()
