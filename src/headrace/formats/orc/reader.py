"""Reading ORC, measured in stripes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import orc

from headrace.common.columns import layout_of
from headrace.common.errors import CorruptFileError
from headrace.common.tracebacks import hides_engine_of_methods
from headrace.formats.bulk_files import ColumnFileFormat, RowReader, names_in_file, telling_damage
from headrace.formats.file_format import Decoded, FileExtent
from headrace.storage.files import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.formats.file_format import FileRange
    from headrace.storage.files import InputFile

_BATCH_ROWS = 1 << 16


@hides_engine_of_methods
class OrcFormat(ColumnFileFormat):
    """Rows of ORC files, columns straight as they are. Several tasks may read stripes of one file.

    ORC has no checksums: damage is noticed where it breaks what holds the values together, and nowhere else. Moments
    are read from the years 1678 to 2261 alone, which is what Arrow's reader can give.

    Args:
        columns: which columns to read, in that order; all of them when left out.
        type_info: the type of the records, whose fields are looked up among the columns by name. When left out it is
            that of the first file that is there when the source is built.
        case_sensitive: whether names of columns have to be spelled exactly.

    Examples:
        >>> import pyarrow as pa
        >>> from pyarrow import orc
        >>> from headrace.common import WatermarkStrategy
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors import FileSource
        >>> from headrace.datastream.formats.orc import OrcFormat
        >>> orc.write_table(pa.table({"id": [1, 2], "price": [2.5, 4.0], "shop": ["a", "b"]}), "prices.orc")
        >>> source = FileSource.for_bulk_file_format(OrcFormat(["id", "price"]), "prices.orc").build()
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_source(source, WatermarkStrategy.no_watermarks(), "prices").execute_and_collect(limit=10)
        [Row(id=1, price=2.5), Row(id=2, price=4.0)]
    """

    name = "ORC"

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        type_info: TypeInformation | type | None = None,
        *,
        case_sensitive: bool = True,
    ) -> None:
        super().__init__(columns, type_info, case_sensitive=case_sensitive)

    def file_schema(self, file: InputFile) -> pa.Schema:
        with _open(file) as opened:
            return pa.schema(map(_in_micros, opened.schema))

    def extent(self, file: InputFile) -> FileExtent:
        with _open(file) as found:
            stripes, rows = found.nstripes, found.nrows
        each = max(stripes, 1)
        return FileExtent(stripes, bytes_per_unit=file.size / each, records_per_unit=rows / each)

    def read(self, part: FileRange, *, reject: bool) -> Iterator[Decoded]:
        path, schema = shown(part.file.path), layout_of(self.produced_type).schema
        with _open(part.file) as file:
            names = names_in_file(path, file.schema.names, schema.names, case_sensitive=self._case_sensitive)
            rows = RowReader(path, names, self.produced_type, reject=reject)
            for stripe in range(part.start, min(part.end, file.nstripes)):
                try:
                    yield from _read_stripe(path, file, stripe, names, rows)
                except CorruptFileError as error:
                    yield Decoded(damage=CorruptFileError(f"{error} (stripe {stripe} of the file)"))


def _read_stripe(path: str, file: orc.ORCFile, stripe: int, names: list[str], rows: RowReader) -> Iterator[Decoded]:
    with telling_damage(f"{path} is damaged"):
        batch = file.read_stripe(stripe, columns=names)
    for start in range(0, batch.num_rows, _BATCH_ROWS):
        yield rows.decoded(batch.slice(start, _BATCH_ROWS), start, f"of stripe {stripe}")


def _in_micros(field: pa.Field) -> pa.Field:
    """The field as a type of records has it: Arrow gives all moments of ORC in nanoseconds."""
    return field.with_type(pa.timestamp("us", field.type.tz)) if pa.types.is_timestamp(field.type) else field


@contextmanager
def _open(file: InputFile) -> Iterator[orc.ORCFile]:
    with file.open_for_arrow() as stream:
        with telling_damage(f"{shown(file.path)} is not an ORC file"):
            opened = orc.ORCFile(stream)
            _ = opened.schema.names  # which may be what is damaged
        yield opened
