"""Patterns of events by Flink CEP, in a Java process that reads the events into memory before it is timed.

Options: ``pattern``, its name in ``FlinkPatterns.java``; ``java_home``, of a Java with a compiler; ``jars``, the class
path.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from benchmarks.data import EVENTS_FILE
from benchmarks.flink import JAVA_OPTIONS, compile_java
from benchmarks.outcome import Assignment, Epoch, Outcome
from benchmarks.sql import RUNS

_SOURCE = Path(__file__).with_name("FlinkPatterns.java")


def run(assignment: Assignment) -> Outcome:
    """Compile the Java program and run it."""
    options, classes, told = assignment.options, assignment.work / "classes", assignment.work / "runs.txt"
    records = assignment.records_per_epoch
    assert records is not None
    java, path = f"{options['java_home']}/bin/java", os.pathsep.join([str(classes), *options["jars"]])
    compile_java(_SOURCE, classes, options)
    own = [f"-Djava.io.tmpdir={assignment.work / 'tmp'}", "-XX:+UseSerialGC", "-cp", path]
    arguments = [options["pattern"], str(assignment.input / EVENTS_FILE), str(records), str(RUNS), str(told)]
    subprocess.run([java, *JAVA_OPTIONS, *own, "FlinkPatterns", *arguments], check=True)
    runs = [[float(each) for each in line.split()] for line in told.read_text().splitlines()]
    *_, (_, _, rows, total) = runs
    epochs = tuple(Epoch(records, seconds) for seconds, *_ in runs)
    return Outcome(epochs, {"rows": rows, "sum": total}, {"processor": [processor for _, processor, *_ in runs]})
