"""A dispatcher whose programs, jobs, logs and archives are on a remote store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.common import Configuration
from headrace.server.history import ArchivedJobs
from tests.server.clusters import Cluster
from tests.storage.stores import Store, on
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
@on()
def test_a_job_runs_and_is_known_to_the_next_dispatcher(store: Store, tmp_path: Path) -> None:
    place = f"{store.new_place()}/cluster"
    reached = {f"headrace.storage.{name.replace('_', '-')}": value for name, value in store.options().items()}
    settings = reached | {"high-availability.storageDir": place}
    first = Cluster(tmp_path / "local", **settings)
    wait_for(lambda: first.service.dispatcher.leads)
    job = first.run(programArgs="100")
    assert first.wait_for(job, "FINISHED", "FAILED") == "FINISHED"
    assert "starts afresh" in first.rest.log("jobs", job, "logs", "log")[0]
    first.service.stop()
    second = Cluster(tmp_path / "local", **settings)
    wait_for(lambda: second.service.dispatcher.leads)
    assert second.rest.get("jobs", job)["state"] == "FINISHED"
    assert len(second.rest.get("jars")["files"]) == 1
    second.service.stop()
    history = ArchivedJobs(Configuration.from_dict(reached | {"jobmanager.archive.fs.dir": f"{place}/archives"}))
    history.look()
    assert [each.snapshot().records for each in history.all()] == [100]
