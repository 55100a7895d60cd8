"""Ctrl-C in a program without the command line around it, while requests are in flight that nobody answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import headrace
from tests.waiting import PATIENCE

PROGRAM = """
import asyncio
import signal
import sys
import threading
from pathlib import Path

from headrace.common import Configuration, Types
from headrace.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment


class Asking(AsyncFunction):
    async def async_invoke(self, value):
        try:
            Path(f"asked-{value}").touch()
            await asyncio.Event().wait()
        finally:
            Path(f"ended-{value}").touch()
        return [value]

    def close(self):
        Path("closed").touch()


def start(thread, start=threading.Thread.start):
    if not threading.main_thread().is_alive():
        raise RuntimeError("can't create new thread at interpreter shutdown")  # from Python 3.12 on
    start(thread)


threading.Thread.start = start
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored where the tests run in the background
settings = {"headrace.runtime": sys.argv[1], "spark.master": "local[1]", "parallelism.default": "1"}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
AsyncDataStream.unordered_wait(env.from_sequence(1, 10), Asking(), 0, 3, Types.LONG()).print()
if sys.argv[2] == "waits":
    env.execute("asking")
else:
    client = env.execute_async("asking")
    client.get_job_execution_result().result()
"""


def interrupted(folder: Path, runtime: str, how: str) -> subprocess.CompletedProcess[str]:
    """The program after a Ctrl-C with all its requests in flight."""
    (folder / "program.py").write_text(PROGRAM)
    environment = os.environ | {"PYTHONPATH": str(Path(headrace.__file__).parent.parent)}
    process = subprocess.Popen(
        [sys.executable, "program.py", runtime, how], stderr=subprocess.PIPE, text=True, cwd=folder, env=environment
    )
    deadline = time.monotonic() + PATIENCE
    while len(list(folder.glob("asked-*"))) < 3:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    return subprocess.CompletedProcess(process.args, process.returncode, None, errors)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["waits", "looks"])
def test_requests_are_ended_and_the_function_is_closed(tmp_path: Path, how: str) -> None:
    ended = interrupted(tmp_path, "local", how)
    assert ended.returncode == -signal.SIGINT
    assert ended.stderr.splitlines()[-1] == "KeyboardInterrupt"
    assert sorted(path.name for path in tmp_path.glob("ended-*")) == ["ended-1", "ended-2", "ended-3"]
    assert (tmp_path / "closed").exists()


@pytest.mark.spark
@pytest.mark.slow
def test_python_does_not_abort_while_spark_is_busy(tmp_path: Path) -> None:
    """A thread of the job that is in the middle of a call when the process ends would have it do so."""
    ended = interrupted(tmp_path, "spark", "waits")
    assert "Fatal Python error" not in ended.stderr
    assert "KeyboardInterrupt" in ended.stderr
    assert ended.returncode == -signal.SIGINT
