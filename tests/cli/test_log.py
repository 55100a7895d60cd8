"""``headrace log``: from arguments to what is printed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from headrace.cli.main import app
from headrace.common.errors import ProducerFencedError
from headrace.log.consumer import Consumer
from headrace.log.log import Log
from headrace.log.producer import Producer
from tests.forks import Forks


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A log with a topic of two partitions."""
    assert invoke("create", tmp_path / "log", "words", "-p", 2, "--config", "retention.ms=7 d").exit_code == 0
    return tmp_path / "log"


def invoke(*arguments: object, text: str | None = None) -> Result:
    return CliRunner().invoke(app, ["log", *map(str, arguments)], input=text, env={"COLUMNS": "200"})


def test_lines_go_in_and_come_out(place: Path, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"a:one\r\nb:tw\xff\nthree\n")
    assert (
        "3 records appended to words"
        in invoke("append", place, "words", tmp_path / "lines", "--key-separator", ":").output
    )
    assert sorted(invoke("tail", place, "words").stdout.splitlines()) == ["one", "three", "tw\\xff"]
    shown = invoke("tail", place, "words", "--from-beginning", "--format", "json").stdout.splitlines()
    (first,) = (record for record in map(json.loads, shown) if record["key"] == "a")
    assert (first["topic"], first["offset"], first["value"], first["headers"]) == ("words", 0, "one", [])
    assert len(shown) == 3


def test_tail_shows_the_last_of_all_partitions(place: Path) -> None:
    with Producer(str(place)) as producer:
        for number in range(20):
            producer.send("words", b"%d" % number, partition=number % 2, timestamp=number)
    assert invoke("tail", place, "words", "-n", 3).stdout.split() == ["17", "18", "19"]
    assert invoke("tail", place, "words", "-n", 0).stdout == ""
    assert len(invoke("tail", place, "words", "--from-beginning").stdout.split()) == 20


def test_tail_follows(place: Path, forks: Forks) -> None:
    tail = forks.start_command("log", "tail", place, "words", "-f")
    invoke("append", place, "words", text="one\ntwo\n")
    tail.wait_until("one\n")
    tail.wait_until("two\n")
    invoke("append", place, "words", text="three\n")
    tail.wait_until("three\n")
    assert sorted(tail.output.split()) == ["one", "three", "two"]


def test_describe_and_groups(place: Path) -> None:
    invoke("append", place, "words", text="one\n")
    described = invoke("describe", place).stdout
    assert "words" in described
    assert "retention.ms=604800000" in described
    with Consumer(str(place), "readers", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["words"])
        consumer.poll()
    invoke("append", place, "words", text="two\nthree\n")
    lines = [line.split() for line in invoke("groups", place, "readers").stdout.splitlines() if "readers" in line]
    assert sorted(line[1] for line in lines) == [f"words-{n}" for n in sorted({int(line[1][-1]) for line in lines})]
    assert {line[2] for line in lines} <= {"0", "1"}
    assert invoke("describe", place, "sentences").exit_code == 1
    assert "no group 'writers'; there is readers" in invoke("groups", place, "writers").stderr


def test_compact_and_export(place: Path, tmp_path: Path) -> None:
    for word in ("one", "two"):
        with Producer(str(place)) as producer:
            producer.append("words", pa.table({"value": [word]}), partition=1)
    assert "2 segments merged" in invoke("compact", place, "words").stdout
    assert invoke("export", place, "words", tmp_path / "words.parquet").exit_code == 0
    query = f"select partition, \"offset\", value from '{tmp_path}/words.parquet' order by 2"
    assert duckdb.sql(query).fetchall() == [(1, 0, b"one"), (1, 1, b"two")]
    records = duckdb.from_arrow(Log.open(str(place)).read("words"))
    assert records.aggregate(chr(34).join(["max(", "offset", "), topic"])).fetchall() == [(1, "words")]


def test_a_file_that_cannot_be_exported_to(place: Path, tmp_path: Path) -> None:
    missing = invoke("export", place, "words", tmp_path / "there/words.parquet")
    said = f"words.parquet cannot be written: there is no folder {tmp_path}/there; make it first\n"
    assert missing.exit_code == 2
    assert missing.stderr == f"error: {tmp_path}/there/{said}"
    folder = invoke("export", place, "words", tmp_path)
    assert folder.exit_code == 2
    assert folder.stderr == f"error: {tmp_path} is a folder: say what the file in it is to be called\n"
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_what_waits_for_its_commit_is_shown_and_abandoned(place: Path) -> None:
    assert "waits for its commit" in invoke("transactions", place).stdout
    job, log = "0123456789abcdef" * 2, Log.open(str(place))
    producer = Producer(log, f"headrace-{job}-alerts")
    with Producer(log, "balances") as other:
        for each in (producer, other):
            each.begin_transaction()
            each.send("words", random.Random(1).randbytes(100_000))
            each.flush()
        rows = invoke("transactions", place).stdout.splitlines()
        assert [row.split()[0] for row in rows[3:5]] == ["balances", job]
        assert rows[4].split()[1] == "alerts"
        assert rows[3].rstrip().endswith(" kB")
        refused = invoke("abandon", place, job)
        assert refused.exit_code == 2
        assert "Add --force if it is given up for good" in " ".join(refused.output.split())
        assert len(log.journal.chunk_names()) == 2
        assert "1 file removed" in invoke("abandon", place, job, "--force").stdout
        assert "nothing waits for a commit of" in invoke("abandon", place, job, "--force").output
        other.commit_transaction()
        with pytest.raises(ProducerFencedError):
            producer.commit_transaction()


def test_what_cannot_be_done(place: Path, tmp_path: Path) -> None:
    missing = invoke("tail", tmp_path / "nothing", "words")
    assert (missing.exit_code, "is no log" in missing.stderr) == (1, True)
    assert invoke("create", place, "words").exit_code == 1
    for command in (["append", place, "wrods", tmp_path / "nothing.txt"], ["compact", place, "wrods"]):
        (tmp_path / "nothing.txt").write_text("")
        unknown_topic = invoke(*command)
        assert (unknown_topic.exit_code, "has no topic 'wrods'" in unknown_topic.stderr) == (1, True), command
    nowhere = invoke("create", "")
    assert (nowhere.exit_code, "the path of the log is empty" in nowhere.stderr) == (1, True)
    malformed = invoke("create", place, "more", "--config", "retention.ms")
    assert (malformed.exit_code, "expected KEY=VALUE" in malformed.stderr) == (2, True)
    unknown = invoke("create", place, "more", "--config", "retention.hours=1")
    assert (unknown.exit_code, "'retention.hours'" in unknown.stderr) == (2, True)
