"""Writing lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.common.values import handler_of
from headrace.formats.column_text import bytes_of, join_text, simple_text
from headrace.formats.encoders import BatchEncoder
from headrace.formats.lines.streams import normal_charset

if TYPE_CHECKING:
    from headrace.common.batch import Batch


class TextLineEncoder(BatchEncoder):
    """Writes every record as a line, as Flink spells it: strings as they are, many times as fast as one by one.

    Args:
        charset: how characters are encoded.

    Raises:
        ConfigurationError: when the charset is unknown.
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        self._charset = normal_charset(charset)

    def encode_batch(self, batch: Batch) -> bytes:
        data = self._as_utf8(batch)
        return data if self._charset == "utf-8" else data.decode().encode(self._charset)

    def _as_utf8(self, batch: Batch) -> bytes:
        if batch.is_columnar and batch.type.arrow_type == pa.string():
            column = batch.columns.column(0)
            if not column.null_count:
                return bytes_of(join_text([simple_text(column), "\n"]))
        text = handler_of(batch.type).text
        return "".join([f"{text(record)}\n" for record in batch.rows]).encode()
