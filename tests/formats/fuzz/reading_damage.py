"""Reads all files of a folder, as a job would: a process of its own, as damage might end it.

``python -m tests.formats.fuzz.reading_damage <folder> <MiB>`` writes a line for each file: its name, and how many
records it has, or what is wrong with it.
"""

from __future__ import annotations

import itertools
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from headrace.common import Types
from headrace.common.columns import layout_of
from headrace.common.errors import BadRecordError
from headrace.connectors.file_system.paths import InputPaths
from headrace.formats.avro.files import AvroFormat
from headrace.formats.csv.reader import CsvFormat
from headrace.formats.file_format import FileFormat, FileRange
from headrace.formats.json.decoders import JsonLinesFormat
from headrace.formats.orc import OrcFormat
from headrace.formats.parquet import ParquetFormat
from headrace.formats.text import TextLineFormat
from headrace.storage.files import InputFile

KIND: Final = Types.ROW_NAMED(["id", "name"], [int, str])
FORMATS: Final[Mapping[str, FileFormat]] = {
    "parquet": ParquetFormat(type_info=KIND),
    "orc": OrcFormat(type_info=KIND),
    "avro": AvroFormat(type_info=KIND),
    "json": JsonLinesFormat(KIND),
    "csv": CsvFormat(KIND),
    "txt": TextLineFormat(),
}


def records_of(path: Path, parts: int = 1, fmt: FileFormat | None = None) -> tuple[list[Any], list[str], list[str]]:
    """The records of a file that is cut into some parts, why others are bad, and what is damaged.

    Raises:
        BadRecordError: when nothing can be read.
    """
    file = InputFile(InputPaths((), {}).store_of(str(path)), str(path), path.stat().st_size)
    fmt = (fmt or FORMATS[path.name.split(".")[1]]).resolve(lambda: [file])
    extent = fmt.extent(file)
    cuts = [extent.length * part // parts for part in range(parts + 1)] if extent.divisible else [0, extent.length]
    rows: list[Any] = []
    rejected, damage = [], []
    for start, end in itertools.pairwise(cuts):
        for decoded in fmt.read(FileRange(file, start, end), reject=True):
            if decoded.columns is not None:
                rows += layout_of(fmt.produced_type).columns_to_rows(decoded.columns)
            rows += decoded.rows or []
            rejected += [reason for _, _, reason in decoded.rejected]
            damage += [] if decoded.damage is None else [str(decoded.damage)]
    return rows, rejected, damage


def _told(path: Path) -> str:
    try:
        rows, rejected, damage = records_of(path)
    except BadRecordError as error:
        damage = [str(error)]
    else:
        if not damage:
            return f"{len(rows)} records, {len(rejected)} bad"
    return "told" if all(path.name in text for text in damage) else f"no name in {damage}"


if __name__ == "__main__":
    limit = int(sys.argv[2]) << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for each in sorted(Path(sys.argv[1]).iterdir()):
        try:
            print(each.name, _told(each), flush=True)
        except Exception as error:
            print(each.name, "RAISED", type(error).__name__, error, flush=True)
