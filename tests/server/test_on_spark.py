"""A job on Spark is served as one on the local runtime."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.server.serving import Served


@pytest.mark.spark
def test_a_job_on_spark_tells_where_it_is_and_stops_with_a_savepoint(
    spark: SparkSession, served: Served, tmp_path: Path
) -> None:
    client, job = served.start(**{"headrace.runtime": "spark"})
    names = [vertex["name"] for vertex in served.rest.get("jobs", job)["vertices"]]
    assert names[0] == "numbers"
    known = client.snapshot()
    assert known.runtime is not None
    assert known.runtime.what.startswith("Spark, master local")
    (epoch, *_) = known.epochs
    assert epoch.parts is not None
    assert min(epoch.parts) >= 0
    assert sum(epoch.parts) == pytest.approx(epoch.running, rel=0.01)
    checkpoint = served.rest.ask("POST", ("jobs", job, "checkpoints"), body={})["request-id"]
    assert served.rest.outcome("jobs", job, "checkpoints", checkpoint, timeout=PATIENCE)["checkpointId"] > 0
    wanted = {"targetDirectory": str(tmp_path), "drain": False}
    stop = served.rest.ask("POST", ("jobs", job, "stop"), body=wanted)["request-id"]
    assert Path(served.rest.outcome("jobs", job, "savepoints", stop, timeout=PATIENCE)["location"]).is_dir()
    client.get_job_execution_result().result(timeout=PATIENCE)
    assert served.rest.get("jobs", job, "status") == {"status": "FINISHED"}
