"""What a failed query means for the job."""

from __future__ import annotations

import ctypes
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException

from headrace.common.errors import (
    CheckpointFailedError,
    HeadraceError,
    InfrastructureError,
    JobExecutionError,
    WorkerDiedError,
)
from headrace.runtime.spark import session
from headrace.runtime.spark.faults import SPARK_ERRORS, failure
from headrace.runtime.spark.session_start import SessionStart

ABORTED = """An error occurred while calling o1.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: {why}
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:1)
"""
CRASHED = (
    ABORTED.format(why="Python worker exited unexpectedly (crashed)") + "Caused by: java.io.EOFException\n\t... 24 more"
)
NO_WORKERS = (
    ABORTED.format(why="Task 0 in stage 5.0 failed 1 times")
    + "Caused by: java.lang.NullPointerException\n"
    + "\tat org.apache.spark.api.python.PythonWorkerFactory.createWorker$1(PythonWorkerFactory.scala:192)\n"
)
SEGFAULT = ABORTED.format(
    why="Lost task 0.0: Python worker exited unexpectedly (crashed): Fatal Python error: Segmentation fault"
    "\n\nCurrent thread 0x00007f (most recent call first):\n"
    f'  File "{ctypes.__file__}", line 519 in string_at\n'
    '  File "/jobs/prices.py", line 7 in parse\n'
    f'  File "{session.__file__}", line 54 in process\n'
)
LOST = ABORTED.format(why="ExecutorLostFailure (executor 1 exited)")
DEFECT = "[PYTHON_EXCEPTION] Traceback (most recent call last):\n  File \"x.py\", line 1\nKeyError: 'owned'\n"

NOT_WRITTEN = (
    '[PYTHON_EXCEPTION] Traceback (most recent call last):\n  File "x.py", line 1\n'
    "OSError: [Errno 28] No space left\n\nThe above exception was the direct cause of the following exception:\n"
    "headrace.common.errors.CheckpointFailedError: the state of epoch 3 cannot be written: [Errno 28] No space left\n"
)
IMPORTED = (
    "[PYTHON_EXCEPTION] Traceback (most recent call last):\n"
    f'  File "{session.__file__}", line 54, in process\n    plan = pickle.loads(data)\n'
    '  File "/jobs/limits.py", line 2, in <module>\n    LIMIT = int(sys.argv[1])\n            ^^^^\n'
    "ValueError: invalid literal for int() with base 10: 'pyspark.worker'\n"
)
NO_MODULE = "[PYTHON_EXCEPTION] Traceback (most recent call last):\nModuleNotFoundError: No module named 'helpers'\n"


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (PySparkException(CRASHED), WorkerDiedError, "epoch 3 failed in Spark: a Python worker has died: it was kill"),
        (Py4JError(CRASHED), WorkerDiedError, "epoch 3 failed in Spark: a Python worker has died"),
        (Py4JError(SEGFAULT), WorkerDiedError, "has died: Segmentation fault at /jobs/prices.py:7 in parse"),
        (Py4JError(LOST), InfrastructureError, "ExecutorLostFailure (executor 1 exited)"),
        (PySparkException(DEFECT), JobExecutionError, "KeyError: 'owned'"),
        (PySparkException(NOT_WRITTEN), CheckpointFailedError, "the state of epoch 3 cannot be written"),
        (
            PySparkException(NO_MODULE),
            JobExecutionError,
            "No module named 'helpers': the executors' Python does not have",
        ),
        (PySparkException(NO_MODULE), JobExecutionError, "set os.environ['PYSPARK_PYTHON'] = sys.executable before"),
        (
            PySparkException(IMPORTED),
            InfrastructureError,
            "'pyspark.worker' at /jobs/limits.py:2 in <module>, when",
        ),
        (PySparkException(NO_WORKERS), InfrastructureError, "Spark starts no other in this executor. Run the program"),
        (Py4JNetworkError("no answer"), JobExecutionError, "the Java process of Spark's driver has ended"),
        (ConnectionRefusedError(), JobExecutionError, "the Java process of Spark's driver has ended"),
    ],
    ids=[
        "worker",
        "worker-untranslated",
        "segmentation-fault",
        "executor",
        "defect",
        "not-written",
        "module",
        "other-python",
        "import",
        "no-workers",
        "java-gone",
        "java-refuses",
    ],
)
def test_what_spark_raises_is_told_in_a_sentence(error: Exception, kind: type[HeadraceError], said: str) -> None:
    assert isinstance(error, SPARK_ERRORS)
    told = failure("epoch 3", error)
    assert type(told) is kind
    assert said in str(told)
    assert "\n" not in str(told)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            Py4JError(
                "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
                ": org.apache.spark.SparkIllegalArgumentException: [INVALID_DRIVER_MEMORY] Too little: 101384192.\n"
                "Please increase it.\n\tat org.apache.spark.memory.UnifiedMemoryManager$.getMaxMemory(U.scala:478)\n"
            ),
            "org.apache.spark.SparkIllegalArgumentException: [INVALID_DRIVER_MEMORY] Too little: 101384192.",
        ),
        (ConnectionRefusedError(111, "Connection refused"), "its Java process has ended"),
        (Py4JNetworkError("no answer"), "its Java process has ended"),
    ],
)
def test_a_session_that_does_not_start(error: Exception, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise error

    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")  # Java is there
    monkeypatch.setattr(SparkContext, "getOrCreate", refuse)
    monkeypatch.setattr(session, "SparkConf", lambda: SparkConf(loadDefaults=False, _jconf=Mock()))
    with pytest.raises(JobExecutionError) as failed:
        session._start(SessionStart({}, {}), None, {})
    assert str(failed.value) == f"Spark did not start: {said}; what Java said is above"
    assert failed.value.__cause__ is error
