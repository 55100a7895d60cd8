"""Tables in a savepoint: each has a file of its own, whatever operators and states are called."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.cli.state import export
from headrace.common import Types
from headrace.common.errors import SavepointError
from headrace.datastream.state import ValueStateDescriptor
from headrace.savepoint.metadata import read_metadata
from headrace.savepoint.tables import write_table
from headrace.state.exported_tables import ExportedTable
from headrace.state_processor import OperatorTransformation, SavepointReader, SavepointWriter
from headrace.storage.folder import posix_folder

NAMES = ["a-b", "a/b", "a_b", "A-b", "a b", "ä", "a%2Fb", ".", "..", "a/../b", "a\\b", "x" * 300, "a-b/c", "a/b-c"]


@pytest.fixture
def written(tmp_path: Path) -> str:
    """A savepoint with a state of each name, of which each holds that name."""
    states = OperatorTransformation.from_tables(Types.LONG())
    for name in NAMES:
        rows = pa.table({"key": [1], "value": [name]})
        states.with_state(ValueStateDescriptor(name, Types.STRING()), rows)
    return SavepointWriter.new_savepoint().with_operator("a/b", states).write(tmp_path / "with space, ä and 100%")


def test_states_of_similar_names_do_not_take_each_others_place(written: str) -> None:
    reader = SavepointReader.read(written)
    found = {name: reader.read_keyed_state("a/b", name).column("value").to_pylist() for name in NAMES}
    assert found == {name: [name] for name in NAMES}


def test_each_table_has_a_file_of_its_own(written: str) -> None:
    paths = [table.path for table in read_metadata(posix_folder(Path(written))).tables]
    assert len({path.lower() for path in paths}) == len(NAMES), "also where names that differ in case are one"


def test_a_plain_name_is_that_of_its_folder(written: str) -> None:
    assert len(list(Path(written, "operators").glob("*/state-a-b/*.parquet"))) == 1


def test_exported_each_has_a_file_of_its_own(written: str, tmp_path: Path) -> None:
    export(written, tmp_path / "exported", fmt="json")
    files = (tmp_path / "exported").iterdir()
    assert sorted(json.loads(file.read_text())["value"] for file in files) == sorted(NAMES)


def test_who_reads_one_state_reads_no_other(written: str) -> None:
    """However large they are: here they are gone."""
    metadata = read_metadata(posix_folder(Path(written)))
    for table in metadata.tables:
        if table.state != "state/a-b":
            Path(written, table.path).unlink()
    rows = SavepointReader.read(written).read_keyed_state("a/b", "a-b")
    assert rows.column("value").to_pylist() == ["a-b"]
    with pytest.raises(SavepointError, match="is missing; put it back"):
        SavepointReader.read(written).states()


def test_what_parquet_has_no_form_for(tmp_path: Path) -> None:
    schema = pa.schema([("key", pa.int64()), ("value", pa.struct([]))])
    rows = pa.RecordBatch.from_pylist([{"key": 1, "value": {}}], schema)
    table = ExportedTable("totals", "state/none", {"kind": "value"}, schema, [rows])
    with pytest.raises(SavepointError, match=r"operator 'totals': the state 'state/none' cannot be written as Parquet"):
        write_table(posix_folder(tmp_path), table, 1, 0)
    assert not any(tmp_path.iterdir())
