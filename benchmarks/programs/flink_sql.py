"""Flink SQL on a mini cluster in a Java process of its own, with two slots and a checkpoint every ten seconds.

Options: ``sql``, the work; ``lateness_millis``; ``records``, how many the input has; ``java_home``; ``jars``, the class
path; ``state_backend``, if not ``hashmap``; ``connector``, a factory of tables in Java beside this file; with ``plans``
the query is only planned, so many times.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from benchmarks.flink import JAVA_OPTIONS, compile_java
from benchmarks.memory import processor_seconds
from benchmarks.outcome import Assignment, Epoch, Outcome
from benchmarks.sql import MINI_BATCH, RUNS, SqlWork

_SETTINGS = {
    "parallelism.default": "2",
    "taskmanager.numberOfTaskSlots": "2",
    "restart-strategy.type": "none",
    "table.local-time-zone": "UTC",
    "execution.checkpointing.interval": "10 s",
    "taskmanager.memory.managed.size": "512 mb",
    "taskmanager.memory.network.fraction": "0.1",
}


def run(assignment: Assignment) -> Outcome:
    """Run the query."""
    work = SqlWork.of(assignment)
    with _java(assignment) as gateway:
        tables = _environment(gateway.jvm, assignment)
        for statement in work.statements(assignment):
            tables.executeSql(statement)
        if "plans" in assignment.options:
            return Outcome(tuple(_planned(gateway, tables, work, assignment.options["plans"])), {"rows": 1})
        totals = _totals(tables, work)
        runs = [_timed(tables, work) for _ in range(RUNS)]
    epoch = assignment.records_per_epoch
    assert epoch is not None
    share = epoch / assignment.options["records"]
    epochs = tuple(Epoch(epoch, seconds * share) for seconds, _ in runs)
    return Outcome(epochs, totals, {"processor": [each for _, each in runs]})


def _planned(gateway: JavaGateway, tables: Any, work: SqlWork, plans: int) -> Iterator[Epoch]:
    api = gateway.jvm.org.apache.flink.table.api
    nothing_more = gateway.new_array(api.ExplainDetail, 0)
    for _ in range(plans):
        started = time.perf_counter()
        tables.explainSql(work.insert, api.ExplainFormat.TEXT, nothing_more)
        yield Epoch(1, time.perf_counter() - started)


def _timed(tables: Any, work: SqlWork) -> tuple[float, float]:
    """The run time of the job, without planning and cluster startup, and the CPU time that it took."""
    before = processor_seconds()
    job = tables.executeSql(work.insert).getJobClient().get().getJobExecutionResult().get()
    return float(job.getNetRuntime()) / 1000, processor_seconds() - before


def _causes(throwable: Any) -> str:
    """The messages of an exception and its causes, without stack traces."""
    texts = []
    while throwable is not None:
        texts.append(str(throwable.toString()))
        throwable = throwable.getCause()
    return "\n because ".join(texts)


def _totals(tables: Any, work: SqlWork) -> dict[str, float]:
    config = tables.getConfig()
    for key, value in MINI_BATCH.items():
        config.set(key, value)
    rows = tables.executeSql(work.totals_query).collect()
    last = None
    while rows.hasNext():  # a result that is updated again and again
        last = rows.next()
    assert last is not None
    rows.close()
    config.set("table.exec.mini-batch.enabled", "false")
    return work.named([str(last.getField(number)) for number in range(len(work.totals))])


def _environment(jvm: Any, assignment: Assignment) -> Any:
    configuration = jvm.org.apache.flink.configuration.Configuration()
    own = {
        "execution.checkpointing.dir": (assignment.work / "checkpoints").as_uri(),
        "io.tmp.dirs": str(assignment.work / "tmp"),
        "state.backend.type": assignment.options.get("state_backend", "hashmap"),
    }
    for key, value in (_SETTINGS | own).items():
        configuration.setString(key, value)
    api = jvm.org.apache.flink.table.api
    built = api.EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration).build()
    return api.TableEnvironment.create(built)


def _connector(assignment: Assignment, name: str) -> Path:
    """The folder with the classes of a factory of tables, and with the file by which Flink finds it."""
    classes = assignment.work / "classes"
    services = classes / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "org.apache.flink.table.factories.Factory").write_text(name)
    compile_java(Path(__file__).with_name(f"{name}.java"), classes, assignment.options)
    return classes


@contextmanager
def _java(assignment: Assignment) -> Iterator[Any]:
    home, jars = assignment.options["java_home"], list(assignment.options["jars"])
    if "connector" in assignment.options:
        jars.append(str(_connector(assignment, assignment.options["connector"])))
    port, process = launch_gateway(
        classpath=os.pathsep.join(jars),
        die_on_exit=True,
        java_path=f"{home}/bin/java",
        javaopts=[*JAVA_OPTIONS, f"-Djava.io.tmpdir={assignment.work / 'tmp'}"],
        return_proc=True,
        cwd=str(assignment.work),
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    try:
        yield gateway
    except Py4JJavaError as error:  # its text has to be asked for while Java is there
        raise RuntimeError(_causes(error.java_exception)) from None
    finally:
        gateway.shutdown()
        process.kill()
        process.wait()
