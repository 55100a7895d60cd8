"""The examples of the documentation work."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import types
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.common.configuration import Configuration
from headrace.common.errors import CommitRefusedError
from headrace.common.typeinfo import Types
from headrace.common.types import Row
from headrace.connectors.source import Pending, ReadBudget
from headrace.datastream import StreamExecutionEnvironment
from tests.connectors.harness import SinkRun, SourceRun

GUIDE = Path(__file__).parents[2] / "docs" / "connectors.md"


@pytest.fixture
def example(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A module with the code of an example; the harness pickles what is in it."""
    name = request.param
    module = sys.modules[f"example_{name}"] = types.ModuleType(f"example_{name}")
    try:
        run_example(name, module.__dict__)
        yield module
    finally:
        del sys.modules[f"example_{name}"]


def run_example(name: str, names: dict[str, Any]) -> None:
    """Run the code of an example, which defines ``names``."""
    found = re.search(rf"<!-- example: {name} -->\n```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found is not None
    exec(compile(found[1], f"{GUIDE}: {name}", "exec"), names)


@pytest.mark.parametrize("example", ["source"], indirect=True)
def test_the_source(example: Any, tmp_path: Path) -> None:
    def append(first: int, last: int) -> None:
        records = np.array([(n, n / 2) for n in range(first, last)], example.RECORD)
        with path.open("ab") as file:
            file.write(records.tobytes() + b"half")
            file.truncate(file.tell() - 4)

    path = tmp_path / "measurements"
    append(0, 100)
    run = SourceRun(example.MeasurementSource(str(path)), tmp_path / "state")
    while run.epoch(ReadBudget(records=30, bytes=10**6, pieces=4)):
        run.restart()
    append(100, 110)
    assert run.enumerator.pending("measurements", run.positions["measurements"], 0) == Pending(10, 160)
    run.epoch()
    assert run.rows == [Row(time=n, value=n / 2) for n in range(110)]


def test_one_source_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, orders in (("archive", (1, 2)), ("arriving", (3,))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "orders.jsonl").write_text("".join(f'{{"id": {n}, "time": {n}}}\n' for n in orders))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    run_example("hybrid", names)
    run = SourceRun(names["source"], tmp_path / "state")
    while run.epoch():
        run.now += 1_000
    assert run.rows == [Row(id=n, time=n) for n in (1, 2, 3)]


def test_files_that_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    run_example("compaction", names)
    settings = {"headrace.runtime": "local", "parallelism.default": "3", "headrace.epoch.first-records": "5"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.from_collection([f"{n}" for n in range(30)], Types.STRING()).sink_to(names["sink"])
    env.execute()
    files = list(tmp_path.glob("out/*/compacted-part-*"))
    assert len(files) <= 2, "one, or those of two hours"
    assert sorted(int(line) for file in files for line in file.read_text().split()) == [*range(30)]


@pytest.mark.parametrize("example", ["sink"], indirect=True)
def test_the_sink(example: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "database")
    run = SinkRun(example.SqliteSink(path), Types.TUPLE([str, int]), parallelism=2)
    run.run_epoch([("a", 1), ("b", 2)])
    committables = run.run_epoch([("a", 3)])
    run.new_committer().commit(run.epoch, committables, 0)
    run.run_epoch([])
    with closing(sqlite3.connect(path)) as database:
        assert sorted(database.execute("select * from results")) == [("a", 1), ("a", 3), ("b", 2)]


@pytest.mark.parametrize("example", ["publishing"], indirect=True)
def test_the_sink_that_lists_what_it_has_published(example: Any, tmp_path: Path) -> None:
    run_example("topologies", example.__dict__)
    settings = {"headrace.runtime": "local", "parallelism.default": "2", "headrace.epoch.first-records": "20"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    pairs = env.from_collection([(f"p{n % 3}", n) for n in range(60)], Types.TUPLE([Types.STRING(), Types.LONG()]))
    pairs.sink_to(example.ListedPartitionSink(str(tmp_path)))
    env.execute()
    listed = [name for path in (tmp_path / ".published").iterdir() for name in json.loads(path.read_text())]
    assert sorted(listed) == sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("p*/*.json"))
    epochs = [(name.split("/")[0], name.split("/")[1].split("-")[0]) for name in listed]
    assert len(set(epochs)) == len(epochs), "one writer for each partition"


@pytest.mark.parametrize("example", ["writer state"], indirect=True)
def test_the_sink_whose_writers_have_state(example: Any, tmp_path: Path) -> None:
    settings = {"headrace.runtime": "local", "parallelism.default": "2", "headrace.epoch.first-records": "30"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    texts = env.from_collection([f"text {n}" for n in range(430)], Types.STRING())
    texts.sink_to(example.PackSink(str(tmp_path))).uid("packs")
    env.execute()
    packs = [path.read_text().splitlines() for path in tmp_path.glob("*.txt")]
    assert sorted(text for pack in packs for text in pack) == sorted(f"text {n}" for n in range(430))
    assert sum(len(pack) < 100 for pack in packs) <= 2


@pytest.mark.parametrize("example", ["publishing"], indirect=True)
def test_the_sink_that_shows_several_epochs_at_once(example: Any, tmp_path: Path) -> None:
    run_example("pre-commit", example.__dict__)
    pairs = Types.TUPLE([Types.STRING(), Types.LONG()])
    run = SinkRun(example.PatientPartitionSink(str(tmp_path)), pairs)
    shown = []
    for epoch in range(1, 5):
        run.run_epoch([(f"p{partition}", epoch) for partition in range(9)])
        shown.append(len(list(tmp_path.glob("p*/*.json"))))
    assert shown == [0, 0, 27, 27]
    run.end()
    assert len(list(tmp_path.glob("p*/*.json"))) == 36


@pytest.mark.parametrize("example", ["publishing"], indirect=True)
def test_the_sink_that_publishes_in_tasks(example: Any, tmp_path: Path) -> None:
    settings = {"headrace.runtime": "local", "parallelism.default": "2", "headrace.epoch.first-records": "20"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    pairs = env.from_collection([(f"p{n % 3}", n) for n in range(60)], Types.TUPLE([Types.STRING(), Types.LONG()]))
    pairs.sink_to(example.PartitionSink(str(tmp_path)))
    env.execute()
    found = {n: path.parent.name for path in tmp_path.glob("p*/*.json") for n in json.loads(path.read_text())}
    assert found == {n: f"p{n % 3}" for n in range(60)}
    assert [path for path in (tmp_path / ".staged").rglob("*") if path.is_file()] == []
    name = next(path.relative_to(tmp_path) for path in tmp_path.glob("p*/*.json"))
    example.publish(tmp_path, str(name))
    with pytest.raises(CommitRefusedError, match="is gone before it was published"):
        example.publish(tmp_path, "p0/other.json")
