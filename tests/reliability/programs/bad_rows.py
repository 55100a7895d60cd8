"""Reads a file of CSV in which some lines are bad; with a folder for them they are written there.

bad_rows.py FILE OUTPUT [BAD]
"""

from __future__ import annotations

import sys

from headrace.common import Types, WatermarkStrategy
from headrace.datastream import OutputTag, StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSource
from headrace.datastream.formats.csv import CsvReaderFormat, CsvSchema
from tests.reliability.support.canonical import row_sink

SCHEMA = CsvSchema.builder().add_number_column("id").add_number_column("amount").build()
BAD = OutputTag("bad", Types.ROW_NAMED(["where", "raw", "reason"], [Types.STRING()] * 3))

file, output, *bad = sys.argv[1:]
env = StreamExecutionEnvironment.get_execution_environment()
builder = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(SCHEMA), file)
if bad:
    builder = builder.set_dead_letter(BAD)
rows = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "rows")
rows.map(lambda row: (row.id, row.amount), Types.TUPLE([Types.LONG(), Types.LONG()])).sink_to(row_sink(output))
if bad:
    rows.get_side_output(BAD).sink_to(row_sink(bad[0]))
env.execute("bad rows")
