"""What a failed query means for the job."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from headrace.common.errors import HeadraceError, InfrastructureError, JobExecutionError
from headrace.runtime.spark.faults import SPARK_ERRORS, failure

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
LOST = ABORTED.format(why="ExecutorLostFailure (executor 1 exited)")
DEFECT = "[PYTHON_EXCEPTION] Traceback (most recent call last):\n  File \"x.py\", line 1\nKeyError: 'owned'\n"

NO_MODULE = "[PYTHON_EXCEPTION] Traceback (most recent call last):\nModuleNotFoundError: No module named 'helpers'\n"


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (PySparkException(CRASHED), InfrastructureError, "epoch 3 failed in Spark: a Python worker has died"),
        (Py4JError(CRASHED), InfrastructureError, "epoch 3 failed in Spark: a Python worker has died"),
        (Py4JError(LOST), InfrastructureError, "ExecutorLostFailure (executor 1 exited)"),
        (PySparkException(DEFECT), JobExecutionError, "KeyError: 'owned'"),
        (
            PySparkException(NO_MODULE),
            JobExecutionError,
            "No module named 'helpers': the executors' Python does not have",
        ),
        (PySparkException(NO_MODULE), JobExecutionError, "set os.environ['PYSPARK_PYTHON'] = sys.executable before"),
        (PySparkException(NO_WORKERS), InfrastructureError, "Spark starts no other in this executor. Run the program"),
        (Py4JNetworkError("no answer"), JobExecutionError, "the Java process of Spark's driver has ended"),
        (ConnectionRefusedError(), JobExecutionError, "the Java process of Spark's driver has ended"),
    ],
    ids=[
        "worker",
        "worker-untranslated",
        "executor",
        "defect",
        "module",
        "other-python",
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
