"""The example of the page on state works, and a directory of checkpoints can be moved as the page says."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from headrace.common import Configuration, Duration, Row, Types, WatermarkStrategy
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSource
from headrace.datastream.formats.json import JsonLinesFormat
from headrace.testing import JobHarness
from tests.docs.documents import DOCS, example

PAYMENT = Types.ROW_NAMED(["card", "shop", "amount"], [str, str, float])


def stream_of(name: str, payments: Any) -> Any:
    """The stream of an example."""
    names: dict[str, Any] = {"payments": payments, "__name__": "__main__"}
    source, last = example(DOCS / "state.md", name).rsplit("\n\n", 1)
    exec(compile(source, "state.md", "exec", dont_inherit=True), names)
    return eval(compile(last.strip(), "state.md", "eval", dont_inherit=True), names)


def alerts(payments: Any) -> Any:
    return stream_of("state", payments)


def test_the_example_of_a_subtask() -> None:
    def job(harness: JobHarness) -> None:
        harness.add_sink("out", stream_of("subtask", harness.add_source("payments", PAYMENT)))

    payments = [Row(card="x", shop="a", amount=float(number)) for number in range(4)]
    with JobHarness(job) as harness:
        for payment in payments:
            harness.push("payments", payment)
            harness.run_epoch()
        assert harness.results("out") == [payments[:3]]


def test_the_example() -> None:
    with JobHarness(lambda h: h.add_sink("out", alerts(h.add_source("payments", PAYMENT)))) as harness:
        for shop, amount in [("a", 600.0), ("b", 300.0), ("a", 200.0), ("c", 500.0)]:
            harness.push("payments", Row(card="x", shop=shop, amount=amount))
            harness.push("payments", Row(card="y", shop=shop, amount=1.0))
            harness.run_epoch()
        assert harness.results("out") == [Row(card="x", total=1100.0, shops=2)]
        harness.set_processing_time(Duration.of_days(2).to_millis())
        harness.push("payments", Row(card="x", shop="z", amount=1001.0))
        harness.run_epoch()
        assert harness.results("out")[-1] == Row(card="x", total=1001.0, shops=1)


def run_until(checkpoints: Path, folder: Path, records: int) -> list[Row]:
    """The alerts of a job that reads a watched folder and is stopped when that many have come."""
    settings = {
        "headrace.runtime": "local",
        "parallelism.default": "2",
        "execution.checkpointing.dir": str(checkpoints),
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    files = FileSource.for_record_stream_format(JsonLinesFormat(PAYMENT), folder).monitor_continuously(100).build()
    payments = env.from_source(files, WatermarkStrategy.no_watermarks(), "payments").uid("payments")
    found = []
    with alerts(payments).execute_and_collect() as collected:
        while len(found) < records:
            found.append(next(collected))
        collected.get_job_client().stop().result()
    return found


def test_a_directory_can_be_moved(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    line = '{{"card": "{}", "shop": "a", "amount": {}}}\n'.format
    (folder / "1").write_text(line("x", 900) + line("y", 1001))
    assert run_until(tmp_path / "old", folder, 1) == [Row(card="y", total=1001.0, shops=1)]
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    shutil.rmtree(tmp_path / "old")
    (folder / "2").write_text(line("x", 101) + line("y", 1))
    assert run_until(tmp_path / "new", folder, 1) == [Row(card="x", total=1001.0, shops=1)]
