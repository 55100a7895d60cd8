"""Partial matches and rules as tables, out of a savepoint and into another one, from which a job goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.cep import CEP, Pattern
from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.datastream import StreamExecutionEnvironment
from headrace.state_processor import SavepointReader, SavepointWriter
from headrace.testing import JobHarness
from tests.cep.test_dynamic_patterns import CONDITIONS, PAYMENT, RULE, SMALL_LARGE, Told, job, pay

FIXED = Pattern.parse(SMALL_LARGE, CONDITIONS)


def stored(directory: Path) -> SavepointReader:
    return SavepointReader.read(str(directory))


def begun(build: Any, *more: tuple[str, Any, int]) -> Any:
    """Small payments of two cards, of which nothing large has come yet."""
    with JobHarness(build, parallelism=2) as harness:
        for source, record, time in more:
            harness.push(source, record, timestamp=time)
        for card in ("ann", "bob"):
            for event, time in pay(0.5, card=card):
                harness.push("payments", event, timestamp=time)
        for source in ("payments", *{source for source, *_ in more}):
            harness.advance_watermark(source, 1_500)
        harness.run_epoch()
        return harness.checkpoint()


def fixed(harness: JobHarness) -> None:
    payments = harness.add_source("payments", PAYMENT).key_by(0)
    harness.add_sink(
        "found", CEP.pattern(payments, FIXED).select(lambda match: match["large"][0][0], str).uid("patterns")
    )


def without(table: pa.Table, key: str) -> pa.Table:
    return table.filter(pc.not_equal(table["key"], key))


def test_partial_matches_are_a_table_and_may_be_taken_out(tmp_path: Path) -> None:
    checkpoint = begun(fixed)
    reader = stored(checkpoint.directory)
    assert {state.store: state.rows for state in reader.states()} == {"pattern-matches": 2, "pattern-timers": 2}
    rows = reader.read_table("patterns", "pattern-matches").sort_by("key").to_pylist()
    assert [(row["key"], row["3.time"], row["5.record"]) for row in rows] == [
        (card, 1_000, {"f0": card, "f1": 0.5}) for card in ("ann", "bob")
    ]
    assert reader.read_table("patterns", "pattern-timers")["time"].to_pylist() == [11_000, 11_000]

    writer = SavepointWriter.from_existing_savepoint(str(checkpoint.directory))
    left = without(writer.reader.read_table("patterns", "pattern-matches"), "bob")
    path = writer.replace_table("patterns", "pattern-matches", left).write(str(tmp_path / "repaired"))
    assert stored(Path(path)).read_table("patterns", "pattern-matches")["key"].to_pylist() == ["ann"]
    assert goes_on(path, None) == ["ann"]


def test_a_rule_may_be_read_and_changed(tmp_path: Path) -> None:
    checkpoint = begun(job(), ("rules", RULE.to_json(), 0))
    writer = SavepointWriter.from_existing_savepoint(str(checkpoint.directory))
    rules = writer.reader.read_broadcast_state("patterns", "pattern-rules")
    (row,) = rules.to_pylist()
    assert row["entry_key"] == "fraud"
    assert row["value"]["version"] == 1
    assert Pattern.from_json(row["value"]["pattern"]).explain() == FIXED.explain()
    row["value"]["pattern"] = row["value"]["pattern"].replace("500.0", "800.0")
    changed = pa.Table.from_pylist([row], schema=rules.schema)
    path = writer.replace_table("patterns", "broadcast/pattern-rules", changed).write(str(tmp_path / "changed"))
    assert goes_on(path, "rules") == ["fraud 1 bob [0.5, 900.0]"], "600 is not large any more"
    assert goes_on(str(checkpoint.directory), "rules") == ["fraud 1 ann [0.5, 600.0]", "fraud 1 bob [0.5, 900.0]"]


def goes_on(path: str, rules: str | None) -> list[str]:
    """What a job finds in large payments of both cards, which goes on from a savepoint."""
    settings = {
        "headrace.runtime": "local",
        "execution.state-recovery.path": path,
        "execution.state-recovery.ignore-unclaimed-state": "true",  # the positions of other sources
    }
    configuration = Configuration.from_dict(settings)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda payment, _: 2_000)
    payments = env.from_collection([("ann", 600.0), ("bob", 900.0)], PAYMENT)
    keyed = payments.assign_timestamps_and_watermarks(strategy).key_by(0)
    if rules is None:
        found = CEP.pattern(keyed, FIXED).select(lambda match: match["large"][0][0], str)
    else:
        found = CEP.dynamic_patterns(keyed, env.from_collection([], Types.STRING())).process(Told(), str)
    return sorted(found.uid("patterns").execute_and_collect(limit=10))
