"""Reading lines of JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headrace.common.type_variables import T_co
from headrace.common.typeinfo import Types
from headrace.formats.file_format import Decoded
from headrace.formats.json.decoders import decoder_of, lines_of
from headrace.formats.json.documents import refuse_deep
from headrace.formats.lines.format import BOM, LineFormat, type_of_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.common.typeinfo import TypeInformation
    from headrace.formats.lines.format import LineDecoder


class JsonLinesFormat(LineFormat[T_co]):
    r"""Lines that each hold a JSON document. Empty lines are left out.

    With a type, every line is an object with the type's fields; a field that is missing is ``None``, one that the type
    does not have is left out, and a value that does not fit makes the line a bad record. Without a type every record is
    what :func:`json.loads` makes of the line.

    Args:
        type_info: the type of the records, or the types of their fields by name.
        charset: how characters are encoded.

    Raises:
        ConfigurationError: when the charset is unknown.

    Examples:
        >>> from pathlib import Path
        >>> from headrace.common import WatermarkStrategy
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors import FileSource
        >>> from headrace.datastream.formats.json import JsonLinesFormat
        >>> _ = Path("users.json").write_text('{"name": "ann", "age": 31}\n')
        >>> source = FileSource.for_record_stream_format(JsonLinesFormat({"name": str, "age": int}), "users.json")
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> users = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "users")
        >>> users.execute_and_collect(limit=10)
        [Row(name='ann', age=31)]
    """

    def __init__(
        self, type_info: TypeInformation[T_co] | type[T_co] | Mapping[str, Any] | None = None, *, charset: str = "UTF-8"
    ) -> None:
        super().__init__(charset)
        self._type = Types.PICKLED_BYTE_ARRAY() if type_info is None else type_of_fields(type_info)

    @property
    def produced_type(self) -> TypeInformation:
        return self._type

    def decoder(self, path: str, header: bytes) -> LineDecoder:
        if self._type.arrow_type is None:
            return _decode_objects
        decoder = decoder_of(self._type)
        return lambda data: Decoded(decoder.lines(data))


def _decode_objects(data: bytes) -> Decoded:
    return Decoded(rows=[_object(line) for line in lines_of(data)])


def _object(line: bytes) -> Any:
    refuse_deep(line)
    return json.loads(str(line.removeprefix(BOM), "utf-8"))
