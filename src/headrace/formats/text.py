"""Lines of text: read into one column of strings, and written."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.type_variables import T_co
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.values import stream_handler_of
from headrace.formats.file_format import BatchEncoder, Decoded, FileFormat, bytes_of, join_text, simple_text
from headrace.formats.lines import LineDecoder, LineFormat, normal_charset


class TextLineFormat(LineFormat[str]):
    r"""Every line is a ``STRING`` record, empty lines too.

    A line ends with ``\n`` or ``\r\n``; a carriage return anywhere else belongs to the line. Unlike Flink's, this
    format takes bytes that are not valid in the charset for a bad record and does not replace them.
    """

    @property
    def produced_type(self) -> TypeInformation[str]:
        return Types.STRING()

    def decoder(self, path: str, header: bytes) -> LineDecoder:
        schema = layout_of(self.produced_type).schema

        def decode(data: bytes) -> Decoded:
            return Decoded(pa.RecordBatch.from_arrays([split_lines(data)], schema=schema))

        return decode


class StreamFormat(FileFormat[T_co]):
    """The root of formats of one's own that are read as a stream of records; under PyFlink's name.

    Examples:
        >>> from headrace.datastream.connectors import StreamFormat
        >>> StreamFormat.text_line_format("ISO-8859-1").produced_type
        String
    """

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> TextLineFormat:
        r"""Lines of text, as ``STRING`` records without their line ends (``\n`` or ``\r\n``).

        Args:
            charset_name: how characters are encoded; any that Python knows.

        Raises:
            ConfigurationError: when it knows none of that name.
        """
        return TextLineFormat(charset_name)


class TextLineEncoder(BatchEncoder):
    """Writes every record as a line, as Flink spells it: strings as they are, many times as fast as one by one.

    Args:
        charset: how characters are encoded.

    Raises:
        ConfigurationError: when the charset is unknown.
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        self._charset = normal_charset(charset)

    takes_changes = True

    def encode_batch(self, batch: Batch) -> bytes:
        data = self._as_utf8(batch)
        return data if self._charset == "utf-8" else data.decode().encode(self._charset)

    def _as_utf8(self, batch: Batch) -> bytes:
        if batch.is_columnar and batch.type.arrow_type == pa.string():
            column = batch.columns.column(0)
            if not column.null_count:
                return bytes_of(join_text([simple_text(column), "\n"]))
        text = stream_handler_of(batch.type).text
        return "".join([f"{text(record)}\n" for record in batch.rows]).encode()


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
