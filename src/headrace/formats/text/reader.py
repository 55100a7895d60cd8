"""Reading lines of text into one column of strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.columns import layout_of
from headrace.common.typeinfo import Types
from headrace.formats.file_format import Decoded
from headrace.formats.lines.format import LineFormat

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.formats.lines.format import LineDecoder


class TextLineFormat(LineFormat):
    r"""Every line is a ``STRING`` record, empty lines too.

    A line ends with ``\n`` or ``\r\n``; a carriage return anywhere else belongs to the line. Unlike Flink's, this
    format takes bytes that are not valid in the charset for a bad record and does not replace them.
    """

    @property
    def produced_type(self) -> TypeInformation:
        return Types.STRING()

    def decoder(self, path: str, header: bytes) -> LineDecoder:
        schema = layout_of(self.produced_type).schema

        def decode(data: bytes) -> Decoded:
            return Decoded(pa.RecordBatch.from_arrays([split_lines(data)], schema=schema))

        return decode


def split_lines(data: bytes) -> pa.StringArray:
    """The lines of some UTF-8 bytes without their line ends; the last one may have none.

    Raises:
        UnicodeDecodeError: when the bytes are not UTF-8.
    """
    str(data, "utf-8")  # the fastest check there is
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
    if not data:
        return pa.array([], pa.string())
    length = len(data) - data.endswith(b"\n")
    offsets = np.array([0, length], np.int32)
    whole = pa.StringArray.from_buffers(1, pa.py_buffer(offsets), pa.py_buffer(data))
    return pc.split_pattern(whole, "\n").flatten()
