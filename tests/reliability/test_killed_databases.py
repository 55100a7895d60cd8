"""Tables of one PostgreSQL end as the same query in another, whatever is killed: either server, or the job."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.connectors.postgres.server import running
from tests.forks import Forks
from tests.reliability.support.captured import fill, wait_until_equal, write


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("runtime", ["local", "spark"])
def test_both_servers_and_the_job_are_killed(forks: Forks, tmp_path: Path, runtime: str) -> None:
    chance = random.Random(5)
    with running() as capturing, running() as writing:
        source, sink = capturing.database(), writing.database()
        fill(source, sink)
        arguments = (source.folder, source.name, sink.folder, sink.name, tmp_path / "checkpoints", runtime)
        job = forks.start("captured", *arguments)
        job.wait_until("it runs")
        for round_ in range(12):
            for _ in range(chance.randrange(1, 12)):
                write(source, chance)
            if round_ % 3 == 2:  # what was written so far is there, so that not all of it happens in one life
                wait_until_equal(source, sink, 300)
            victim = chance.choice(["source", "sink", "job", "all"])
            if victim in ("source", "all"):
                capturing.kill()
            if victim in ("sink", "all"):
                writing.kill()
            if victim in ("job", "all"):
                assert job.kill().code == -signal.SIGKILL
            for server, name in ((capturing, "source"), (writing, "sink")):
                if victim in (name, "all"):
                    server.start()
            if victim in ("job", "all"):
                job = forks.start("captured", *arguments)
                job.wait_until("it runs")
        wait_until_equal(source, sink, 300)
        assert job.code is None, job.wait()
        job.kill()
        names = {row[0] for row in sink.rows("SELECT DISTINCT job FROM headrace_commits")}
        assert len(names) == 1
