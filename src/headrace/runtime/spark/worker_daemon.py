"""PySpark's daemon, which forks the Python workers of a machine, with all imported that a task needs.

``python -m headrace.runtime.spark.worker_daemon pyspark.worker``, started by Spark as ``spark.python.daemon.module``.
PySpark's own daemon imports nothing, so every worker imports pyarrow, numpy, pandas and headrace anew, for a second of
CPU time each. Here it is done once, while Java is still busy with the session, and workers share the memory.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import site
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from headrace.common.logs import get_logger

if TYPE_CHECKING:
    from pyspark import SparkContext

P = ParamSpec("P")
R = TypeVar("R")

logger = get_logger(__name__)

_MODULE: Final = "spark.python.daemon.module"

_SETTINGS: Final = {
    _MODULE: "headrace.runtime.spark.worker_daemon",
    # Queries of Spark SQL set this variable, others do not, and there is one daemon for each set of variables
    "spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK": "1",
}

_EXCLUDING: Final = frozenset(
    {
        *_SETTINGS,
        "spark.python.use.daemon",
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled",
        # Another interpreter may not have headrace, and modules that Spark adds may have the names of imported ones
        "spark.pyspark.python",
        "spark.submit.pyFiles",
    }
)

_IMPORTED: Final = ("pyspark.worker", "headrace.runtime.spark.worker", "headrace.datastream")
"""The modules that tasks and the functions of users need; by name, since some are above this package."""


def daemon_settings(theirs: Mapping[str, str]) -> dict[str, str]:
    """The settings with which Spark starts this daemon, for a session whose tasks run in the driver.

    Args:
        theirs: the user's settings.

    Returns:
        Nothing where they set another one, or a new interpreter would not find headrace, or forking a process that has
        imported this much is not safe (macOS).
    """
    if sys.platform != "linux" or not _EXCLUDING.isdisjoint(theirs) or not is_found_by_new_interpreters():
        return {}
    return dict(_SETTINGS)


def start_early(context: SparkContext) -> threading.Thread | None:
    """Have Spark start the daemon now, beside what this thread does next.

    Returns:
        The thread that does it, to be waited for before the context is stopped: Spark would log errors else. None where
        Spark is not to use this daemon.
    """
    if context.getConf().get(_MODULE) != _SETTINGS[_MODULE]:
        return None
    thread = threading.Thread(target=_run_small_job, args=(context,), name="headrace-daemon-start")
    thread.start()
    return thread


def _run_small_job(context: SparkContext) -> None:
    try:
        context.range(1, numSlices=1).count()
    except Exception as error:
        logger.info("the daemon of Python workers was not started early: %s", error)


def is_found_by_new_interpreters() -> bool:
    """Return whether headrace comes from where every interpreter looks, not from a folder of the program."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return Path(__file__).resolve().parents[3] in {
        Path(entry).resolve() for entry in (*filter(None, given), *_site_entries())
    }


def _site_entries() -> Iterator[str]:
    """The folders of installed packages, and those that are linked there."""
    folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    for folder in folders:
        yield folder
        for link in Path(folder).glob("*.pth"):
            yield from filter(None, link.read_text(errors="replace").splitlines())


def without_archives(path: Sequence[str], spark_home: Path) -> list[str]:
    """Return where modules are looked for, without the archives of Spark if it is installed there unpacked as well.

    Spark puts the archives ahead of everything. What is imported from them is compiled anew by each process, for half a
    second, and each worker reads their tables of contents twice before its first task (``invalidate_caches``).

    Args:
        path: as Spark has made it.
        spark_home: where Spark is.
    """
    python, jars = spark_home / "python" / "lib", spark_home / "jars"
    rest = [
        entry
        for entry in path
        if Path(entry).suffix not in {".zip", ".jar"} or Path(entry).parent not in (python, jars)
    ]
    pyspark, py4j = (PathFinder.find_spec(name, rest) for name in ("pyspark", "py4j"))
    if py4j is None or pyspark is None or pyspark.origin is None or not spark_home.is_dir():
        return list(path)
    return rest if Path(pyspark.origin).parent.samefile(spark_home) else list(path)


def _look_only_in(path: Sequence[str]) -> None:
    """Forget entries of the path, with the importer's caches of them."""
    left_out = tuple(entry for entry in sys.path if entry not in path)
    sys.path[:] = path
    for known in [known for known in sys.path_importer_cache if known.startswith(left_out)]:
        del sys.path_importer_cache[known]


def _imported_on_demand() -> Iterator[str]:
    """The names of modules that are imported when they are needed: those of operators, and of storages."""
    for name in ("headrace.operators", "headrace.storage"):
        package = importlib.import_module(name)
        yield from (module.name for module in pkgutil.walk_packages(package.__path__, f"{name}."))


def prepare_forks() -> None:
    """Import all that tasks need, so that what is forked has it, and differs only where it has to."""
    gc.disable()  # nothing of what is imported is garbage, and looking for some takes a quarter of the time
    for name in (*_IMPORTED, *_imported_on_demand()):
        importlib.import_module(name)
    import numpy
    import pyarrow

    pyarrow.array([0])  # has pyarrow import pandas
    os.register_at_fork(after_in_child=numpy.random.seed)  # else all workers would draw the same numbers
    # Python warns of the thread that jemalloc has for itself, and which it starts again in a child
    warnings.filterwarnings("ignore", r".*multi-threaded, use of fork\(\)", DeprecationWarning)
    gc.freeze()
    gc.enable()


def main() -> None:
    """Prepare, then do what PySpark's daemon does."""
    os.setpgid(0, 0)  # as PySpark's does, only earlier: Ctrl-C is for the driver
    if home := os.environ.get("SPARK_HOME"):
        _look_only_in(without_archives(sys.path, Path(home)))
    prepare_forks()
    from pyspark import daemon

    # Java closes the connections of idle workers before it ends the daemon, and each worker that has just noticed
    # would print a traceback at the end of the user's program
    daemon.worker = _without_broken_pipes(daemon.worker)
    _without_broken_pipes(daemon.manager)()


def _without_broken_pipes(run: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that its process ends quietly where Java has gone."""

    def run_quietly(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return run(*args, **kwargs)
        except BrokenPipeError:
            os._exit(1)

    return run_quietly


if __name__ == "__main__":
    main()
