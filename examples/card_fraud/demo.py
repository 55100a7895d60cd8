"""The demo: payments go into a log, a job finds those of thieves, and another process watches alerts come out.

    headrace run examples/card_fraud/demo.py

Three processes share nothing but the folder of the log: ``payments.py`` appends payments, this one runs the job of
``job.py``, and ``headrace log tail -f`` shows alerts as they come. There is no broker. When all payments are read the
job ends, and what it has written is compared with what has to be there. Stop it with Ctrl-C and start it again: it goes
on where it was, and each result is there exactly once all the same.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count as count_up
from pathlib import Path
from typing import TYPE_CHECKING

from job import build, checkpointed_in
from payments import count_of, lag, open_log, read, thefts

from headrace.common import JobClient, JobExecutionResult, JobStatus
from headrace.datastream import StreamExecutionEnvironment

if TYPE_CHECKING:
    from headrace.log import Log

# --- the other processes ---------------------------------------------------------------------------------------------


class Watcher:
    """``headrace log tail -f`` in a process of its own, and what it has shown.

    Attributes:
        shown: how many alerts it has shown.
    """

    def __init__(self, log: Path) -> None:
        self.shown = 0
        command = [sys.executable, "-m", "headrace", "log", "tail", str(log), "alerts", "--from-beginning", "--follow"]
        # In a session of its own, Ctrl-C does not reach it
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self._thread = threading.Thread(target=self._show)
        self._thread.start()

    def _show(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            alert = json.loads(line)
            print(f"  alert: {alert['card']} pays {alert['amount']:.2f} at {alert['merchant']}: {alert['rule']}")
            self.shown += 1

    def close(self, expected: int) -> None:
        """End it, at the latest in five seconds: as soon as it has shown so many alerts."""
        until = time.monotonic() + 5
        while self.shown < expected and self._process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        self._process.terminate()
        self._thread.join()
        self._process.wait()


@contextlib.contextmanager
def producing(log: Path, count: int, rate: int) -> Iterator[subprocess.Popen[bytes]]:
    """``payments.py`` in a process of its own, which ends with the block."""
    program = Path(__file__).with_name("payments.py")
    command = [sys.executable, str(program), str(log), f"--payments={count}", f"--rate={rate}"]
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.terminate()


# --- the results -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Results:
    """What is in the topics.

    Attributes:
        payments: how many payments there are.
        alerts: how often there is an alert of a card at a time.
        totals: how often there is a total of a merchant from a time on.
        summed: of how many payments they are.
        late: how many payments came too late for their total.
    """

    payments: int
    alerts: Counter[tuple[str, int]]
    totals: Counter[tuple[str, int]]
    summed: int
    late: int

    @staticmethod
    def of(log: Log) -> Results:
        """Read what is in the log."""
        alerts, totals, late = (read(log, topic) for topic in ("alerts", "totals", "late"))
        return Results(
            count_of(log),
            Counter((alert["card"], alert["time"]) for alert in alerts),
            Counter((total["merchant"], total["window_start"]) for total in totals),
            sum(total["payments"] for total in totals),
            len(late),
        )

    def mistakes(self, expected: int) -> Iterator[str]:
        """What is not as it has to be with so many payments."""
        planted = Counter(thefts(expected))
        if self.payments != expected:
            yield f"{self.payments:,} payments were sent, not {expected:,}"
        if self.alerts != planted:
            missing, wrong = planted - self.alerts, self.alerts - planted
            yield f"{missing.total():,} alerts are missing, {wrong.total():,} are wrong or there again"
        if self.totals.total() != len(self.totals):
            yield f"{self.totals.total() - len(self.totals):,} totals are there again"
        if self.summed + self.late != expected:
            yield f"{self.summed:,} payments were summed up and {self.late:,} were late, together not {expected:,}"


def summary(found: Results, mistakes: list[str], result: JobExecutionResult, seen: int, log: Path) -> str:
    """What the job did, and whether it is right."""
    seconds = result.get_net_runtime() / 1000
    verdict = "\n  ".join(f"WRONG: {each}" for each in mistakes) or "Nothing is missing, nothing is there twice."
    return f"""
  {found.payments:>9,} payments in {seconds:.1f} s, {result.get_accumulator_result("numEpochs")} checkpoints
  {found.alerts.total():>9,} alerts, {seen:,} of them seen by the other process
  {found.totals.total():>9,} totals of {found.summed:,} payments
  {found.late:>9,} payments that came too late for a total

  {verdict}
  headrace log describe {log}
"""


# --- the program -----------------------------------------------------------------------------------------------------


def main() -> None:
    """Run everything, and say whether the results are right."""
    arguments = parse_arguments()
    run = folder_of_this_run(arguments.output)
    location = run.absolute() / "log"
    log = open_log(str(location))
    env = StreamExecutionEnvironment.get_execution_environment(checkpointed_in(run.absolute() / "checkpoints"))
    build(env, str(location))

    watcher = Watcher(location)
    try:
        with producing(location, arguments.payments, arguments.rate) as producer:
            client = env.execute_async("card fraud")
            wait_for(client, producer, log)
            result = client.get_job_execution_result().result()
    finally:
        watcher.close(count_of(log, "alerts"))

    if client.get_job_status().result() is JobStatus.FINISHED:
        (run / "done").touch()
        found = Results.of(log)
        mistakes = list(found.mistakes(arguments.payments))
        print(summary(found, mistakes, result, watcher.shown, run / "log"))
        if mistakes:
            sys.exit(1)


def wait_for(client: JobClient, producer: subprocess.Popen[bytes], log: Log) -> None:
    """End the job when the producer has ended and all is read; whoever presses Ctrl-C ends it sooner.

    Raises:
        RuntimeError: when the producer has failed.
    """
    while not client.get_job_execution_result().done():
        if producer.poll():
            client.stop()
            raise RuntimeError(f"payments.py failed with exit code {producer.returncode}")
        if producer.poll() == 0 and not lag(log, "fraud"):
            client.stop(drain=True)  # no payment will follow: all windows and timers fire
            return
        time.sleep(0.1)


def folder_of_this_run(output: Path) -> Path:
    """The first of run-1, run-2, ... that has not come to its end: a new one, or one that was stopped and goes on."""
    return next(run for number in count_up(1) if not ((run := output / f"run-{number}") / "done").exists())


def parse_arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--payments", type=int, default=2_000_000, help="how many payments there are")
    parser.add_argument("--rate", type=int, default=100_000, help="how many in a second; 0 for as many as possible")
    parser.add_argument("--output", type=Path, default=Path("headrace-demo"), help="the folder for log and checkpoints")
    return parser.parse_args()


if __name__ == "__main__":
    main()
