"""Explains what PySpark raises when a query fails, in headrace's own words."""

import re
from typing import Final

from pyspark.errors import PySparkException

from headrace.common.call_site import CallSite, is_of_program
from headrace.common.errors import (
    CheckpointFailedError,
    HeadraceError,
    InfrastructureError,
    JobExecutionError,
    WorkerDiedError,
)

SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException, ConnectionError)
"""The exceptions that a query may raise: PySpark translates some failures and passes on others as they come from
py4j."""

_LOST: tuple[type[Exception], ...] = (ConnectionError,)

try:
    from py4j.protocol import Py4JError, Py4JNetworkError
except ImportError:
    pass
else:
    SPARK_ERRORS += (Py4JError,)
    _LOST += (Py4JNetworkError,)

_DEFECTS: Final = re.compile(
    r"^(TypeError|AttributeError|NameError|KeyError|IndexError|AssertionError|UnboundLocalError|NotImplementedError"
    r"|ModuleNotFoundError|ImportError|RecursionError|headrace\.common\.errors\.JobExecutionError"
    r"|pyspark\.errors\.\S+: \[PYTHON_VERSION_MISMATCH)\b",
    re.MULTILINE,
)
"""Errors that no other machine would do better on: a defect of headrace, an executor without it or with another Python,
a job that has been changed."""

_CHECKPOINT_FAILED: Final = re.compile(r"^headrace\.common\.errors\.CheckpointFailedError\b", re.MULTILINE)

_REMEDIES: Final = (
    (
        re.compile(r"^ModuleNotFoundError: No module named ", re.MULTILINE),
        (
            ": the executors' Python does not have the module, which the driver's has: install it there, bring it "
            "along with env.add_python_file(), or ship everything that they lack with `headrace package`. Of a session "
            "that the program makes with a local master, the tasks run another Python than the program: set "
            "os.environ['PYSPARK_PYTHON'] = sys.executable before the session is made"
        ),
    ),
    (
        re.compile(r"\[PYTHON_VERSION_MISMATCH\]"),
        (
            " Set spark.pyspark.python to a Python of the driver's minor version that all executors have, and make "
            "the archive of the job anew with `headrace package`; or run the driver with the executors' version"
        ),
    ),
)
"""The remedies for errors that have one."""

_CRASHED: Final = "Python worker exited unexpectedly"

_FATAL: Final = re.compile(
    re.escape(_CRASHED) + r"[^\n]*?: Fatal Python error: (?P<what>[^\n]+)\n(?P<frames>.*)", re.DOTALL
)
"""The trace that Python's ``faulthandler`` has left of a process, in Spark's words."""

_FRAME: Final = re.compile(r'^ +File "(.+)", line (\d+) in (.+)$', re.MULTILINE)

_TRACED: Final = re.compile(r'^ +File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
"""A line of a traceback."""

_IMPORTED: Final = (
    ", when a task imported the module: what it does when it is imported, it does in the tasks as well, where sys.argv "
    "and the environment are others"
)

_NO_WORKERS: Final = (
    "the process that starts Spark's Python workers died while it was being started, and Spark starts no other in this "
    "executor. Run the program again: with a checkpoint directory it goes on where it was"
)


def failure(what: str, error: Exception) -> HeadraceError:
    """The error to be raised in place of one of :data:`SPARK_ERRORS`.

    Args:
        what: what has failed: "epoch 3".
        error: what was raised.
    """
    if isinstance(error, _LOST):
        return JobExecutionError(
            f"{what} failed: the Java process of Spark's driver has ended. Run the program again: with a checkpoint "
            "directory it goes on where it was"
        )
    return _kind_of(error)(f"{what} failed in Spark: {first_line(error)}{_place(error)}{_remedy(error)}")


def not_started(error: Exception) -> JobExecutionError:
    """The error to be raised in place of one of :data:`SPARK_ERRORS` that hindered a session from being made."""
    why = "its Java process has ended" if isinstance(error, _LOST) else first_line(error)
    return JobExecutionError(f"Spark did not start: {why}; what Java said is above")


def _place(error: Exception) -> str:
    """Return where the program has failed in a task, outside of its functions, whose errors are reported otherwise."""
    if _has_crashed(error):
        return ""
    frames = (CallSite(file, int(line), function) for file, line, function in _TRACED.findall(str(error)))
    site = next((frame for frame in reversed([*frames]) if is_of_program(frame.file)), None)
    if site is None:
        return ""
    return f" at {site}{_IMPORTED if site.function == '<module>' else ''}"


def _remedy(error: Exception) -> str:
    text = str(error)
    return next((remedy for pattern, remedy in _REMEDIES if pattern.search(text)), "")


def _kind_of(error: Exception) -> type[HeadraceError]:
    if is_defect(error):
        return JobExecutionError
    if _has_crashed(error):
        return WorkerDiedError
    return CheckpointFailedError if _CHECKPOINT_FAILED.search(str(error)) else InfrastructureError


def is_defect(error: Exception) -> bool:
    """Return whether a task raised what running it again cannot mend."""
    text = str(error)
    return "Traceback (most recent call last)" in text and _DEFECTS.search(text) is not None


def _has_crashed(error: Exception) -> bool:
    return _CRASHED in str(error)


def _crash(text: str) -> str:
    """Return how a worker died, and at which line of the program, where that is known."""
    fatal = _FATAL.search(text)
    if fatal is None:
        return (
            "a Python worker has died: it was killed from outside (out of memory?), or a function or native code has "
            "ended it (os._exit)"
        )
    frames = (CallSite(file, int(line), function) for file, line, function in _FRAME.findall(fatal["frames"]))
    site = next((frame for frame in frames if is_of_program(frame.file)), None)
    return f"a Python worker has died: {fatal['what']}" + (f" at {site}" if site else "")


def first_line(error: Exception) -> str:
    """The part of Spark's message about what happened; the rest stays with the cause."""
    text = str(error)
    if _has_crashed(error):
        return _crash(text)
    if "NullPointerException" in text and "PythonWorkerFactory" in text:
        return _NO_WORKERS
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    said = (line for line in reversed(lines) if "Error" in line or "Exception" in line)
    why = next(said, lines[0] if lines else "")
    return why.removeprefix("Caused by: ").removeprefix(": ")
