"""A process of its own for work beside the epochs, where all tasks run on this machine.

Spark gives a task a slot until it has ended, and takes tasks in the order of their queries: where slots are few, an
epoch would wait for all work that came before it. So merging state and writing savepoints, which can wait, are done by
one more process, of lower priority: epochs keep their slots and nearly all of the cores, and the work gets what they
leave. It is started when there is work for the first time, and ends with the session's user, however that ends.

Work and items come by its standard input, outcomes go by its standard output, all as pickles.
"""

import contextlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import BinaryIO, Final

from headrace.common.errors import InfrastructureError
from headrace.runtime.spark.worker import ShippedJob

NICENESS: Final = 3
"""By so much its priority is lower: it gets half the processor time of a task that uses the same core."""


class BackgroundProcess:
    """The driver's end of the process.

    Args:
        files: the folder into which Spark unpacks what the job brings along.
    """

    def __init__(self, files: str) -> None:
        self._files = files
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()

    def run(self, job: ShippedJob, work: bytes, items: Sequence[bytes]) -> list[bytes]:
        """Do something with some items, one after the other; from any thread.

        Args:
            job: whose modules it may need.
            work: pickled, a function of an item.
            items: pickled.

        Returns:
            What :func:`headrace.runtime.task.background.attempt` gives for each, as bytes.

        Raises:
            InfrastructureError: when the process ends before; the next work gets another one.
        """
        with self._turn:
            process = self._process = self._process or self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                pickle.dump((job, self._files, work, items), process.stdin, protocol=5)
                process.stdin.flush()
                outcomes: list[bytes] = pickle.load(process.stdout)
            except (OSError, ValueError, EOFError, pickle.UnpicklingError) as error:  # the pipes may be closed
                self.end()
                raise InfrastructureError(f"the process for work beside the epochs has ended: {error}") from error
        return outcomes

    def end(self) -> None:
        """End it, whatever it does; from any thread."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):  # what was on its way to it
                pipe.close()

    def _started(self) -> subprocess.Popen[bytes]:
        try:
            # Ctrl-C is for the driver
            command = [sys.executable, "-m", "headrace.runtime.spark.background_process"]
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)
        except OSError as error:
            raise InfrastructureError(f"no process for work beside the epochs was started: {error}") from error


def main(questions: BinaryIO, answers: BinaryIO) -> None:
    """Work until no more requests can come."""
    import pyarrow as pa
    from pyspark import SparkFiles

    from headrace.runtime.task.background import attempt

    pa.set_cpu_count(1)
    while True:
        try:
            job, SparkFiles._root_directory, work, items = pickle.load(questions)
        except EOFError:
            return
        SparkFiles._is_running_on_worker = True
        job.enter().logs.apply()
        outcomes = [attempt(pickle.loads(work), pickle.loads(item)).to_bytes() for item in items]
        pickle.dump(outcomes, answers, protocol=5)
        answers.flush()


if __name__ == "__main__":
    os.nice(NICENESS)
    with os.fdopen(os.dup(1), "wb") as outcomes_go_to, contextlib.suppress(BrokenPipeError):
        os.dup2(2, 1)  # what is printed does not get among the outcomes
        main(sys.stdin.buffer, outcomes_go_to)
