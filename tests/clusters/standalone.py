"""A standalone cluster of Spark's own master and workers, in processes of this machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pyspark

from headrace.common.java import bundled_java_home, find_java
from headrace.runtime.spark.settings import FRUGAL_JAVA
from tests.waiting import PATIENCE

SPARK_HOME = Path(pyspark.__file__).parent

_LOOK_SECONDS = 0.05
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_REGISTERED = r"Successfully registered with (master)"
_KILLED = re.compile(r"Executor app-\S+ finished with state EXITED .*exitStatus 137")


class StandaloneCluster:
    """A master and workers, which know nothing of this process's Python packages.

    Args:
        folder: where they work.
        workers: how many there are.

    Attributes:
        master: the URL.
    """

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder = folder
        self._daemons: list[subprocess.Popen[bytes]] = []
        try:
            log = self._start("master", _MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            self.master = self._wait_for(log, r"Starting Spark master at (spark://\S+)")
            self._workers = 0
            logs = [self._start_worker() for _ in range(workers)]
            for worker in logs:
                self._wait_for(worker, _REGISTERED)
        except BaseException:
            self.end()
            raise

    @property
    def killed_executors(self) -> int:
        """How many have died of SIGKILL so far, as the workers have noticed."""
        return sum(
            len(re.findall(_KILLED, log.read_text(errors="replace"))) for log in self._folder.glob("worker-*.log")
        )

    def add_worker(self) -> None:
        """One more, as soon as the master knows it."""
        self._wait_for(self._start_worker(), _REGISTERED)

    def kill_worker(self) -> None:
        """Ends the newest worker with its executors."""
        daemon = self._daemons.pop()
        os.killpg(daemon.pid, signal.SIGKILL)
        daemon.wait()

    def _start_worker(self) -> Path:
        name, self._workers = f"worker-{self._workers}", self._workers + 1
        size = ["--cores", "2", "--memory", "1g", "--work-dir", str(self._folder / name)]
        return self._start(name, _WORKER, "--host", "127.0.0.1", "--webui-port", "0", *size, self.master)

    def _start(self, name: str, program: str, *arguments: str) -> Path:
        log = self._folder / f"{name}.log"
        java = find_java(os.environ, bundled_java_home())
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK"))}
        environment |= {"JAVA_HOME": str(java.home), "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1"}
        environment["SPARK_DAEMON_JAVA_OPTS"] = FRUGAL_JAVA
        with log.open("wb") as output:
            command = [str(SPARK_HOME / "bin" / "spark-class"), program, *arguments]
            daemon = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=self._folder,
                start_new_session=True,
            )
        self._daemons.append(daemon)
        return log

    def _wait_for(self, log: Path, text: str) -> str:
        """What the log says, as soon as it says it."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if found := re.search(text, log.read_text(errors="replace")):
                return found[1]
            time.sleep(_LOOK_SECONDS)
        raise AssertionError(f"{log.name} never says {text!r}:\n{log.read_text(errors='replace')[-3000:]}")

    def end(self) -> None:
        """End all of it, with the executors that the workers have started."""
        for daemon in reversed(self._daemons):
            os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait()
