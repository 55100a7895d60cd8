"""No public name of PyFlink is forgotten: it is here, or the table says what to do instead."""

from __future__ import annotations

import pytest

from headrace.common.pyflink_names import MEMBERS, MODULES, NAMES, PLAIN, Missing
from tests.docs.test_compatibility import ROWS
from tests.names import pyflink

OF_FLINK = {
    *("datastream.connectors.mongodb", "datastream.connectors.opensearch"),
    *("datastream.TimeCharacteristic", "datastream.ExternalizedCheckpointCleanup", "datastream.connectors.JdbcSink"),
    *("datastream.connectors.FlinkKafkaConsumer", "datastream.connectors.FlinkKafkaProducer"),
}
"""What the table has though PyFlink has not: names of Java, of Flink's other connectors, and of older versions."""

PLACED = {f"{module}.{name}": missing for module, names in NAMES.items() for name, missing in names.items()}
OWNED = {f"{owner}.{name}": missing for owner, names in MEMBERS.items() for name, missing in names.items()}
TABLE = {**MODULES, **PLACED, **OWNED, **PLAIN}


def test_the_list_is_whole() -> None:
    assert pyflink.LINES[0].startswith("# Public names of PyFlink 2.3")
    assert len(pyflink.NAMES) > 2500
    assert {"common.Types", "datastream.window.CountTrigger.of", "table.table.Table.join"} <= set(pyflink.NAMES)


def test_every_name_is_here_or_in_the_table() -> None:
    assert [name for name in pyflink.NAMES if not pyflink.is_here(name) and pyflink.row(name) is None] == []


def test_what_is_here_is_not_in_the_table() -> None:
    assert [name for name in pyflink.NAMES if pyflink.is_here(name) and pyflink.row(name) is not None] == []


def test_every_row_is_for_a_name_of_pyflink() -> None:
    ends = {".".join(name.split(".")[-size:]) for name in pyflink.NAMES for size in (2, 3)}
    known = {*pyflink.NAMES, *ends}
    assert {name for name in TABLE if name not in known} == OF_FLINK


@pytest.mark.parametrize("name", TABLE)
def test_rows_agree_with_the_list_of_features(name: str) -> None:
    missing = TABLE[name]
    status = {row[0]: row[2] for row in ROWS}[missing.item]
    assert status in (("not yet", "partly") if missing.planned else ("not planned", "partly", "done"))
    assert missing.advice[0].islower() or missing.advice.startswith(("CSV", "Flink", "PyFlink", "Spark"))
    assert not missing.advice.endswith(".")


def test_a_row_tells_whether_it_is_to_come() -> None:
    assert str(Missing("DS-01", "use x")) == " yet: use x"
    assert str(Missing("DS-01", "use x", planned=False)) == ": use x"
