"""Writers with state of their own give the same on both runtimes, and on Spark in whatever process they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.common import Types
from headrace.common.configuration import Configuration
from headrace.datastream import StreamExecutionEnvironment
from tests.reliability.test_writer_state import PACK, Packs


@pytest.mark.parametrize("runtime", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_what_is_short_of_a_pack_waits(runtime: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if runtime == "spark":
        request.getfixturevalue("spark")
    settings = {
        "headrace.runtime": runtime,
        "parallelism.default": "2",
        "headrace.epoch.max-records": "30",
        "headrace.epoch.target-duration": "60s",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.from_sequence(1, 200).map(lambda number: number, Types.LONG()).sink_to(Packs(tmp_path)).uid("packs")
    env.execute()
    packs = {path.name: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert sorted(number for pack in packs.values() for number in pack) == [*range(1, 201)]
    assert len({name.split("-")[0] for name in packs}) > 3, "several epochs"
    assert sum(len(pack) < PACK for pack in packs.values()) <= 2
