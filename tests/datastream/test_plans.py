"""``get_execution_plan`` and ``explain``: the next job, looked at before it runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from headrace.common.errors import InvalidProgramError
from headrace.datastream import RuntimeExecutionMode

if TYPE_CHECKING:
    from headrace.datastream import DataStream, StreamExecutionEnvironment


def test_execution_plan(env: StreamExecutionEnvironment) -> None:
    numbers = env.set_parallelism(2).from_sequence(1, 3)
    numbers.key_by(lambda x: x).sum().set_description("rolling sums").print().name("out").set_parallelism(1)
    assert json.loads(env.get_execution_plan()) == {
        "nodes": [
            {
                "id": 0,
                "type": "Sequence Source",
                "pact": "Data Source",
                "contents": "Sequence Source",
                "parallelism": 2,
            },
            {
                "id": 1,
                "type": "Sum",
                "pact": "Operator",
                "contents": "rolling sums",
                "parallelism": 2,
                "predecessors": [{"id": 0, "ship_strategy": "HASH", "side": "first"}],
            },
            {
                "id": 2,
                "type": "out",
                "pact": "Data Sink",
                "contents": "out",
                "parallelism": 1,
                "predecessors": [{"id": 1, "ship_strategy": "REBALANCE", "side": "first"}],
            },
        ]
    }


def test_explain(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(2).from_sequence(1, 3).map(str).uid("text").print()
    plan = env.explain()
    assert "Stage 0, parallelism 2" in plan
    assert "uid text" in plan


def test_the_plan_as_a_picture(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(2).from_sequence(1, 3).map(str).uid("text").print()
    root = ElementTree.fromstring(env.to_svg())
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Stage 0", "parallelism 2", "uid text", "Print to Std. Out"} <= set(texts)


def test_looking_at_the_plan_does_not_take_the_job(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 3).print()
    assert env.explain() == env.explain()
    assert env.to_svg() == env.to_svg()


def test_there_has_to_be_a_job(env: StreamExecutionEnvironment, endless: DataStream) -> None:
    with pytest.raises(InvalidProgramError, match="nothing was built"):
        env.get_execution_plan()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    endless.print()
    with pytest.raises(InvalidProgramError, match="is unbounded"):
        env.explain()
