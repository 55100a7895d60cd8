"""The demo: nothing is lost, and what it finds is what was put in."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.log import Log
from tests.docs.documents import README
from tests.processes import Ended, Launcher

DEMO = Path(__file__).parents[2] / "examples" / "card_fraud" / "demo.py"
PAYMENTS, THEFTS, CAREFUL_THEFTS = 100_000, 4, 1
LOCAL = ("--runtime", "local", "-p", "2")
SPARK = ("--master", "local[2]", "-p", "2")

Run = Callable[..., Ended]


def values(run: Path, topic: str) -> list[dict[str, Any]]:
    return [
        json.loads(value) for value in Log.open(str(run / "log")).read(topic).read_all().column("value").to_pylist()
    ]


def shape(text: str) -> str:
    """Without its numbers, and the spaces in front of them."""
    return re.sub(r" *\d[\d,.]*", " #", text)


def shown_in_the_readme() -> list[str]:
    found = re.search(r"```\n\$ make demo\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    return found[1].splitlines()


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [pytest.param(LOCAL, id="local"), pytest.param(SPARK, id="spark", marks=[pytest.mark.spark, pytest.mark.slow])],
)
def test_every_payment_is_counted_once(options: tuple[str, ...], run_example: Run, tmp_path: Path) -> None:
    """And a new version, which finds careful thieves too, catches up from the beginning."""
    finished = run_example("card_fraud/demo.py", "--payments", PAYMENTS, "--rate", 0, options=options)
    run = tmp_path / "headrace-demo/run-1"
    totals, late, alerts = (values(run, topic) for topic in ("totals", "late", "alerts"))
    assert sum(total["payments"] for total in totals) + len(late) == PAYMENTS
    assert len(late) > 0
    assert len({(total["merchant"], total["window_start"]) for total in totals}) == len(totals)
    assert [alert["amount"] for alert in alerts] == [899.0] * THEFTS
    assert len({alert["card"] for alert in alerts}) == THEFTS

    lines = finished.output.splitlines()
    assert sum(line.startswith("  alert: card-") for line in lines) == THEFTS
    assert f"{THEFTS:>11,} alerts, {THEFTS} of them seen by the other process" in lines
    assert "  Nothing is missing, nothing is there twice." in lines
    assert {shape(line) for line in lines} == {shape(line) for line in shown_in_the_readme()} - {"..."}

    ended = run_example("card_fraud/replay.py", run / "log", options=options)
    said = f"{THEFTS + CAREFUL_THEFTS} alerts: {THEFTS} of the {THEFTS} of the old version, and {CAREFUL_THEFTS} others"
    assert ended.output.splitlines()[-1].strip() == said
    new = values(run, "alerts-v2")
    assert len(new) == THEFTS + CAREFUL_THEFTS
    assert all(alert in new for alert in alerts)
    assert sum(total["payments"] for total in values(run, "totals-v2")) > 80_000
    assert values(run, "alerts") == alerts

    with_rules = run_example("card_fraud/rules.py", run / "log", options=options).output.splitlines()
    assert Counter(line.split(": ")[1] for line in with_rules if line.startswith("  card-")) == {
        "899.00 (theft, version 1)": THEFTS,
        "450.00 (theft, version 2)": CAREFUL_THEFTS,
    }


def processes_at(folder: Path) -> list[str]:
    shown = subprocess.run(["ps", "-axww", "-o", "args"], capture_output=True, text=True, check=True)
    return [line for line in shown.stdout.splitlines() if str(folder) in line]


def test_ctrl_c_ends_all_processes_and_the_same_command_goes_on(
    programs: Launcher, run_example: Run, tmp_path: Path
) -> None:
    demo = ("--output", tmp_path / "runs", "--payments", 50_000)
    running = programs.start_command("run", *LOCAL, DEMO, *demo, "--rate", 1000)  # it is not done for most of a minute
    running.wait_until("  alert: card-00000")
    assert processes_at(tmp_path)
    running.interrupt()
    ended = running.wait()
    assert ended.code == 130, ended
    assert "Nothing is missing" not in ended.output
    assert "Traceback" not in ended.errors
    assert "stopped after epoch" in ended.errors
    assert processes_at(tmp_path) == []

    ended = run_example("card_fraud/demo.py", *demo, "--rate", 0, options=LOCAL)
    assert "goes on" in ended.errors or "restored epoch" in ended.errors
    assert "Nothing is missing, nothing is there twice." in ended.output
    assert [run.name for run in (tmp_path / "runs").iterdir()] == ["run-1"]


def test_what_is_missing_or_there_twice_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DEMO.parent))
    demo = runpy.run_path(str(DEMO))
    alerts = {("card-00000", 1_748_779_204_000): 1, ("card-07919", 1_748_779_244_000): 1}

    def mistakes(**found: Any) -> list[str]:
        right = {"payments": 30_000, "alerts": alerts, "totals": {("merchant-00", 0): 1}, "summed": 29_999, "late": 1}
        made = {name: Counter(each) if isinstance(each, dict) else each for name, each in (right | found).items()}
        return list(demo["Results"](**made).mistakes(30_000))

    assert mistakes() == []
    assert mistakes(alerts={}) == ["2 alerts are missing, 0 are wrong or there again"]
    assert mistakes(alerts=alerts | {("card-07919", 1_748_779_244_000): 2}) == [
        "0 alerts are missing, 1 are wrong or there again"
    ]
    assert mistakes(totals={("merchant-00", 0): 2}) == ["1 totals are there again"]
    assert mistakes(late=0) == ["29,999 payments were summed up and 0 were late, together not 30,000"]
    assert mistakes(payments=29_000) == ["29,000 payments were sent, not 30,000"]
