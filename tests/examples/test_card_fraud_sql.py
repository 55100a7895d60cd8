"""The card fraud demo in SQL finds what the one in Python finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.cli.sql.client import SqlClient, tables_with
from headrace.log import Consumer, Log, Producer
from tests.docs.documents import ROOT

PAYMENTS = [
    ("ann", "shop", 0.5, 1_000),
    ("bob", "shop", 0.5, 2_000),
    ("ann", "jeweller", 900.0, 30_000),
    ("bob", "shop", 20.0, 31_000),
    ("bob", "jeweller", 900.0, 32_000),
    ("eve", "shop", 0.5, 33_000),
    ("eve", "jeweller", 900.0, 94_000),
]


def values(topic: str) -> list[dict[str, object]]:
    consumer = Consumer("card-fraud.log", auto_offset_reset="earliest")
    consumer.subscribe([topic])
    return [json.loads(record.value) for record in consumer.poll(1)]


def test_alerts_and_totals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = Log.open("card-fraud.log", create=True)
    log.create_topic("payments")
    with Producer(log) as producer:
        for card, merchant, amount, time in PAYMENTS:
            text = json.dumps({"card": card, "merchant": merchant, "amount": amount, "time": time})
            producer.send("payments", text.encode())
    program = (ROOT / "examples" / "card_fraud" / "fraud.sql").read_text()
    program = program.replace("'group.id' = 'fraud-sql'", "'scan.bounded.mode' = 'latest-offset'")
    client = SqlClient(tables_with({"headrace.runtime": "local", "parallelism.default": "1"}), lambda _: None)
    client.run(program)
    client.wait()
    assert [(each["card"], each["time"], each["rule"]) for each in values("alerts-sql")] == [
        ("ann", 30_000, "small, then large")
    ]
    found = [(each["merchant"], str(each["window_start"])[:19], each["payments"]) for each in values("totals-sql")]
    assert sorted(found) == [
        ("jeweller", "1970-01-01 00:00:00", 2),
        ("jeweller", "1970-01-01 00:01:00", 1),
        ("shop", "1970-01-01 00:00:00", 4),
    ]
